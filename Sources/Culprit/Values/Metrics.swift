import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// What a watchdog has counted: stalls, hangs and latencies of each source, and its own cost.
  ///
  ///     response.body = watchdog.metrics.prometheusText()
  ///
  /// Counts are those of the process: they only grow, also when sources go and watchdogs are stopped and started again.
  /// A child of fork(2) begins at 0.
  public struct Metrics: Sendable, Hashable {
    /// What was counted of each source, in the order in which the sources were first watched.
    ///
    /// Sources of the same kind and name are one entry, which stays when its source goes. A section is here once it has
    /// been late, or is entered for the second time. The first 256 have an entry each; all others are counted together
    /// in a last one of the kind `others`.
    public var sources: [SourceMetrics]
    /// Whether it watches.
    public var mode: Mode
    /// When the watchdog was started; `nil` where nothing runs.
    public var startTime: StallReport.Timestamp?
    /// When these metrics were taken; `nil` where nothing runs.
    public var time: StallReport.Timestamp?
    /// What Culprit itself has used.
    public var ownCost: OwnCost
    /// How many calls of handlers were dropped (``Status/reportsDropped``).
    public var reportsDropped: UInt64
    /// How many earlier runs of the service ended in each way, of those that ``Watchdog/onPreviousRun(_:)`` has told of.
    public var previousRuns: [PreviousRun.Ending: Int]

    /// That of a watchdog of which nothing runs.
    init(_ mode: Mode) {
      (sources, self.mode, startTime, time) = ([], mode, nil, nil)
      (ownCost, reportsDropped, previousRuns) = (OwnCost(), 0, [:])
    }
  }

  /// What was counted of a source.
  public struct SourceMetrics: Sendable, Hashable {
    /// The source. Of its name 200 bytes are kept, and characters that would act on a terminal are shown by their number.
    public var source: StallReport.Source
    /// How many sources of this kind and name are watched now: 0 when it has gone.
    public var watchedCount: Int
    /// How many stalls began.
    public var stalls: UInt64
    /// How many of them became hangs.
    public var hangs: UInt64
    /// How long they lasted. A stall that goes on is not in it yet: see ``stallAge``. One that the end of the watch cuts
    /// off counts with the time until then.
    public var stallDurations: Histogram
    /// The age of the stall under way, of the oldest where there are several; 0 when there is none.
    public var stallAge: Duration
    /// How long probes waited, from being handed over to being run; `nil` for what is not probed.
    ///
    /// One probe waits at a time: a source that is stuck for a minute has one long latency then, and not a minute's worth of them.
    public var latencies: Histogram?
    /// How many samples were taken of work that was late, stall or not.
    public var samples: UInt64
    /// How many samples were due and could not be taken or kept.
    public var samplesLost: UInt64
  }

  /// How many times were how long.
  public struct Histogram: Sendable, Hashable {
    /// Times up to a bound.
    public struct Bucket: Sendable, Hashable {
      /// The longest time that counts here.
      public var upperBound: Duration
      /// How many times were at most that long; those of smaller buckets are in it.
      public var count: UInt64
    }

    /// The buckets, from 100 µs to 1,000 s.
    public var buckets: [Bucket]
    /// How many times there were, longer ones included.
    public var count: UInt64
    /// Their sum.
    public var sum: Duration
  }

  /// What Culprit itself has used in this process.
  public struct OwnCost: Sendable, Hashable {
    /// The processor time of its threads, in which handlers of the application are included.
    public var processorTime = Duration.zero
    /// How often its threads were woken.
    public var wakeups: UInt64 = 0
    /// The time that the service's threads have spent in the signal handler that copies their stacks.
    public var handlerTime = Duration.zero
  }
}
