import Culprit
import Dispatch
import Glibc

/// What the process can be made to do, by name.
let scenarios: [String: @Sendable ([String]) throws -> Void] = [
  "settings": { _ in try saySettings() },
  "systemd": liveWithSystemd,
  "terminate": beTerminated,
  "masks": sayMasks,
  "signalfd": readSignals,
  "report-to-nobody": reportToNobody,
  "die": dieNoted,
  "wait-for-signals": waitForSignals,
  "unusual": startOnUnusualThread,
  "launch": launch,
  "shutdown": shutDown,
  "disabled": { _ in try useEverythingDisabled() },
  "stall": stallOnce,
  "let-go": letGoOfAnActivity,
  "nasty": beNasty,
]

/// Prints the configuration that holds.
private func saySettings() throws {
  let watchdog = try Watchdog()
  let configuration = watchdog.configuration
  say("threshold=\(configuration.stallThreshold)")
  say("interval=\(configuration.sampleInterval)")
  say("directory=\(configuration.directory ?? "none")")
  say("stack_bytes=\(configuration.stackBytesMax)")
  say("report_width=\(configuration.reportWidth)")
  say("mode=\(watchdog.status.mode)")
  for problem in watchdog.status.problems { say("problem=\(problem)") }
  watchdog.stop()
}

/// Uses a watchdog that was not started in every way there is.
private func useEverythingDisabled() throws {
  let watchdog = try Watchdog()
  let second = try Watchdog()
  watchdog.onStall { _ in say("reported=true") }
  let loop = try watchdog.watchLoop(named: "main", stallThreshold: .milliseconds(10))
  let queue = try watchdog.watch(.main, named: "queue")
  let concurrency = try watchdog.watchConcurrency()
  let runLoop = try watchdog.watchMainRunLoop()
  loop.turn {
    watchdog.section("work", budget: .milliseconds(10)) { _ = usleep(200_000) }
  }
  let timer = watchdog.timer("timer", budget: .milliseconds(10))
  say("watched=\(timer.isWatched)")
  timer.invalidate()
  do { _ = try watchdog.captureThreads() } catch { say("capture=\(error)") }
  try watchdog.reconfigure { $0.stallThreshold = .seconds(2) }
  say("mode=\(watchdog.status.mode)")
  say("threads=\(threadCount())")
  say("handler=\(profilingHandlerIsDefault() ? "default" : "replaced")")
  queue.stop()
  concurrency.stop()
  runLoop.stop()
  loop.stop()
  second.stop()
  watchdog.stop()
}

private func threadCount() -> Int {
  guard let directory = opendir("/proc/self/task") else { return -1 }
  defer { closedir(directory) }
  var count = 0
  while let entry = readdir(directory) { if entry.pointee.d_name.0 != 46 { count += 1 } }
  return count
}

private func profilingHandlerIsDefault() -> Bool {
  var action = sigaction()
  sigaction(SIGPROF, nil, &action)
  return action.__sigaction_handler.sa_handler == nil
}
