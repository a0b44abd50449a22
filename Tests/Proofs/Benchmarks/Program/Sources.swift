import Judges
import CCulpritLinux
import Culprit
import Dispatch
import Foundation
import Glibc
import Programs
import SourceLoads
import Synchronization

/// Measures the cost of each kind of source and of many sources, and the delay of reports. Times of brief runs mean
/// little.
func benchSources(_ figures: Figures, isBrief: Bool) throws {
  let bench =
    isBrief ? SourcesBench(rounds: 2, stalls: 2, seconds: 1) : SourcesBench(rounds: 40, stalls: 20, seconds: 10)
  try bench.run(figures)
}

private struct SourcesBench {
  /// The number of timings of each kind of source, both watched and unwatched.
  var rounds: Int
  var stalls: Int
  /// The duration of the measurement of the monitor.
  var seconds: UInt32

  func run(_ figures: Figures) throws {
    try workItems(figures)
    try many(figures)
    try delays(figures)
  }

  /// Measures the cost of each kind of source.
  private func workItems(_ figures: Figures) throws {
    let watchdog = try Watchdog()
    defer { watchdog.stop() }
    let loop = try watchdog.watchLoop(named: "loop")
    compare("loop", 2000, figures) {
      loop.withTurn { work() }
    } beside: {
      work()
    }
    compare("label", 2000, figures) {
      loop.withTurn(label: "request 4711") { work() }
    } beside: {
      work()
    }
    compare("section", 500, figures) {
      watchdog.withSection("section", threshold: .seconds(4)) { work() }
    } beside: {
      work()
    }
    compare("activity", 500, figures) {
      watchdog.withActivity("activity") { work() }
    } beside: {
      work()
    }
    let queue = DispatchQueue(label: "queue")
    try compare("queue", 500, figures, { try watchdog.watchQueue(queue, scoped: true) }) { queue.sync { work() } }
    try compare("pool", 200, figures, { try watchdog.watchConcurrency(scoped: true) }) {
      let done = DispatchSemaphore(value: 0)
      Task.detached {
        work()
        done.signal()
      }
      done.wait()
    }
    let closures = ClosureLoop()
    try compare(
      "pinged",
      200,
      figures,
      { try watchdog.watchLoop(named: "pinged", scoped: true) { closures.execute($0) } }
    ) {
      closures.wait { work() }
    }
    closures.stop()
    try compare("run_loop", 200, figures, { try watchdog.watchCurrentRunLoop(named: "bench", scoped: true) }) {
      RunLoop.current.perform { work() }
      _ = RunLoop.current.run(mode: .default, before: Date())
    }
  }

  /// Times `watched` and `plain` alternately.
  private func compare(
    _ name: String,
    _ count: Int,
    _ figures: Figures,
    watched: () -> Void,
    beside plain: () -> Void
  ) {
    var (with, without): ([Double], [Double]) = ([], [])
    for _ in 0..<rounds {
      without.append(nanoseconds(of: count, plain))
      with.append(nanoseconds(of: count, watched))
    }
    printFigures(name, with, without, figures)
  }

  /// Times `body` alternately with and without the watch that `watch` returns.
  private func compare<Watch: AnyObject>(
    _ name: String,
    _ count: Int,
    _ figures: Figures,
    _ watch: () throws -> Watch,
    _ body: () -> Void
  ) throws {
    var (with, without): ([Double], [Double]) = ([], [])
    for _ in 0..<rounds {
      without.append(nanoseconds(of: count, body))
      let watch = try watch()
      with.append(nanoseconds(of: count, body))
      withExtendedLifetime(watch) {}
    }
    printFigures(name, with, without, figures)
  }

  private func printFigures(_ name: String, _ with: [Double], _ without: [Double], _ figures: Figures) {
    figures.print("sources.\(name)_ns", median(with), "ns")
    figures.print("sources.\(name)_unwatched_ns", median(without), "ns")
    figures.print("sources.\(name)_cost_ns", median(with) - median(without), "ns")
  }

  /// Measures the monitor's cost with 256 active loops.
  private func many(_ figures: Figures) throws {
    let watchdog = try Watchdog()
    defer { watchdog.stop() }
    let loops = try (0..<256).map { try watchdog.watchLoop(named: "loop \($0)") }
    let before = monitorTime()
    let began = clinux_clock_ns()
    // One thread marks all loops, with thousands of short turns a second.
    while clinux_clock_ns() - began < UInt64(seconds) * 1_000_000_000 {
      for loop in loops { loop.withTurn { work() } }
      usleep(100)
    }
    let share = 100 * Double(monitorTime() - before) / Double(clinux_clock_ns() - began)
    figures.print("sources.monitor_share", share, "% of a processor", in: 0...1)
  }

  /// The CPU time of the monitor so far, in nanoseconds.
  private func monitorTime() -> UInt64 { cpuTime(of: threadDirectories(named: "culprit-monitor")) }

  /// Measures the delay of reports after the threshold, and the error of reported durations.
  private func delays(_ figures: Figures) throws {
    var configuration = Watchdog.Configuration(threshold: .milliseconds(300))
    // No rate limits: every stall must be reported, and all have the same culprit.
    (configuration.reporting.perMinute, configuration.reporting.perCulprit) = (.max, .max)
    let watchdog = try Watchdog(configuration)
    let times = Mutex<[UInt64]>([])
    let stated = Mutex<[Double]>([])
    watchdog.onStallBegan { _ in times.withLock { $0.append(clinux_clock_ns()) } }
    watchdog.onStall { report in stated.withLock { $0.append(milliseconds(report.duration)) } }
    var due: [UInt64] = []
    var truth: [Double] = []
    for number in 0..<stalls {
      let began = clinux_clock_ns()
      due.append(began + 300_000_000)
      watchdog.withSection("stall", threshold: .milliseconds(300)) {
        _ = usleep(400_000 + UInt32(number % 10) * 10_000)
      }
      truth.append(Double(clinux_clock_ns() - began) / 1e6)
      while stated.withLock({ $0.count }) <= number { usleep(1000) }
    }
    watchdog.stop(patience: .seconds(60))
    let late = zip(times.withLock { $0 }, due).map { Double($0) / 1e6 - Double($1) / 1e6 }
    let wrong = zip(stated.withLock { $0 }, truth).map { abs($0 - $1) }
    // The monitor's ticks are at most 222 ms apart.
    figures.print("sources.reported_after_median", median(late), "ms")
    figures.print("sources.reported_after_max", late.max() ?? .nan, "ms", in: 0...227)
    figures.print("sources.duration_error_max", wrong.max() ?? .nan, "ms", in: 0...5)
  }
}

private func milliseconds(_ duration: Duration) -> Double {
  Double(duration.components.seconds) * 1e3 + Double(duration.components.attoseconds) * 1e-15
}

/// Computes for one or two microseconds.
@inline(never)
private func work() {
  var value: UInt64 = 1
  for _ in 0..<1000 { value = value &* 6_364_136_223_846_793_005 &+ 1 }
  computed.store(value, ordering: .relaxed)
}

private let computed = Atomic<UInt64>(0)
