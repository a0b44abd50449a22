import Culprit
import Dispatch
import Glibc
import Programs
import SimulatedClock

/// The clock of the watchdog: simulated after `begin()`, otherwise the kernel's.
let clock = SimulatedClock()

let scenarios: [String: @Sendable ([String]) throws -> Void] = [
  "settings": { _ in try saySettings() },
  "hang-under-systemd": hangUnderSystemd,
  "terminate": beTerminated,
  "terminate-released": releaseWhatIsStuck,
  "terminate-vetoed": vetoTheEnd,
  "terminate-without-threads": changeWithoutThreads,
  "masks": sayMasks,
  "signalfd": readSignals,
  "report-to-nobody": reportToNobody,
  "report-to-full-pipe": reportToFullPipe,
  "die": dieNoted,
  "die-after-restart": dieAfterRestart,
  "die-noting": dieNoting,
  "wait-for-signals": waitForSignals,
  "unusual": startOnUnusualThread,
  "launch": launch,
  "launch-anew": launchAnew,
  "launch-with-head": launchWithHead,
  "launch-without-room": launchWithoutRoom,
  "shutdown": shutDown,
  "shutdown-held-up": beHeldUpAtTheEnd,
  "idle": beIdle,
  "disabled": { _ in try useEverythingDisabled() },
  "stall": stallOnce,
  "builds": stallInBuilds,
  "stall-at-limits": stallAtLimits,
  "let-go": letGoOfAnActivity,
  "misconfigured": beMisconfigured,
  "nasty": beNasty,
  "yield": yieldToOthers,
  "probe": liveForAProbe,
  "end": end,
  "storm": storm,
  "forks": { try haveChildren(count($0)) { _ in } },
  "forks-exit": { try haveChildren(count($0)) { _ in exit(0) } },
  "forks-watch": { try haveChildren(count($0), watchForThemselves) },
  "forks-fork": { try haveChildren(count($0), haveChildOfTheirOwn) },
  "forks-report": { try haveChildren(count($0), forkWhileReporting) },
  "forks-release": { try haveChildren(count($0), releaseEverything) },
  "daemon": { try becomeDaemon($0) },
  "exec": { try startPrograms($0) },
  "fork-descriptors": { try lookAtDescriptorsInChild($0) },
  "close-all": { try closeAll($0) },
  "close-in-stalls": { try closeInStalls($0) },
  "close-at-start": { try closeAtStart($0) },
  "no-streams": { try startWithoutStreams($0) },
  "read-signals": { _ in try readProfilingSignals() },
  "fork-numbers": { _ in try takeNumberOfThreadInChild() },
  "thread-descriptors": { _ in try countThreadDescriptors() },
  "exempt": { _ in try exemptNobodyElse() },
  "control": beControlled,
  "restarts": { try restart(count($0)) },
]

func count(_ arguments: [String]) -> Int { arguments.first.flatMap { Int($0) } ?? 20 }

private func saySettings() throws {
  let watchdog = try Watchdog()
  let configuration = watchdog.configuration
  say("threshold=\(configuration.sampling.threshold)")
  say("interval=\(configuration.sampling.interval.map { "\($0)" } ?? "none")")
  say("directory=\(configuration.storage.directory ?? "none")")
  say("stack_bytes=\(configuration.sampling.stackBytesMax)")
  say("report_width=\(configuration.reporting.width)")
  say("mode=\(watchdog.status.mode)")
  for problem in watchdog.status.problems { say("problem=\(problem)") }
  watchdog.stop(patience: .seconds(10))
}

private func useEverythingDisabled() throws {
  let watchdog = try Watchdog()
  let second = try Watchdog()
  watchdog.onStall { _ in }
  let loop = try watchdog.watchLoop(named: "main", threshold: .milliseconds(10))
  let queue = try watchdog.watchQueue(.main, named: "queue")
  let concurrency = try watchdog.watchConcurrency()
  let runLoop = try watchdog.watchMainRunLoop()
  loop.withTurn { watchdog.withSection("work", threshold: .milliseconds(10)) {} }
  let timer = watchdog.beginSection("timer", threshold: .milliseconds(10))
  say("watched=\(timer.isWatched)")
  timer.end()
  do { _ = try watchdog.captureThreads() } catch { say("capture=\(error)") }
  try watchdog.reconfigure { $0.sampling.threshold = .seconds(2) }
  say("mode=\(watchdog.status.mode)")
  say("threads=\(allThreads().count)")
  say("handler=\(profilingHandlerIsDefault() ? "default" : "replaced")")
  queue.stop()
  concurrency.stop()
  runLoop.stop()
  loop.stop()
  second.stop(patience: .seconds(10))
  watchdog.stop(patience: .seconds(10))
}

private func profilingHandlerIsDefault() -> Bool {
  var action = sigaction()
  sigaction(SIGPROF, nil, &action)
  return action.__sigaction_handler.sa_handler == nil
}
