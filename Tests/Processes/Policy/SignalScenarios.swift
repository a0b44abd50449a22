import Culprit
import Dispatch
import Glibc
import StuckDisk
import Synchronization
import TestWorkloads

private let steps = Atomic<Int>(0)
private let told = Atomic<Int>(0)
private let places = Mutex<Set<String>>([])

/// Waits in mid-stall.
@inline(never)
private func holdUp(_ milliseconds: Int) {
  let end = ContinuousClock.now + .milliseconds(milliseconds)
  while ContinuousClock.now < end { usleep(10_000) }
}

/// Waits until `condition` holds, for so long that only what never comes is missed.
@discardableResult
private func wait(for condition: () -> Bool) -> Bool {
  let end = ContinuousClock.now + .seconds(40)
  while !condition() {
    guard ContinuousClock.now < end else { return false }
    usleep(5_000)
  }
  return true
}

private func hexadecimal(_ mask: UInt64) -> String { String(mask, radix: 16) }

private func content(_ path: String) -> String {
  let descriptor = open(path, O_RDONLY | O_CLOEXEC)
  guard descriptor >= 0 else { return "" }
  defer { close(descriptor) }
  var text = [UInt8](repeating: 0, count: 4096)
  let count = read(descriptor, &text, text.count)
  return String(decoding: text.prefix(max(count, 0)), as: UTF8.self)
}

/// The threads of the process, by name.
private func threads() -> [(id: Int32, name: String)] {
  guard let directory = opendir("/proc/self/task") else { return [] }
  defer { closedir(directory) }
  var found: [(id: Int32, name: String)] = []
  while let entry = readdir(directory) {
    let number = withUnsafeBytes(of: entry.pointee.d_name) { name in
      Int32(String(decoding: name.prefix { $0 != 0 }, as: UTF8.self))
    }
    guard let number else { continue }
    found.append((number, content("/proc/self/task/\(number)/comm").filter { !$0.isNewline }))
  }
  return found.sorted { $0.name < $1.name }
}

/// Those of the watchdog.
private func ownThreads() -> [(id: Int32, name: String)] { threads().filter { $0.name.hasPrefix("culprit-") } }

/// The signals that a thread blocks; `nil` when it is gone.
private func mask(of id: Int32) -> UInt64? {
  let line = content("/proc/self/task/\(id)/status").split(separator: "\n").first { $0.hasPrefix("SigBlk:") }
  return line.flatMap { UInt64($0.dropFirst(8), radix: 16) }
}

/// What a program that is started by the calling thread blocks.
private func blockedInChild() -> String {
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0 else { return "no pipe" }
  var actions = posix_spawn_file_actions_t()
  posix_spawn_file_actions_init(&actions)
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
  defer { posix_spawn_file_actions_destroy(&actions) }
  let arguments: [UnsafeMutablePointer<CChar>?] = [
    strdup("grep"), strdup("SigBlk"), strdup("/proc/self/status"), nil,
  ]
  defer { arguments.forEach { free($0) } }
  var child: pid_t = 0
  let error = posix_spawn(&child, "/bin/grep", &actions, nil, arguments, environ)
  close(ends[1])
  defer { close(ends[0]) }
  guard error == 0 else { return "not started: \(error)" }
  var text = [UInt8](repeating: 0, count: 256)
  let count = read(ends[0], &text, text.count)
  waitpid(child, nil, 0)
  let line = String(decoding: text.prefix(max(count, 0)), as: UTF8.self)
  let digits = line.drop { $0 != "\t" }.dropFirst().prefix { !$0.isWhitespace }
  return UInt64(digits, radix: 16).map(hexadecimal) ?? "unreadable"
}

/// Says what is blocked here, and notes that it has.
private func sayMask(_ place: String) {
  say("mask.\(place)=\(hexadecimal(workload_blocked_signals()))")
  places.withLock { _ = $0.insert(place) }
}

/// Waits until each of `expected` has said what is blocked there.
@inline(never)
private func waitFor(_ expected: Set<String>) -> Bool { wait { places.withLock { $0.isSuperset(of: expected) } } }

