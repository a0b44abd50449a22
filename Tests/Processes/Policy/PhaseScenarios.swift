import Culprit
import Glibc
import Programs
import SimulatedClock
import Synchronization
import TestWorkloads

private let steps = Atomic<Int>(0)
private let isTerminating = Atomic<Bool>(false)

@inline(never)
func startSlowly(_ milliseconds: Int) {
  clock.block(for: .milliseconds(milliseconds))
  steps.add(1, ordering: .relaxed)
}

@inline(never)
func endSlowly(_ milliseconds: Int) {
  clock.block(for: .milliseconds(milliseconds))
  steps.add(1, ordering: .relaxed)
}

private func wallNanoseconds() -> Int {
  var now = timespec()
  clock_gettime(CLOCK_REALTIME, &now)
  return now.tv_sec * 1_000_000_000 + now.tv_nsec
}

private func printReports(of watchdog: Watchdog) {
  watchdog.onStall { report in
    say("report=\(report.source.kind.description) \(report.source.name)")
    say("culprit=\(report.culprit?.function.name ?? "none")")
    say("ended=\(report.hasEnded)")
    say("share=\(Int((report.culprit?.share ?? 0) * 100))")
    say("main=\(report.thread.id == getpid())")
    say("began=\(report.began.nanosecondsSince1970)")
    say(report.text(width: 400))
  }
}

private func configuration(_ change: (inout Watchdog.Configuration.Lifecycle) -> Void) -> Watchdog.Configuration {
  var configuration = Watchdog.Configuration(interval: .milliseconds(50))
  change(&configuration.lifecycle)
  return configuration
}

/// A launch with a threshold of 400 s: `launch MILLISECONDS`.
@Sendable func launch(_ arguments: [String]) throws {
  guard let time = arguments.first.flatMap({ Int($0) }) else { exit(2) }
  clock.begin()
  var configuration = configuration { $0.launchThreshold = .seconds(400) }
  configuration.sampling.threshold = .seconds(400)
  configuration.sampling.interval = .seconds(50)
  let watchdog = try Watchdog(configuration)
  printReports(of: watchdog)
  startSlowly(time)
  watchdog.launched()
  // Later work, also under another watchdog, is not part of the launch.
  endSlowly(600_000)
  watchdog.stop(patience: .seconds(60))
  let second = try Watchdog(configuration)
  printReports(of: second)
  endSlowly(600_000)
  second.stop(patience: .seconds(60))
  say("done=true")
}

/// A launch with a threshold of 400 ms that begins 300 ms before the watchdog.
@Sendable func launchWithHead(_ arguments: [String]) throws {
  usleep(300_000)
  clock.begin()
  let watchdog = try Watchdog(configuration { $0.launchThreshold = .milliseconds(400) })
  printReports(of: watchdog)
  startSlowly(200)
  watchdog.launched()
  watchdog.stop(patience: .seconds(60))
}

/// Executes itself after 300 ms, and then launches in 1.6 s with a threshold of 800 ms.
@Sendable func launchAnew(_ arguments: [String]) throws {
  guard let executed = arguments.first else {
    usleep(300_000)
    let words = ["policy-process", "launch-anew", "\(wallNanoseconds())"]
    execv("/proc/self/exe", words.map { strdup($0) } + [nil])
    say("error=\(errno)")
    exit(1)
  }
  clock.begin()
  let watchdog = try Watchdog(configuration { $0.launchThreshold = .milliseconds(800) })
  printReports(of: watchdog)
  startSlowly(1600)
  watchdog.launched()
  watchdog.stop(patience: .seconds(60))
  say("executed=\(executed)")
}

/// A late launch while every slot belongs to sections of an earlier watchdog.
@Sendable func launchWithoutRoom(_ arguments: [String]) throws {
  clock.begin()
  let first = try Watchdog()
  var sections: [WatchedSection] = []
  repeat {
    sections.append(first.beginSection("held", threshold: .seconds(60)))
  } while sections.last?.isWatched == true
  first.stop(patience: .seconds(10))
  let watchdog = try Watchdog(configuration { $0.launchThreshold = .milliseconds(400) })
  printReports(of: watchdog)
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

/// A shutdown with a threshold of 300 ms: `shutdown before|after|replaced|default|call MILLISECONDS`. It begins with a
/// call or with SIGTERM. The service installs its handler of SIGTERM before or after the watchdog's.
@Sendable func shutDown(_ arguments: [String]) throws {
  guard arguments.count == 2, let milliseconds = Int(arguments[1]) else { exit(2) }
  let way = arguments[0]
  clock.begin()
  if way == "before" { signal(SIGTERM, onTerminate) }
  let former = handler()
  let watchdog = try Watchdog(
    configuration {
      $0.shutdownThreshold = .milliseconds(300)
      $0.noticesTermination = way != "call"
    }
  )
  printReports(of: watchdog)
  switch way {
  case "call": watchdog.shuttingDown()
  case "default":
    // The watchdog checks every 500 ms whether SIGTERM has a handler.
    clock.block(for: .seconds(2))
    say("untouched=\(handler() == former)")
    kill(getpid(), SIGTERM)
  default:
    if way != "before" { signal(SIGTERM, onTerminate) }
    let own = unsafeBitCast(onTerminate, to: UnsafeMutableRawPointer?.self)
    clock.wait { handler() != own }
    if way == "replaced" {
      signal(SIGTERM, onTerminate)
      say("problem=\(watchdog.status.problems.first ?? "none")")
      watchdog.stop(patience: .seconds(10))
      return
    }
    kill(getpid(), SIGTERM)
    clock.wait { isTerminating.load(ordering: .acquiring) }
  }
  say("handled=true")
  endSlowly(milliseconds)
  // Most services exit without stopping the watchdog.
  exit(0)
}

/// Sleeps for a minute after watching the given kind of work: `idle loop|section|activity|off|nothing`.
@Sendable func beIdle(_ arguments: [String]) throws {
  clock.begin()
  var configuration = Watchdog.Configuration()
  configuration.isEnabled = arguments.first != "off"
  let watchdog = try Watchdog(configuration)
  switch arguments.first {
  case "loop": _ = try watchdog.watchLoop(named: "idle")
  case "section": watchdog.withSection("once", threshold: .seconds(1)) {}
  case "activity": try watchdog.beginActivity("once").end()
  default: break
  }
  clock.block(for: .seconds(60))
  watchdog.stop(patience: .seconds(60))
}

/// A late shutdown whose report cannot be completed: `shutdown-held-up stderr|malloc|arena`. Standard error is a full
/// pipe, or the process exits in a signal handler while its thread holds the lock of an arena. With `arena`, the
/// allocator has only one arena.
@Sendable func beHeldUpAtTheEnd(_ arguments: [String]) throws {
  if arguments.first == "arena" { workload_use_arenas(1) }
  clock.begin()
  let watchdog = try Watchdog(configuration { $0.shutdownThreshold = .milliseconds(300) })
  watchdog.shuttingDown()
  endSlowly(1200)
  say("late=true")
  // Simulated time stops while the reporter is blocked.
  clock.end()
  // Ends a process that hangs.
  alarm(30)
  if arguments.first != "stderr" { workload_exit_in_malloc(3) }
  let unread = fillPipe(STDERR_FILENO)
  withExtendedLifetime((watchdog, unread)) { exit(3) }
}
