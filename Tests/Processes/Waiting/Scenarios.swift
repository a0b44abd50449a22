import CCulpritLinux
import Dispatch
import Foundation
import Glibc
import Programs
import SimulatedClock
import Synchronization

let scenarios: [String: @Sendable () -> Void] = [
  "mutex": { waitForLock(NSLock()) },
  "recursive": { waitForLock(NSRecursiveLock()) },
  "computing-holder": { waitForLock(NSLock(), whileHeld: computeForLong) },
  "swift-mutex": waitForSwiftMutex,
  "write-lock": { waitForReadWriteLock(held: { pthread_rwlock_wrlock($0) }, wanted: { pthread_rwlock_rdlock($0) }) },
  // A read-write lock does not record its readers.
  "read-lock": { waitForReadWriteLock(held: { pthread_rwlock_rdlock($0) }, wanted: { pthread_rwlock_wrlock($0) }) },
  "join": waitForThread,
  "queue": waitForQueue,
  "once": waitForGlobal,
  "chain": waitForChain,
  "handover": waitForTwoOwners,
  "deadlock": deadlockOfMutexes,
  "deadlock-queue": deadlockOfMutexAndQueue,
  "deadlock-three": deadlockOfThree,
  "self-deadlock": lockTwice,
  "orphan": waitForEndedThread,
  "semaphore": waitForSignal,
  "condition": waitForCondition,
  "sleep": { clock.block(for: .milliseconds(1500)) },
  "stream": waitForStream,
  "file-lock": waitForFile,
  "timed-deadlock": deadlockWithTimeouts,
  "target-queue": waitForTargetQueue,
  "nested-task": stallInNestedSections,
]

let endlessScenarios: Set = [
  "deadlock", "deadlock-queue", "deadlock-three", "self-deadlock", "orphan", "timed-deadlock",
]

/// Stalls in nested sections of one task, first on a blocked thread, then suspended.
private func stallInNestedSections() {
  let isDone = DispatchSemaphore(value: 0)
  Task.detached {
    await watchdog.withSection("request", threshold: .milliseconds(500)) {
      await watchdog.withSection("query", threshold: .milliseconds(600)) {
        rebuildIndex()
        try? await Task.sleep(for: .milliseconds(700))
      }
    }
    isDone.signal()
  }
  answerRequest { isDone.wait() }
}

private func nameThread(_ name: String) {
  try? name.write(toFile: "/proc/thread-self/comm", atomically: false, encoding: .utf8)
}

private let isAnswering = Atomic(false)

private func awaitMainAsleep() {
  while !isAnswering.load(ordering: .acquiring) || !isAsleep("\(getpid())") { usleep(100) }
}

func awaitAllAsleep() {
  let own = "\(clinux_task_self())"
  awaitMainAsleep()
  while true {
    let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
    if threads.allSatisfy({ $0 == own || isAsleep($0) }) { return }
    usleep(100)
  }
}

private func isAsleep(_ thread: String) -> Bool {
  (try? String(contentsOfFile: "/proc/self/task/\(thread)/stat", encoding: .utf8))?.contains(") S ") == true
}

private func onThread(_ name: String, _ body: @escaping @Sendable (_ begun: @Sendable () -> Void) -> Void) {
  let hasBegun = DispatchSemaphore(value: 0)
  let thread = Thread {
    nameThread(name)
    body { hasBegun.signal() }
  }
  thread.start()
  hasBegun.wait()
}

@inline(never) func rebuildIndex() {
  if clinux_task_self() != getpid() { awaitAllAsleep() }
  clock.block(for: .seconds(2))
  kept.add(1, ordering: .relaxed)
}

@inline(never) func computeForLong() {
  if clinux_task_self() != getpid() { awaitAllAsleep() }
  let end = clock.letPass(.milliseconds(1500))
  while clock.now < end { for _ in 0..<10_000 { kept.add(1, ordering: .relaxed) } }
}

/// Modified after calls, because an optimized tail call would leave no frame.
let kept = Atomic(0)

