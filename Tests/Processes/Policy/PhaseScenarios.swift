import Culprit
import Glibc
import Synchronization
import TestWorkloads

private let steps = Atomic<Int>(0)
private let isTerminating = Atomic<Bool>(false)

@inline(never)
func startSlowly(_ milliseconds: Int) {
  let end = ContinuousClock.now + .milliseconds(milliseconds)
  while ContinuousClock.now < end { steps.add(1, ordering: .relaxed) }
}

@inline(never)
func endSlowly(_ milliseconds: Int) {
  let end = ContinuousClock.now + .milliseconds(milliseconds)
  while ContinuousClock.now < end { steps.add(1, ordering: .relaxed) }
}

/// How often the program's file is mapped: once more than by the loader while its symbols are read.
private func programLines() -> Int {
  let maps = (try? String(contentsOfFile: "/proc/self/maps", encoding: .utf8)) ?? ""
  return maps.split(separator: "\n").count { $0.hasSuffix("/policy-process") }
}

private func tell(_ watchdog: Watchdog) {
  watchdog.onStall { report in
    say("report=\(report.source.kind.description) \(report.source.name)")
    say("culprit=\(report.culprit?.function.name ?? "nobody")")
    say("ended=\(report.hasEnded)")
    say("share=\(Int((report.culprit?.share ?? 0) * 100))")
    say("main=\(report.thread.id == getpid())")
    say(report.text(width: 400))
  }
}

/// A launch of so many milliseconds, of which the first so many pass before the watchdog is there; 400 are allowed.
@Sendable func launch(_ arguments: [String]) throws {
  guard let whole = arguments.first.flatMap({ Int($0) }), let head = arguments.last.flatMap({ Int($0) }) else {
    exit(2)
  }
  usleep(UInt32(head) * 1000)
  var configuration = Watchdog.Configuration(interval: .milliseconds(50))
  configuration.lifecycle.launchThreshold = .milliseconds(400)
  let watchdog = try Watchdog(configuration)
  tell(watchdog)
  startSlowly(whole - head)
  watchdog.launched()
  // Is nobody's launch.
  endSlowly(600)
  watchdog.stop(patience: .seconds(60))
  // Nor is what comes after another watchdog has been started.
  let second = try Watchdog(configuration)
  tell(second)
  endSlowly(600)
  second.stop(patience: .seconds(60))
  say("done=true")
}

/// Becomes itself anew after two seconds, and then launches in less time than the second that is allowed.
@Sendable func launchAnew(_ arguments: [String]) throws {
  guard arguments.first == "again" else {
    usleep(2_000_000)
    let again: [UnsafeMutablePointer<CChar>?] = [strdup("policy-process"), strdup("launch-anew"), strdup("again"), nil]
    execv("/proc/self/exe", again)
    say("error=\(errno)")
    exit(1)
  }
  var configuration = Watchdog.Configuration(threshold: .seconds(1), interval: .milliseconds(50))
  configuration.lifecycle.launchThreshold = .seconds(1)
  configuration.lifecycle.terminateAfter = .seconds(1)
  let watchdog = try Watchdog(configuration)
  tell(watchdog)
  // Some ticks of the monitor.
  usleep(400_000)
  watchdog.launched()
  watchdog.stop(patience: .seconds(60))
  say("done=true")
}

/// A launch that takes too long, while everything that can be watched is what an earlier watchdog watched.
@Sendable func launchWithoutRoom(_ arguments: [String]) throws {
  let first = try Watchdog()
  var sections: [WatchedSection] = []
  repeat {
    sections.append(first.beginSection("held", threshold: .seconds(60)))
  } while sections.last?.isWatched == true
  first.stop()
  var configuration = Watchdog.Configuration(interval: .milliseconds(50))
  configuration.lifecycle.launchThreshold = .milliseconds(400)
  let watchdog = try Watchdog(configuration)
  tell(watchdog)
  startSlowly(600)
  watchdog.launched()
  watchdog.stop(patience: .seconds(60))
  withExtendedLifetime(sections) { say("done=true") }
}

private let onTerminate: @convention(c) (Int32) -> Void = { _ in isTerminating.store(true, ordering: .releasing) }

private func handler() -> UnsafeMutableRawPointer? {
  var action = sigaction()
  sigaction(SIGTERM, nil, &action)
  return unsafeBitCast(action.__sigaction_handler.sa_handler, to: UnsafeMutableRawPointer?.self)
}

/// A shutdown that begins and is handled in a given way and lasts so many milliseconds; 300 are allowed. The file READY
/// says that SIGTERM may come.
@Sendable func shutDown(_ arguments: [String]) throws {
  guard arguments.count == 3, let milliseconds = Int(arguments[1]) else { exit(2) }
  let way = arguments[0]
  if way == "before" { signal(SIGTERM, onTerminate) }
  let former = handler()
  var configuration = Watchdog.Configuration(interval: .milliseconds(50))
  configuration.lifecycle.shutdownThreshold = .milliseconds(300)
  configuration.lifecycle.noticesTermination = way != "said"
  let watchdog = try Watchdog(configuration)
  tell(watchdog)
  let lines = programLines()
  if way == "after" || way == "replaced" { signal(SIGTERM, onTerminate) }
  if way == "said" {
    watchdog.shuttingDown()
  } else {
    let own = unsafeBitCast(onTerminate, to: UnsafeMutableRawPointer?.self)
    if way != "default" { while handler() == own { usleep(1000) } }
    if way == "replaced" {
      signal(SIGTERM, onTerminate)
      say("problem=\(watchdog.status.problems.first ?? "none")")
      return watchdog.stop()
    }
    if way == "default" {
      // Long enough to be looked at, and left alone.
      let wakeups = watchdog.status.wakeups
      while watchdog.status.wakeups < wakeups + 6 { usleep(10_000) }
      say("untouched=\(handler() == former)")
    }
    close(open(arguments[2], O_WRONLY | O_CREAT, 0o600))
    while !isTerminating.load(ordering: .acquiring) { usleep(10_000) }
  }
  say("handled=true")
  endSlowly(milliseconds)
  if milliseconds > 300 {
    // What its report needs is read before the exit.
    var left = 600
    while left > 0, programLines() == lines {
      endSlowly(100)
      left -= 1
    }
    say("prepared=\(left > 0)")
    // It has begun to be read by now.
    endSlowly(1000)
  }
  // Without stop(), as most services end.
  exit(0)
}

/// A shutdown that takes too long, and whose report cannot come to its end: `shutdown-held-up stderr|malloc|arena`. Nobody
/// reads standard error, or the handler of a signal exits while its thread has the allocator's lock, which may be the only one.
@Sendable func beHeldUpAtTheEnd(_ arguments: [String]) throws {
  if arguments.first == "arena" { workload_use_one_arena() }
  var configuration = Watchdog.Configuration(interval: .milliseconds(50))
  configuration.lifecycle.shutdownThreshold = .milliseconds(300)
  let watchdog = try Watchdog(configuration)
  watchdog.shuttingDown()
  endSlowly(1200)
  say("late=true")
  // What waits for ever is ended.
  alarm(30)
  if arguments.first != "stderr" { workload_exit_in_malloc(3) }
  let unread = fillPipe(STDERR_FILENO)
  withExtendedLifetime((watchdog, unread)) { exit(3) }
}
