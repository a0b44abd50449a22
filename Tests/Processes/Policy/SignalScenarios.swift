import Culprit
import Dispatch
import Glibc
import Programs
import SimulatedClock
import StuckDisk
import Synchronization
import TestWorkloads

private let steps = Atomic<Int>(0)
private let reports = Atomic<Int>(0)
private let places = Mutex<Set<String>>([])

/// Waits until `condition` holds, for 40 s at most.
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

private func ownThreads() -> [(id: Int32, name: String)] {
  allThreads().filter { $0.name.hasPrefix("culprit-") }.sorted { $0.name < $1.name }
}

/// Returns the signals that a thread blocks, or `nil` after its end.
private func mask(of id: Int32) -> UInt64? {
  let line = readFile("/proc/self/task/\(id)/status").split(separator: "\n").first { $0.hasPrefix("SigBlk:") }
  return line.flatMap { UInt64($0.dropFirst(8), radix: 16) }
}

/// Starts a program. Returns the signals that it blocks.
private func blockedInChild() -> String {
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0 else { return "no pipe" }
  var actions = posix_spawn_file_actions_t()
  posix_spawn_file_actions_init(&actions)
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
  defer { posix_spawn_file_actions_destroy(&actions) }
  let arguments: [UnsafeMutablePointer<CChar>?] = [strdup("grep"), strdup("SigBlk"), strdup("/proc/self/status"), nil]
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

/// Prints the signals blocked in the calling thread, and records `place`.
private func sayMask(_ place: String) {
  say("mask.\(place)=\(hexadecimal(workload_blocked_signals()))")
  places.withLock { _ = $0.insert(place) }
}

@inline(never)
private func waitFor(_ expected: Set<String>) -> Bool { clock.wait { places.withLock { $0.isSuperset(of: expected) } } }

/// Prints the signals that are blocked in each kind of handler, in a program that a handler starts, and in each thread
/// of the watchdog between handlers: `masks DIRECTORY`.
@Sendable func sayMasks(_ arguments: [String]) throws {
  guard arguments.count == 1 else { exit(2) }
  workload_block_signal(SIGUSR1)
  clock.begin()
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
  // The application blocks another signal after the start.
  workload_block_signal(SIGUSR2)
  loop.withTurn { _ = waitFor(["began", "hang", "terminate"]) }
  say("complete=\(waitFor(["began", "hang", "terminate", "stall", "leaked", "context", "ping", "expiration"]))")
  // Waits until no thread runs a handler.
  clock.settle()
  for (id, name) in ownThreads() { say("thread.\(name)=\(mask(of: id).map(hexadecimal) ?? "gone")") }
  activity.end()
  _ = withExtendedLifetime((pinged, watchedQueue)) { watchdog.stop(patience: .seconds(10)) }
}

/// Reads SIGTERM from a descriptor before, during and after handlers of a watchdog.
@Sendable func readSignals(_ arguments: [String]) throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .seconds(1000)
  let watchdog = try Watchdog(configuration)
  let isHandling = Atomic<Int>(0)
  for _ in 0..<2 {
    watchdog.onStallBegan { _ in
      isHandling.add(1, ordering: .sequentiallyConsistent)
      wait { steps.load(ordering: .sequentiallyConsistent) > 0 }
      reports.add(1, ordering: .sequentiallyConsistent)
    }
  }
  watchdog.onStall { _ in reports.add(1, ordering: .sequentiallyConsistent) }
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
  // Waits for handlers that began before SIGTERM was blocked, and for threads that they started: these do not block
  // SIGTERM.
  let before = pings.load(ordering: .sequentiallyConsistent)
  wait {
    isExpired.load(ordering: .sequentiallyConsistent) && pings.load(ordering: .sequentiallyConsistent) > before + 1
      && allThreads().allSatisfy { mask(of: $0.id).map { $0 & 1 << UInt64(SIGTERM - 1) != 0 } ?? true }
  }
  let loop = try watchdog.watchLoop(named: "http")
  func term(_ place: String) {
    // Reads each signal before the next one, because a pending signal absorbs another.
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
  wait { reports.load(ordering: .sequentiallyConsistent) == 3 }
  term("after")
  activity.end()
  _ = withExtendedLifetime(pinged) { watchdog.stop(patience: .seconds(10)) }
  say("ended=true")
}

/// Alternates between computing and waiting for any signal, for longer than the threshold.
@Sendable func waitForSignals(_ arguments: [String]) throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(100), interval: .milliseconds(10)))
  watchdog.onStall { _ in }
  // Blocks the signals before the thread is watched, because the watchdog keeps an observed signal mask for some
  // seconds.
  _ = workload_compute_and_wait_for_signals(0, 0, 0)
  let loop = try watchdog.watchLoop(named: "signals")
  for work in [5, 50, 150] as [UInt64] {
    loop.withTurn {
      let wakeups = watchdog.status.wakeups
      var came: Int32 = 0
      while came == 0, watchdog.status.wakeups < wakeups + 30 {
        let end = workload_now_ns() + 300_000_000
        came = workload_compute_and_wait_for_signals(work * 1_000_000, 20_000_000, end)
      }
      say("came=\(came)")
    }
  }
  watchdog.stop(patience: .seconds(10))
}

