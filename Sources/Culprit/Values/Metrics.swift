import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// The counts of a watchdog: stalls, hangs and latencies of each source, and its own cost.
  ///
  ///     response.body = watchdog.metrics.prometheusText()
  ///
  /// Counts belong to the process and only grow, even if watchdogs are stopped and started again. A child of fork(2)
  /// begins at 0.
  public struct Metrics: Sendable, Hashable {
    /// The counts of each source, in the order in which the sources were first watched.
    ///
    /// Sources of the same kind and name share one entry, which remains after their removal. A section has an entry
    /// once it has been late, or has been entered twice. The sources after the first 256 are counted together in an
    /// entry of the kind `others`.
    public var sources: [SourceMetrics]
    /// Whether the watchdog watches.
    public var mode: Mode
    /// The start of the watchdog; `nil` if none is running.
    public var startTime: StallReport.Timestamp?
    /// The time of these metrics; `nil` if no watchdog is running.
    public var time: StallReport.Timestamp?
    /// The resources used by Culprit itself.
    public var ownCost: OwnCost
    /// The number of dropped handler calls (``Status/reportsDropped``).
    public var reportsDropped: UInt64
    /// The number of runs reported to ``Watchdog/onPreviousRun(_:)``, by ending.
    public var previousRuns: [PreviousRun.Ending: Int]

    init(_ mode: Mode) {
      (sources, self.mode, startTime, time) = ([], mode, nil, nil)
      (ownCost, reportsDropped, previousRuns) = (OwnCost(), 0, [:])
    }
  }

  /// The counts of one source.
  public struct SourceMetrics: Sendable, Hashable {
    /// The source. Its name is truncated to 200 bytes, with control characters escaped.
    public var source: StallReport.Source
    /// The number of sources of this kind and name watched now.
    public var watchedCount: Int
    /// The number of stalls.
    public var stalls: UInt64
    /// The number of stalls that became hangs.
    public var hangs: UInt64
    /// The durations of ended stalls, including those ended by the end of the watch.
    public var stallDurations: Histogram
    /// The age of the oldest stall in progress; 0 if none.
    public var stallAge: Duration
    /// The waiting times of probes (``WatchedProbe``); `nil` if the source has none. One probe waits at a time.
    public var latencies: Histogram?
    /// The number of samples, including those of work that ended before its threshold.
    public var samples: UInt64
    /// The number of due samples that could not be taken or kept.
    public var samplesLost: UInt64
  }

  /// A distribution of times.
  public struct Histogram: Sendable, Hashable {
    /// The times up to a bound.
    public struct Bucket: Sendable, Hashable {
      /// The longest time in this bucket.
      public var upperBound: Duration
      /// The number of times up to the bound, including smaller buckets.
      public var count: UInt64
    }

    /// The buckets, from 100 µs to 1,000 s.
    public var buckets: [Bucket]
    /// The number of times, including those above the last bucket.
    public var count: UInt64
    /// The sum of the times.
    public var sum: Duration
  }

  /// The resources used by Culprit in this process.
  public struct OwnCost: Sendable, Hashable {
    /// The CPU time of Culprit's threads, including the application's handlers.
    public var cpuTime = Duration.zero
    /// The number of wake-ups of Culprit's threads.
    public var wakeups: UInt64 = 0
    /// The time spent by the service's threads in the handler that copies their stacks.
    public var handlerTime = Duration.zero
  }
}