@inline(never) func answerRequest(_ wait: () -> Void) {
  isAnswering.store(true, ordering: .releasing)
  wait()
  kept.add(1, ordering: .relaxed)
}

private func waitForLock(
  _ lock: some NSLocking & Sendable,
  whileHeld body: @escaping @Sendable () -> Void = rebuildIndex
) {
  onThread("keeper") { begun in
    lock.lock()
    begun()
    body()
    lock.unlock()
  }
  answerRequest { lock.lock() }
  lock.unlock()
}

private let value = Synchronization.Mutex(0)

private func waitForSwiftMutex() {
  onThread("keeper") { begun in
    value.withLock { value in
      begun()
      rebuildIndex()
      value += 1
    }
  }
  answerRequest { value.withLock { $0 += 1 } }
}

/// A pthread lock at a fixed address.
private final class ReadWriteLock: @unchecked Sendable {
  // SAFETY: the lock is made for several threads.
  let pointer = UnsafeMutablePointer<pthread_rwlock_t>.allocate(capacity: 1)
  init() { pthread_rwlock_init(pointer, nil) }
}

private func waitForReadWriteLock(
  held: @escaping @Sendable (UnsafeMutablePointer<pthread_rwlock_t>) -> Int32,
  wanted: @escaping (UnsafeMutablePointer<pthread_rwlock_t>) -> Int32
) {
  let lock = ReadWriteLock()
  onThread("keeper") { begun in
    _ = held(lock.pointer)
    begun()
    rebuildIndex()
    pthread_rwlock_unlock(lock.pointer)
  }
  answerRequest { _ = wanted(lock.pointer) }
}

private func waitForThread() {
  let thread = startThread {
    nameThread("keeper")
    rebuildIndex()
  }
  answerRequest { pthread_join(thread, nil) }
}

private func waitForQueue() {
  let queue = DispatchQueue(label: "orders")
  occupy(queue) { rebuildIndex() }
  answerRequest { queue.sync { _ = kept.add(1, ordering: .relaxed) } }
}

private let catalog: Int = {
  isBuilding.signal()
  rebuildIndex()
  return kept.load(ordering: .relaxed)
}()
private let isBuilding = DispatchSemaphore(value: 0)

private func waitForGlobal() {
  Thread.detachNewThread {
    nameThread("keeper")
    kept.add(catalog, ordering: .relaxed)
  }
  isBuilding.wait()
  answerRequest { kept.add(catalog, ordering: .relaxed) }
}

/// A worker holds the lock and waits for a busy queue.
private func waitForChain() {
  let lock = NSLock()
  let queue = DispatchQueue(label: "orders")
  occupy(queue) { rebuildIndex() }
  onThread("keeper") { begun in
    lock.lock()
    begun()
    storeOrder(queue)
    lock.unlock()
  }
  answerRequest { lock.lock() }
}

@inline(never) func storeOrder(_ queue: DispatchQueue) { queue.sync { _ = kept.add(1, ordering: .relaxed) } }

private func waitForTwoOwners() {
  let lock = NSLock()
  let isTaken = DispatchSemaphore(value: 0)
  onThread("first") { begun in
    lock.lock()
    begun()
    isTaken.wait()
    awaitMainAsleep()
    clock.block(for: .milliseconds(800))
    lock.unlock()
  }
  // Mutexes are unfair: a spinning thread gets the lock before a sleeping one.
  onThread("second") { begun in
    begun()
    while !lock.try() {}
    rebuildIndex()
    lock.unlock()
  }
  isTaken.signal()
  answerRequest { lock.lock() }
}

@inline(never) func moveMoney(_ one: NSLock, _ other: NSLock, _ ready: () -> Void) {
  one.lock()
  ready()
  other.lock()
  kept.add(1, ordering: .relaxed)
}

private func deadlockOfMutexes() {
  let (one, other) = (NSLock(), NSLock())
  one.lock()
  onThread("keeper") { begun in moveMoney(other, one, begun) }
  answerRequest { other.lock() }
}

