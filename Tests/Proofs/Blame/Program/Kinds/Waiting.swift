import Dispatch
import Foundation
import NativeWork
import Synchronization

extension Kind {
  static let waiting = [
    Kind("waitForLock", waitForLock), Kind("waitForMutex", waitForMutex), Kind("waitForPlainLock", waitForPlainLock),
    Kind("waitForQueue", waitForQueue), Kind("waitForSemaphore", waitForSemaphore),
    Kind("waitForCondition", waitForCondition), Kind("sleepAWhile", sleepAWhile),
    Kind("computeAndSleep", computeAndSleep),
  ]
}

/// Sleeps until `end`, in one system call unless interrupted.
@inline(__always)
func sleepThread(until end: UInt64) {
  var time = timespec(tv_sec: Int(end / 1_000_000_000), tv_nsec: Int(end % 1_000_000_000))
  while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nil) == EINTR {}
}

/// A thread that runs three closures in turn.
final class Helper: @unchecked Sendable {
  // SAFETY: started in the initializer, and not changed after it.
  private var thread = pthread_t()
  private let isStarted = DispatchSemaphore(value: 0)
  /// Threads whose work is done.
  private static let done = Mutex<[pthread_t]>([])

  /// - Parameters:
  ///   - first: Runs before the initializer returns.
  ///   - body: Runs next.
  ///   - afterwards: Runs last.
  init(
    first: @escaping @Sendable () -> Void = {},
    then body: @escaping @Sendable () -> Void,
    afterwards: @escaping @Sendable () -> Void = {}
  ) {
    let isStarted = isStarted
    thread = startThread {
      first()
      isStarted.signal()
      body()
      afterwards()
    }
    isStarted.wait()
  }

  /// Marks the work as done. Does not wait for the exit of the thread, which can take long on a busy machine.
  func leave() { Self.done.withLock { $0.append(thread) } }

  /// Joins all threads whose work is done.
  static func joinAll() {
    let threads = done.withLock { done in
      defer { done = [] }
      return done
    }
    for thread in threads { pthread_join(thread, nil) }
  }
}

func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t {
  final class Box {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  var thread = pthread_t()
  let error = pthread_create(
    &thread,
    nil,
    { argument in
      // SAFETY: the argument is the box retained below, consumed once.
      if let argument { Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body() }
      return nil
    },
    Unmanaged.passRetained(Box(body)).toOpaque()
  )
  precondition(error == 0, "cannot start a thread: error \(error)")
  return thread
}

@inline(never)
private func waitForLock(until end: UInt64) {
  let lock = NSLock()
  let holder = Helper(first: { lock.lock() }, then: { sleepThread(until: end) }, afterwards: { lock.unlock() })
  lock.lock()
  lock.unlock()
  holder.leave()
}

@inline(never)
private func waitForMutex(until end: UInt64) {
  final class Account: Sendable { let balance = Synchronization.Mutex(0) }
  let account = Account()
  let isHeld = DispatchSemaphore(value: 0)
  let holder = Helper(
    then: {
      account.balance.withLock {
        isHeld.signal()
        sleepThread(until: end)
        $0 += 1
      }
    }
  )
  isHeld.wait()
  keep(account.balance.withLock { $0 })
  holder.leave()
}

@inline(never)
private func waitForPlainLock(until end: UInt64) {
  let lock = PlainLock()
  let holder = Helper(
    first: { pthread_mutex_lock(lock.pointer) },
    then: { sleepThread(until: end) },
    afterwards: { pthread_mutex_unlock(lock.pointer) }
  )
  pthread_mutex_lock(lock.pointer)
  pthread_mutex_unlock(lock.pointer)
  holder.leave()
}

private final class PlainLock: @unchecked Sendable {
  // SAFETY: a pthread lock can be shared by threads. It is freed with the last reference.
  let pointer = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  init() { pthread_mutex_init(pointer, nil) }
  deinit {
    pthread_mutex_destroy(pointer)
    pointer.deallocate()
  }
}

@inline(never)
private func waitForQueue(until end: UInt64) {
  let queue = DispatchQueue(label: "trial")
  let isBusy = DispatchSemaphore(value: 0)
  queue.async {
    isBusy.signal()
    sleepThread(until: end)
  }
  isBusy.wait()
  queue.sync {}
}

@inline(never)
private func waitForSemaphore(until end: UInt64) {
  let semaphore = DispatchSemaphore(value: 0)
  let signaller = Helper(then: { sleepThread(until: end) }, afterwards: { semaphore.signal() })
  semaphore.wait()
  signaller.leave()
}

@inline(never)
private func waitForCondition(until end: UInt64) {
  final class Door: @unchecked Sendable {
    // SAFETY: changed and read under the condition's lock.
    var isOpen = false
    let condition = NSCondition()
  }
  let door = Door()
  let opener = Helper(
    then: { sleepThread(until: end) },
    afterwards: {
      door.condition.lock()
      door.isOpen = true
      door.condition.signal()
      door.condition.unlock()
    }
  )
  door.condition.lock()
  while !door.isOpen { door.condition.wait() }
  door.condition.unlock()
  opener.leave()
}

@inline(never)
private func sleepAWhile(until end: UInt64) {
  while isBefore(end) { usleep(UInt32(clamping: (end - min(end, native_now())) / 1000 + 1)) }
}

/// Computes and sleeps alternately, for equal times.
@inline(never)
private func computeAndSleep(until end: UInt64) {
  var value = 1
  while isBefore(end) {
    let pause = min(end, native_now() + 7_000_000)
    while isBefore(pause) { for _ in 0..<1000 { value = value &* 69_069 &+ 1 } }
    usleep(7000)
  }
  keep(value)
}

/// A counter that returns each number once.
final class Counter: Sendable {
  private let next = Atomic<Int>(0)
  func take() -> Int { next.add(1, ordering: .relaxed).oldValue }
}