/// Reports to a standard error that is a pipe without a reader, or a full file: `report-to-nobody pipe|file PATH`.
@Sendable func reportToNobody(_ arguments: [String]) throws {
  guard arguments.count == 2 else { exit(2) }
  if arguments[0] == "pipe" { workload_break_standard_error() } else { workload_fill_standard_error(arguments[1]) }
  // The thread that starts the watchdog prints a message about this value.
  setenv("CULPRIT_INTERVAL", "nonsense", 1)
  clock.begin()
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .milliseconds(600)
  let watchdog = try Watchdog(configuration)
  watchdog.onTerminate { _ in .veto }
  // SIGPIPE and SIGXFSZ are unblocked in handlers. A signal that is pending after an earlier write ends the process in
  // a handler.
  watchdog.onStallBegan { _ in reports.add(1, ordering: .sequentiallyConsistent) }
  _ = try watchdog.beginActivity("dropped")
  let expired = try watchdog.beginActivity("expired", threshold: .milliseconds(50)) {}
  let loop = try watchdog.watchLoop(named: "http")
  for _ in 0..<2 { loop.withTurn { clock.block(for: .milliseconds(1500)) } }
  expired.end()
  watchdog.stop(patience: .seconds(10))
  say("told=\(reports.load(ordering: .sequentiallyConsistent) >= 2)")
  var pending = sigset_t()
  sigpending(&pending)
  say("pending=\(sigismember(&pending, SIGPIPE) + sigismember(&pending, SIGXFSZ))")
  say("blocked=\(hexadecimal(workload_blocked_signals()))")
  say("ended=true")
}

/// Gets stuck while standard error is a full pipe: `report-to-full-pipe alone|beside-stuck`. One handler vetoes the
/// termination; with `beside-stuck`, another handler is stuck.
@Sendable func reportToFullPipe(_ arguments: [String]) throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .milliseconds(600)
  let watchdog = try Watchdog(configuration)
  if arguments.first == "beside-stuck" { watchdog.onTerminate { _ in while true { usleep(1_000_000) } } }
  watchdog.onTerminate { _ in
    reports.add(1, ordering: .sequentiallyConsistent)
    return .veto
  }
  let loop = try watchdog.watchLoop(named: "http")
  // The reading end stays open.
  _ = fillPipe(STDERR_FILENO)
  for round in 1...2 {
    loop.withTurn { say("asked=\(wait { reports.load(ordering: .sequentiallyConsistent) == round })") }
  }
  // `stop` must not wait for the thread that writes to the pipe.
  watchdog.stop(patience: .milliseconds(100))
  say("ended=true")
  _exit(0)
}