private func deadlockOfMutexAndQueue() {
  let lock = NSLock()
  let queue = DispatchQueue(label: "orders")
  lock.lock()
  occupy(queue) { lock.lock() }
  answerRequest { storeOrder(queue) }
}

private func deadlockOfThree() {
  let locks = (NSLock(), NSLock(), NSLock())
  let areTaken = DispatchSemaphore(value: 0)
  locks.0.lock()
  onThread("two") { begun in
    moveMoney(locks.1, locks.2) {
      begun()
      areTaken.wait()
    }
  }
  onThread("three") { begun in
    moveMoney(locks.2, locks.0) {
      begun()
      areTaken.wait()
    }
  }
  for _ in 0..<2 { areTaken.signal() }
  answerRequest { locks.1.lock() }
}

private func lockTwice() {
  let lock = NSLock()
  lock.lock()
  answerRequest { lock.lock() }
}

private func waitForEndedThread() {
  let lock = NSLock()
  let isGone = DispatchSemaphore(value: 0)
  Thread.detachNewThread {
    lock.lock()
    isGone.signal()
  }
  isGone.wait()
  answerRequest { lock.lock() }
}

private func waitForSignal() {
  let semaphore = DispatchSemaphore(value: 0)
  onThread("keeper") { begun in
    begun()
    rebuildIndex()
    semaphore.signal()
  }
  answerRequest { semaphore.wait() }
}

private func waitForCondition() {
  let condition = NSCondition()
  onThread("keeper") { begun in
    begun()
    rebuildIndex()
    condition.lock()
    condition.signal()
    condition.unlock()
  }
  answerRequest {
    condition.lock()
    condition.wait()
    condition.unlock()
  }
}

/// A stream's lock resembles a mutex, but stores its owner as an address.
private func waitForStream() {
  let stream = Stream()
  onThread("keeper") { begun in
    flockfile(stream.file)
    begun()
    rebuildIndex()
    funlockfile(stream.file)
  }
  answerRequest { flockfile(stream.file) }
}

private func waitForFile() {
  let path = NSTemporaryDirectory() + "culprit-file-lock-\(getpid())"
  let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
  unlink(path)
  let own = "/proc/\(getpid())/fd/\(file)"
  let keeper = Process()
  keeper.executableURL = URL(fileURLWithPath: "/usr/bin/flock")
  keeper.arguments = [own, "sleep", "1"]
  guard (try? keeper.run()) != nil else { exit(77) }
  while flock(file, LOCK_EX | LOCK_NB) == 0 {
    flock(file, LOCK_UN)
    usleep(1_000)
  }
  answerRequest { flock(file, LOCK_EX) }
  keeper.waitUntilExit()
}

private final class Stream: @unchecked Sendable {
  // SAFETY: the C library locks the stream.
  let file = fopen("/dev/null", "w")
}

private final class PlainMutex: @unchecked Sendable {
  // SAFETY: the mutex is made for several threads.
  let pointer = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  init() { pthread_mutex_init(pointer, nil) }

  func lock() { pthread_mutex_lock(pointer) }

  func lock(within milliseconds: Int) {
    var end = timespec()
    clock_gettime(CLOCK_REALTIME, &end)
    end.tv_sec += milliseconds / 1000
    pthread_mutex_timedlock(pointer, &end)
  }
}

private func deadlockWithTimeouts() {
  let (one, other) = (PlainMutex(), PlainMutex())
  one.lock()
  onThread("keeper") { begun in
    other.lock()
    begun()
    one.lock(within: 30_000)
  }
  answerRequest { other.lock(within: 30_000) }
}

/// A thread that waits for a queue with a target already owns the queue, and waits for the target.
private func waitForTargetQueue() {
  let outer = DispatchQueue(label: "outer")
  let inner = DispatchQueue(label: "inner", target: outer)
  let isBusy = DispatchSemaphore(value: 0)
  outer.async {
    isBusy.signal()
    rebuildIndex()
  }
  isBusy.wait()
  answerRequest { inner.sync { _ = kept.add(1, ordering: .relaxed) } }
}