/// Every kind of handler says what is blocked while it runs; so does what one of them starts. Then what each thread of
/// the watchdog blocks while it waits.
@Sendable func sayMasks(_ arguments: [String]) throws {
  guard arguments.count == 1 else {
    say("usage: policy-process masks DIRECTORY")
    exit(2)
  }
  workload_block_signal(SIGUSR1)
  var configuration = Watchdog.Configuration(
    threshold: .milliseconds(200),
    interval: .milliseconds(50),
    directory: arguments[0]
  )
  configuration.sampling.hangThreshold = .milliseconds(400)
  configuration.lifecycle.terminateAfter = .milliseconds(600)
  let watchdog = try Watchdog(configuration)
  watchdog.onStallBegan { _ in
    say("child=\(blockedInChild())")
    sayMask("began")
  }
  watchdog.onHang { _ in sayMask("hang") }
  watchdog.onStall { _ in sayMask("stall") }
  watchdog.onTerminate { _ in
    sayMask("terminate")
    return .veto
  }
  watchdog.onLeakedActivity { _ in sayMask("leaked") }
  watchdog.addContext("mask") {
    sayMask("context")
    return ""
  }
  let queue = DispatchQueue(label: "pinged")
  let isPinged = Atomic<Bool>(false)
  let pinged = try watchdog.watchLoop(named: "pinged") { ping in
    if !isPinged.exchange(true, ordering: .sequentiallyConsistent) { sayMask("ping") }
    queue.async { ping() }
  }
  let watchedQueue = try watchdog.watchQueue(queue)
  let activity = try watchdog.beginActivity("upload", threshold: .milliseconds(50)) { sayMask("expiration") }
  let loop = try watchdog.watchLoop(named: "http")
  // Whoever has started a watchdog may change its mind about what it is sent.
  workload_block_signal(SIGUSR2)
  loop.withTurn { _ = waitFor(["began", "hang", "terminate"]) }
  say("complete=\(waitFor(["began", "hang", "terminate", "stall", "leaked", "context", "ping", "expiration"]))")
  usleep(300_000)
  for (id, name) in ownThreads() {
    // One that is in a handler, the pinged loop's for one, has the mask of its creator; one that just creates another thread has all
    // signals blocked by the C library, also the C library's own. It is looked at until it is neither.
    var found = mask(of: id)
    let (asked, libraryOwn) = (UInt64(1) << UInt64(SIGTERM - 1), UInt64(1) << 32)
    for _ in 0..<1000 where found.map({ $0 & asked == 0 || $0 & libraryOwn != 0 }) ?? false {
      usleep(5000)
      found = mask(of: id)
    }
    say("thread.\(name)=\(found.map(hexadecimal) ?? "gone")")
  }
  activity.end()
  withExtendedLifetime((pinged, watchedQueue)) { watchdog.stop() }
}

/// Starts a watchdog, and has SIGTERM come by a descriptor from then on, while handlers run and while they do not.
@Sendable func readSignals(_ arguments: [String]) throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .seconds(1000)
  let watchdog = try Watchdog(configuration)
  let isHandling = Atomic<Int>(0)
  for _ in 0..<2 {
    watchdog.onStallBegan { _ in
      isHandling.add(1, ordering: .sequentiallyConsistent)
      wait { steps.load(ordering: .sequentiallyConsistent) > 0 }
      told.add(1, ordering: .sequentiallyConsistent)
    }
  }
  watchdog.onStall { _ in told.add(1, ordering: .sequentiallyConsistent) }
  let queue = DispatchQueue(label: "pinged")
  let pings = Atomic<Int>(0)
  let pinged = try watchdog.watchLoop(named: "pinged") { ping in
    pings.add(1, ordering: .sequentiallyConsistent)
    queue.async { ping() }
  }
  let isExpired = Atomic<Bool>(false)
  let activity = try watchdog.beginActivity("upload", threshold: .milliseconds(50)) {
    isExpired.store(true, ordering: .sequentiallyConsistent)
  }
  let descriptor = workload_read_by_descriptor(SIGTERM)
  // What the application had running before, handlers and what they have started, lets the signal in still.
  let before = pings.load(ordering: .sequentiallyConsistent)
  wait {
    isExpired.load(ordering: .sequentiallyConsistent) && pings.load(ordering: .sequentiallyConsistent) > before + 1
      && threads().allSatisfy { mask(of: $0.id).map { $0 & 1 << UInt64(SIGTERM - 1) != 0 } ?? true }
  }
  let loop = try watchdog.watchLoop(named: "http")
  func term(_ place: String) {
    // A pending one swallows the next: each is read before the next is sent.
    for _ in 0..<20 {
      kill(getpid(), SIGTERM)
      var information = [UInt8](repeating: 0, count: 128)
      _ = read(descriptor, &information, information.count)
    }
    say("survived=\(place)")
  }
  term("idle")
  loop.withTurn {
    say("handling=\(wait { isHandling.load(ordering: .sequentiallyConsistent) == 2 })")
    term("handling")
    steps.store(1, ordering: .sequentiallyConsistent)
  }
  wait { told.load(ordering: .sequentiallyConsistent) == 3 }
  term("after")
  activity.end()
  withExtendedLifetime(pinged) { watchdog.stop() }
  say("ended=true")
}