/// Dies in the given way under a watchdog that notes crashes, with or without an earlier signal handler:
/// `die DIRECTORY WAY [SIGNAL RECOVERY [WAY]]`.
@Sendable func dieNoted(_ arguments: [String]) throws {
  guard arguments.count == 2 || arguments.count >= 4, arguments.count < 4 || Int32(arguments[2]) != nil else { exit(2) }
  if arguments.count >= 4, let signal = Int32(arguments[2]) { workload_recover_from(signal, arguments[3]) }
  let watchdog = try Watchdog(Watchdog.Configuration(directory: arguments[0]))
  waitForNotes()
  for _ in 0..<(arguments.count >= 4 ? 3 : 1) {
    say("survived=\(workload_die_or_jump(arguments[1])) \(workload_recovered())")
  }
  if arguments.count == 5 { say("survived=\(workload_die(arguments[4]))") }
  kill(getpid(), SIGKILL)
  watchdog.stop(patience: .seconds(10))
}

private func isAsleep(_ thread: Int32) -> Bool { readFile("/proc/self/task/\(thread)/stat").contains(") S ") }

private func waitForNotes() {
  while !allThreads().contains(where: { $0.name == "culprit-note" }) { usleep(10_000) }
}

/// Dies of a signal to the thread that writes crash notes: `die-noting DIRECTORY SIGNAL`. The kernel delivers a
/// process's signal to this thread if all other threads block it.
@Sendable func dieNoting(_ arguments: [String]) throws {
  guard arguments.count == 2, let signal = Int32(arguments[1]) else { exit(2) }
  let watchdog = try Watchdog(Watchdog.Configuration(directory: arguments[0]))
  waitForNotes()
  // A thread that is asleep twice, 100 ms apart, waits for crashes.
  for thread in allThreads() where thread.name == "culprit-note" {
    for _ in 0..<2 {
      while !isAsleep(thread.id) { usleep(10_000) }
      usleep(100_000)
    }
    workload_signal_thread(thread.id, signal)
  }
  usleep(10_000_000)
  say("survived=true")
  watchdog.stop(patience: .seconds(10))
}

/// Dies of an invalid instruction under the last of several watchdogs: `die-after-restart DIRECTORY calling|restoring`.
/// A crash reporter is installed under the first watchdog.
@Sendable func dieAfterRestart(_ arguments: [String]) throws {
  guard arguments.count == 2 else { exit(2) }
  let configuration = Watchdog.Configuration(directory: arguments[0])
  for number in 0..<2 {
    let watchdog = try Watchdog(configuration)
    if number == 0 { workload_recover_from(SIGILL, arguments[1]) }
    say("stopped=\(watchdog.stop(patience: .seconds(20)))")
  }
  let last = try Watchdog(configuration)
  waitForNotes()
  // Ends a process whose fault recurs.
  alarm(20)
  withExtendedLifetime(last) { say("survived=\(workload_die("no-instruction"))") }
}

/// Starts a watchdog on a thread with unusual scheduling. Prints the scheduling of each thread of the watchdog.
@Sendable func startOnUnusualThread(_ arguments: [String]) throws {
  @Sendable func described(_ id: Int32) -> String {
    var text = [CChar](repeating: 0, count: 200)
    workload_describe_thread(id, &text, UInt64(text.count))
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
  say("main=\(described(getpid()))")
  let thread = startThread {
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
        reports.add(1, ordering: .sequentiallyConsistent)
      }
      let queue = DispatchQueue(label: "pinged")
      let pinged = try watchdog.watchLoop(named: "pinged") { ping in queue.async { ping() } }
      let activity = try watchdog.beginActivity("upload", threshold: .seconds(50)) {}
      let loop = try watchdog.watchLoop(named: "http")
      loop.withTurn { _ = wait { reports.load(ordering: .sequentiallyConsistent) > 0 } }
      for (id, name) in ownThreads() { say("thread.\(name)=\(described(id))") }
      activity.end()
      _ = withExtendedLifetime(pinged) { watchdog.stop(patience: .seconds(10)) }
    } catch {
      say("error=\(error)")
    }
  }
  pthread_join(thread, nil)
}
