import Culprit
import Dispatch

/// An executor of the service.
final class Executor: SerialExecutor {
  func enqueue(_ job: consuming ExecutorJob) { job.runSynchronously(on: asUnownedSerialExecutor()) }
}

/// Uses the API on a platform without watchdog. Prints a line for each fact.
func useUnwatched(_ watchdog: Watchdog) throws {
  let status = watchdog.status
  print("mode=\(status.mode) limitations=\(status.limitations.map { "\($0.code): \($0)" })")
  print("nothing=\(status.hanging.isEmpty) \(status.wakeups == 0) \(status.problems.isEmpty)")
  watchdog.onStall { print("reported=\($0)") }
  watchdog.onPreviousRun { print("reported=\($0)") }
  let ended = DispatchSemaphore(value: 0)
  Task.detached {
    for await report in watchdog.stalls { print("reported=\(report)") }
    ended.signal()
  }
  ended.wait()
  print("stalls=ended")
  let loop = try watchdog.watchLoop(named: "accept")
  let probe = try watchdog.watchLoop(named: "http") { _ in print("reported=probe") }
  let queue = try watchdog.watchQueue(.main)
  let runLoop = try watchdog.watchMainRunLoop()
  let section = watchdog.beginSection("short", threshold: .milliseconds(10)) { print("reported=\($0)") }
  let activity = try watchdog.beginActivity("upload", threshold: .milliseconds(10)) { print("reported=expiration") }
  let sums = [
    loop.withTurn(label: "request 1") { computeForLong(100) },
    watchdog.withSection("rebuild", threshold: .milliseconds(10)) { computeForLong(100) },
    watchdog.withActivity("small") { section.withExemption { 1 } },
  ]
  print("bodies=\(sums.count) watched=\(section.isWatched) unstalled=\(section.end())")
  let none = Duration.zero
  let refused: [() throws -> Void] = [
    { _ = try watchdog.watchLoop(named: "refused", threshold: none) },
    { _ = try watchdog.watchLoop(named: "refused", threshold: none) { _ in } },
    { _ = try watchdog.watchLoops(named: "refused", threshold: none, execute: []) },
    { _ = try watchdog.watchQueue(.main, threshold: none) },
    { _ = try watchdog.watchConcurrency(threshold: none) },
    { _ = try watchdog.watchMainActor(threshold: none) },
    { _ = try watchdog.watchExecutor(Executor(), named: "refused", threshold: none) },
    { _ = try watchdog.watchMainRunLoop(threshold: none) },
    { _ = try watchdog.watchCurrentRunLoop(named: "refused", threshold: none) },
    { _ = try watchdog.beginActivity("refused", threshold: none) },
  ]
  for (number, watch) in refused.enumerated() {
    do {
      try watch()
      print("failed=\(number) was not refused")
    } catch let error as WatchdogError where error.code == .invalidConfiguration {}
  }
  print("refused=\(refused.count)")
  do { try watchdog.reconfigure { $0.sampling.threshold = .zero } } catch { print("reconfigure=\(error.code)") }
  do { _ = try watchdog.captureThreads() } catch { print("threads=\(error)") }
  activity.end()
  probe.stop()
  queue.stop()
  runLoop.stop()
  print("stopped=\(watchdog.stop(patience: .zero)) \(watchdog.status.mode)")
}
