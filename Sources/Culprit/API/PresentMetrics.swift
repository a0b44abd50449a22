import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord

extension Watchdog.Metrics {
  /// `mode` overrides the mode of `engine`.
  init(_ engine: Engine, mode: Watchdog.Mode? = nil) {
    self.init(mode ?? (engine.live.current.isEnabled ? .watching : .switchedOff))
    startTime = StallReport.Timestamp(nanosecondsSince1970: engine.startTime.nanosecondsSince1970)
    time = StallReport.Timestamp(nanosecondsSince1970: clinux_clock_wall_ns())
    let present = Present(mode == .stopped ? [] : SlotRegistry.shared.watched())
    sources = SlotRegistry.shared.allSeries().map { source, series in
      Watchdog.SourceMetrics(
        source,
        series,
        watchedCount: present.counts[source] ?? 0,
        stallAge: present.ages[source] ?? 0
      )
    }
    ownCost = .sinceStart()
    reportsDropped = engine.reporter.dropped + engine.activities.dropped
    if engine.previousRuns != nil { previousRuns = EndingCounts.shared.all }
  }

  /// Numbers of watched sources, and the ages of their oldest stalls.
  private struct Present {
    var counts: [StallReport.Source: Int] = [:]
    /// In nanoseconds.
    var ages: [StallReport.Source: UInt64] = [:]

    init(_ watched: [(index: Int, source: StallReport.Source)]) {
      let stalls = observer_stall_table().map(StallTable.init)
      for (index, source) in watched {
        counts[source, default: 0] += 1
        guard let stalls, stalls[index].isStalled else { continue }
        let view = stalls[index].read()
        if view.item != 0 { ages[source] = max(ages[source] ?? 0, view.age_ns) }
      }
    }
  }
}

extension Watchdog.SourceMetrics {
  fileprivate init(_ source: StallReport.Source, _ series: Series, watchedCount: Int, stallAge: UInt64) {
    let counts = observer_series_read(series.counts)
    self.source = source
    self.watchedCount = watchedCount
    (stalls, hangs) = (counts.stalls, counts.hangs)
    (samples, samplesLost) = (counts.samples, counts.samples_lost)
    stallDurations = Watchdog.Histogram(observer_series_durations(series.counts))
    let found = Watchdog.Histogram(observer_series_latencies(series.counts))
    latencies = source.kind.isProbed || found.count > 0 ? found : nil
    self.stallAge = Duration(wholeNanoseconds: stallAge)
  }
}

extension StallReport.Source.Kind {
  fileprivate var isProbed: Bool { [.queue, .pool, .executor, .probedLoop].contains(self) }
}

extension Watchdog.Histogram {
  fileprivate init(_ histogram: UnsafePointer<observer_histogram>?) {
    self.init(buckets: [], count: 0, sum: .zero)
    guard let histogram else { return }
    for bucket in 0..<UInt32(OBSERVER_HISTOGRAM_BOUNDS) {
      count += observer_histogram_count(histogram, bucket)
      let bound = Duration(wholeNanoseconds: observer_histogram_bound(bucket))
      buckets.append(Bucket(upperBound: bound, count: count))
    }
    // Read once: the count might grow between two reads.
    count += observer_histogram_count(histogram, UInt32(OBSERVER_HISTOGRAM_BOUNDS))
    sum = Duration(wholeNanoseconds: observer_histogram_sum_ns(histogram))
  }
}
