import CCulpritLinux
import Culprit
import CulpritStallRecord
import Glibc
import Judges
import SourceLoads
import Synchronization

/// Work that takes nearly its threshold, also the shortest threshold. Counts reports of work that ended in time.
///
/// Each work item is timed from before its begin to after its end.
final class NearThresholds: Sendable {
  /// The thresholds in milliseconds. The first is the minimum.
  private static let thresholds: [UInt64] = [10, 20, 50, 100, 1000]

  /// The time around a work item, on the wall clock.
  private struct Span {
    var begin: UInt64
    var end: UInt64
    var length: UInt64 { end &- begin }
  }

  /// A watched source, with its work items and reports.
  private final class Source: Sendable {
    let name: String
    /// The threshold in nanoseconds.
    let threshold: UInt64
    let spans = Mutex<[Span]>([])
    /// For each report, the stall's begin plus half of the threshold.
    let reportTimes = Mutex<[UInt64]>([])

    init(_ kind: String, _ milliseconds: UInt64) {
      name = "near \(kind) \(milliseconds)"
      threshold = milliseconds * 1_000_000
    }

    func add(from begin: UInt64) {
      let end = clinux_clock_wall_ns()
      spans.withLock { $0.append(Span(begin: begin, end: end)) }
    }

    /// The number of reports without a work item, or of a work item that ended in time.
    var falseReports: Int {
      let spans = spans.withLock { $0 }
      return reportTimes.withLock { $0 }
        .filter { middle in
          guard let span = spans.first(where: { $0.begin <= middle && middle <= $0.end }) else { return true }
          return span.length <= threshold
        }.count
    }

    /// The number of work items that exceeded the threshold.
    var overruns: Int { spans.withLock { $0.filter { $0.length > threshold }.count } }
    var count: Int { spans.withLock { $0.count } }
  }

  private let loops = NearThresholds.thresholds.map { Source("loop", $0) }
  private let sections = NearThresholds.thresholds.map { Source("section", $0) }
  private let pinged = NearThresholds.thresholds.map { Source("pinged", $0) }
  private let closureLoops = NearThresholds.thresholds.map { _ in ClosureLoop() }
  private let isOver = Atomic<Bool>(false)
  private let isBusy = Atomic<Bool>(false)
  private let watches = Mutex<[WatchedProbe]>([])

  private var all: [Source] { loops + sections + pinged }

  /// Starts the work on threads that `start` makes, under `watchdog`.
  ///
  /// - Parameters:
  ///   - watchdog: The watchdog of the sources.
  ///   - start: Runs its argument on a thread, until the soak test is over.
  /// - Throws: ``WatchdogError``.
  func begin(_ watchdog: Watchdog, start: (@escaping @Sendable () -> Void) -> Void) throws {
    watchdog.onStallBegan { [self] event in
      guard let source = all.first(where: { $0.name == event.source.name }) else { return }
      source.reportTimes.withLock { $0.append(event.began.nanosecondsSince1970 + source.threshold / 2) }
    }
    for source in loops {
      let loop = try watchdog.watchLoop(named: source.name, threshold: .nanoseconds(Int64(source.threshold)))
      start { [self] in
        again(source) { work in
          let begin = clinux_clock_wall_ns()
          loop.withTurn(work)
          source.add(from: begin)
        }
      }
    }
    for source in sections {
      let budget = Duration.nanoseconds(Int64(source.threshold))
      start { [self] in
        again(source) { work in
          let begin = clinux_clock_wall_ns()
          watchdog.withSection(source.name, threshold: budget, work)
          source.add(from: begin)
        }
      }
    }
    for (source, loop) in zip(pinged, closureLoops) {
      let watch = try watchdog.watchLoop(named: source.name, threshold: .nanoseconds(Int64(source.threshold))) {
        ping in
        let begin = clinux_clock_wall_ns()
        loop.execute {
          ping()
          source.add(from: begin)
        }
      }
      watches.withLock { $0.append(watch) }
      start { [self] in again(source) { work in loop.wait(for: work) } }
    }
    for _ in 0..<2 { start { [self] in beBusy() } }
  }

  /// Sets whether two other threads compute.
  func setBusy(_ isBusy: Bool) { self.isBusy.store(isBusy, ordering: .relaxed) }

  /// Ends the work. The threads end soon after.
  func end() { isOver.store(true, ordering: .relaxed) }

  /// Prints the results after all threads have ended. Returns the number of false reports.
  func printFigures(_ figures: Figures) -> Int {
    for watch in watches.withLock({ $0 }) { watch.stop() }
    for loop in closureLoops { loop.stop() }
    for source in all {
      figures.note(
        "\(source.name) ms: \(source.count) work items of 90 to 99 % of the threshold, \(source.overruns) took longer, "
          + "\(source.reportTimes.withLock { $0.count }) reported, \(source.falseReports) of them wrongly"
      )
    }
    figures.print("sources.near_items", Double(all.reduce(0) { $0 + $1.count }), "work items", in: 15...Double.infinity)
    figures.print("sources.near_overruns", Double(all.reduce(0) { $0 + $1.overruns }), "work items")
    let falseReports = all.reduce(0) { $0 + $1.falseReports }
    figures.print("sources.near_false_reports", Double(falseReports), "reports", in: 0...0)
    return falseReports
  }

  /// Repeatedly passes work of 90 to 99 % of the source's threshold to `body`. Most work sleeps, some computes.
  private func again(_ source: Source, _ body: (@escaping @Sendable () -> Void) -> Void) {
    while !isOver.load(ordering: .relaxed) {
      let length = source.threshold / 1000 * UInt64.random(in: 900...990)
      let computes = UInt64.random(in: 0..<8) == 0
      let deadline = clinux_clock_ns() + length
      body {
        if computes {
          while clinux_clock_ns() < deadline {}
        } else {
          // Timer slack and the wakeup take some of the margin.
          var until = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
          clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nil)
        }
      }
      // Covers every phase of the kernel's tick.
      usleep(UInt32.random(in: 0..<8000))
    }
  }

  private func beBusy() {
    while !isOver.load(ordering: .relaxed) {
      if isBusy.load(ordering: .relaxed) {
        let deadline = clinux_clock_ns() + 10_000_000
        while clinux_clock_ns() < deadline {}
      } else {
        usleep(10_000)
      }
    }
  }
}