/// Waits for signals, whichever they are, in between computing, and is stuck in that.
@Sendable func waitForSignals(_ arguments: [String]) throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(100), interval: .milliseconds(10)))
  watchdog.onStall { _ in }
  let loop = try watchdog.watchLoop(named: "signals")
  for work in [5, 50, 700] as [UInt64] {
    loop.withTurn {
      let end = workload_now_ns() + 3_000_000_000
      say("came=\(workload_compute_and_wait_for_signals(work * 1_000_000, 20_000_000, end))")
    }
  }
  say("captures=\(watchdog.status.captures > 0)")
  watchdog.stop()
}

/// Reports to a standard error that is a pipe without a reader, or a file that is full, and goes on.
@Sendable func reportToNobody(_ arguments: [String]) throws {
  guard arguments.count == 2 else {
    say("usage: policy-process report-to-nobody pipe|file PATH")
    exit(2)
  }
  if arguments[0] == "pipe" { workload_break_standard_error() } else { workload_fill_standard_error(arguments[1]) }
  // The first words come from the thread that starts the watchdog.
  setenv("CULPRIT_INTERVAL", "nonsense", 1)
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .milliseconds(600)
  let watchdog = try Watchdog(configuration)
  watchdog.onTerminate { _ in .veto }
  // Handlers let the signals in that a write before may have left behind.
  watchdog.onStallBegan { _ in told.add(1, ordering: .sequentiallyConsistent) }
  _ = try watchdog.beginActivity("dropped")
  let expired = try watchdog.beginActivity("expired", threshold: .milliseconds(50)) {}
  let loop = try watchdog.watchLoop(named: "http")
  for _ in 0..<2 { loop.withTurn { holdUp(1_500) } }
  expired.end()
  watchdog.stop()
  say("told=\(told.load(ordering: .sequentiallyConsistent) >= 2)")
  var pending = sigset_t()
  sigpending(&pending)
  say("pending=\(sigismember(&pending, SIGPIPE) + sigismember(&pending, SIGXFSZ))")
  say("blocked=\(hexadecimal(workload_blocked_signals()))")
  say("ended=true")
}

/// Gets stuck while standard error is a pipe that nobody reads and that takes nothing more, beside a handler of the end
/// that never comes back, and is kept by another one.
@Sendable func reportToFullPipe(_ arguments: [String]) throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .milliseconds(600)
  let watchdog = try Watchdog(configuration)
  if arguments.first == "beside-stuck" { watchdog.onTerminate { _ in while true { usleep(1_000_000) } } }
  watchdog.onTerminate { _ in
    told.add(1, ordering: .sequentiallyConsistent)
    return .veto
  }
  let loop = try watchdog.watchLoop(named: "http")
  // Its other end stays open.
  _ = fillPipe(STDERR_FILENO)
  for round in 1...2 {
    loop.withTurn { say("asked=\(wait { told.load(ordering: .sequentiallyConsistent) == round })") }
  }
  // Who waits for the pipe is not waited for.
  watchdog.stop(patience: .milliseconds(100))
  say("ended=true")
  _exit(0)
}

/// Dies in a way, under a watchdog that notes it, with or without a handler that was there before:
/// `die DIRECTORY WAY [SIGNAL RECOVERY [WAY]]`.
@Sendable func dieNoted(_ arguments: [String]) throws {
  guard arguments.count == 2 || arguments.count >= 4, arguments.count < 4 || Int32(arguments[2]) != nil else {
    say("usage: policy-process die DIRECTORY WAY [SIGNAL returning|jumping|dying [WAY]]")
    exit(2)
  }
  if arguments.count >= 4, let signal = Int32(arguments[2]) { workload_recover_from(signal, arguments[3]) }
  let watchdog = try Watchdog(Watchdog.Configuration(directory: arguments[0]))
  waitForNotes()
  for _ in 0..<(arguments.count >= 4 ? 3 : 1) {
    say("survived=\(workload_die_or_jump(arguments[1])) \(workload_recovered())")
  }
  if arguments.count == 5 { say("survived=\(workload_die(arguments[4]))") }
  kill(getpid(), SIGKILL)
  watchdog.stop()
}

