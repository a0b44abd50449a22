import CoreMetrics
import Culprit
import Dispatch
import Synchronization

extension Watchdog {
  /// Forwards ``metrics`` to the metrics backend of the process (swift-metrics).
  ///
  ///     watchdog.exportMetrics()
  ///
  /// Counters become `FloatingPointCounter`s and gauges `Gauge`s, with the names of the Prometheus text. The latencies
  /// of probes (`culprit_probe_latency_seconds`) and the durations of stalls (`culprit_stall_duration_seconds`) become
  /// `Timer`s: each value is recorded as the upper bound of its histogram bucket.
  ///
  /// The export runs on a separate dispatch queue, so it continues while all threads of Swift concurrency are stuck. It
  /// ends with ``MetricsExport/stop()``, or after the watchdog has stopped.
  ///
  /// - Parameter interval: The time between two exports; default: 15 s.
  /// - Returns: The export, which does not have to be retained.
  @discardableResult
  public func exportMetrics(every interval: Duration = .seconds(15)) -> MetricsExport {
    let export = MetricsExport(self, every: interval)
    export.schedule()
    return export
  }
}

/// A repeated export of a watchdog's metrics.
public final class MetricsExport: Sendable {
  private let watchdog: Watchdog
  private let interval: DispatchTimeInterval
  private let queue = DispatchQueue(label: "culprit-metrics")
  private let state = Mutex(State())
  private let isOver = Atomic(false)

  fileprivate init(_ watchdog: Watchdog, every interval: Duration) {
    self.watchdog = watchdog
    let (seconds, attoseconds) = max(interval, .milliseconds(100)).components
    self.interval = .milliseconds(Int(min(seconds, 86_400)) * 1000 + Int(attoseconds / 1_000_000_000_000_000))
  }

  /// Records the metrics now.
  public func record() { record(watchdog.metrics) }

  /// Records the metrics a last time and ends the export. A second call does nothing.
  public func stop() { if !isOver.exchange(true, ordering: .relaxed) { record() } }

  fileprivate func schedule() {
    queue.asyncAfter(deadline: .now() + interval) { [self] in
      guard !isOver.load(ordering: .relaxed) else { return }
      let metrics = watchdog.metrics
      record(metrics)
      if metrics.mode != .stopped { schedule() }
    }
  }

  private func record(_ metrics: Watchdog.Metrics) {
    state.withLock { state in
      for value in metrics.values where !Series.isTimed(value.name) { state.record(value) }
      for source in metrics.sources {
        state.record(source.stallDurations, as: Series.durations, of: source)
        if let latencies = source.latencies { state.record(latencies, as: Series.latencies, of: source) }
      }
    }
  }
}

/// A metric with its labels.
private struct Series: Hashable {
  static let durations = "culprit_stall_duration_seconds"
  static let latencies = "culprit_probe_latency_seconds"

  struct Label: Hashable {
    var name: String
    var value: String
  }

  var name: String
  var labels: [Label]

  var dimensions: [(String, String)] { labels.map { ($0.name, $0.value) } }

  /// Whether `name` is the sum or count of a histogram that a timer records.
  static func isTimed(_ name: String) -> Bool { name.hasPrefix(durations) || name.hasPrefix(latencies) }
}

/// The recorders of all series, with the values recorded so far.
private struct State {
  private struct Counter {
    let recorder: FloatingPointCounter
    var number = 0.0
  }

  private struct Histogram {
    let recorder: Timer
    /// The number of values recorded in each bucket, and above all buckets.
    var counts: [UInt64] = []
  }

  private var counters: [Series: Counter] = [:]
  private var gauges: [Series: Gauge] = [:]
  private var histograms: [Series: Histogram] = [:]

  mutating func record(_ value: Watchdog.Metrics.Value) {
    let series = Series(name: value.name, labels: value.labels.map { .init(name: $0.name, value: $0.value) })
    guard value.isCounter else {
      let gauge = gauges[series] ?? Gauge(label: series.name, dimensions: series.dimensions)
      gauges[series] = gauge
      gauge.record(value.number)
      return
    }
    var counter =
      counters[series]
      ?? Counter(recorder: FloatingPointCounter(label: series.name, dimensions: series.dimensions))
    counter.recorder.increment(by: max(0, value.number - counter.number))
    counter.number = value.number
    counters[series] = counter
  }

  mutating func record(_ found: Watchdog.Histogram, as name: String, of source: Watchdog.SourceMetrics) {
    guard let longest = found.buckets.last?.upperBound else { return }
    let labels = [("kind", source.source.kind.rawValue), ("source", source.source.name)]
    let series = Series(name: name, labels: labels.map { .init(name: $0.0, value: $0.1) })
    var histogram =
      histograms[series] ?? Histogram(recorder: Timer(label: series.name, dimensions: series.dimensions))
    var below: UInt64 = 0
    var counts: [UInt64] = []
    let bounds = found.buckets.map { ($0.upperBound, $0.count) } + [(longest, found.count)]
    for (index, (bound, count)) in bounds.enumerated() {
      counts.append(count - below)
      below = count
      let (seconds, attoseconds) = bound.components
      let nanoseconds = seconds * 1_000_000_000 + attoseconds / 1_000_000_000
      let recorded = histogram.counts.isEmpty ? 0 : histogram.counts[index]
      for _ in 0..<max(0, Int(counts[index]) - Int(recorded)) { histogram.recorder.recordNanoseconds(nanoseconds) }
    }
    histogram.counts = counts
    histograms[series] = histogram
  }
}