private func isAsleep(_ thread: Int32) -> Bool { content("/proc/self/task/\(thread)/stat").contains(") S ") }

/// Waits until what the process dies of is noted: the disk may be slow.
private func waitForNotes() {
  while !threads().contains(where: { $0.name == "culprit-note" }) { usleep(10_000) }
}

/// Dies by a signal of which the thread is told that writes notes: `die-noting DIRECTORY SIGNAL`. A process whose own threads
/// block all signals dies so of every one that is sent to it.
@Sendable func dieNoting(_ arguments: [String]) throws {
  guard arguments.count == 2, let signal = Int32(arguments[1]) else {
    say("usage: policy-process die-noting DIRECTORY SIGNAL")
    exit(2)
  }
  let watchdog = try Watchdog(Watchdog.Configuration(directory: arguments[0]))
  waitForNotes()
  // It has nothing to do but to wait, once it has begun.
  for thread in threads() where thread.name == "culprit-note" {
    for _ in 0..<2 {
      while !isAsleep(thread.id) { usleep(10_000) }
      usleep(100_000)
    }
    workload_signal_thread(thread.id, signal)
  }
  usleep(10_000_000)
  say("survived=true")
  watchdog.stop()
}

/// Dies of an instruction that there is not, under the last of several watchdogs: `die-after-restart DIRECTORY
/// calling|restoring`. Somebody's crash reporter was installed while the first one ran.
@Sendable func dieAfterRestart(_ arguments: [String]) throws {
  guard arguments.count == 2 else {
    say("usage: policy-process die-after-restart DIRECTORY calling|restoring")
    exit(2)
  }
  let configuration = Watchdog.Configuration(directory: arguments[0])
  for number in 0..<2 {
    let watchdog = try Watchdog(configuration)
    if number == 0 { workload_recover_from(SIGILL, arguments[1]) }
    say("stopped=\(watchdog.stop(patience: .seconds(20)))")
  }
  let last = try Watchdog(configuration)
  waitForNotes()
  // A fault that nobody ends comes for ever.
  alarm(20)
  withExtendedLifetime(last) { say("survived=\(workload_die("no-instruction"))") }
}

/// Starts a watchdog on a thread that is scheduled in an unusual way, and says how those of the watchdog are.
@Sendable func startOnUnusualThread(_ arguments: [String]) throws {
  @Sendable func described(_ id: Int32) -> String {
    var text = [CChar](repeating: 0, count: 200)
    workload_describe_thread(id, &text, UInt64(text.count))
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
  say("main=\(described(getpid()))")
  let thread = Unmanaged.passRetained(
    Job {
      say("real-time=\(workload_become_unusual())")
      say("creator=\(described(stuck_disk_own_thread()))")
      do {
        var configuration = Watchdog.Configuration(
          threshold: .milliseconds(200),
          interval: .milliseconds(50),
          directory: arguments.first
        )
        configuration.lifecycle.terminateAfter = .seconds(1000)
        let watchdog = try Watchdog(configuration)
        watchdog.onStallBegan { _ in
          say("handler=\(described(stuck_disk_own_thread()))")
          told.add(1, ordering: .sequentiallyConsistent)
        }
        let queue = DispatchQueue(label: "pinged")
        let pinged = try watchdog.watchLoop(named: "pinged") { ping in queue.async { ping() } }
        let activity = try watchdog.beginActivity("upload", threshold: .seconds(50)) {}
        let loop = try watchdog.watchLoop(named: "http")
        loop.withTurn { holdUp(600) }
        wait { told.load(ordering: .sequentiallyConsistent) > 0 }
        for (id, name) in ownThreads() { say("thread.\(name)=\(described(id))") }
        activity.end()
        withExtendedLifetime(pinged) { watchdog.stop() }
      } catch {
        say("error=\(error)")
      }
    }
  )
  var created = pthread_t()
  pthread_create(
    &created,
    nil,
    { job in
      // SAFETY: retained for this thread, which takes it once.
      if let job { Unmanaged<Job>.fromOpaque(job).takeRetainedValue().body() }
      return nil
    },
    thread.toOpaque()
  )
  pthread_join(created, nil)
}

private final class Job: Sendable {
  let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}
