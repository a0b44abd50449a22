import CulpritReports
import CulpritStallRecord

extension Watchdog.Metrics {
  /// One number of the metrics, for forwarding to another library.
  public struct Value: Sendable, Hashable {
    /// The name as in Prometheus: `culprit_stalls_total`. Times are in seconds.
    public var name: String
    /// The labels.
    public var labels: [Label]
    /// Whether the number only grows.
    public var isCounter: Bool
    /// The number.
    public var number: Double

    /// A label, which distinguishes numbers of the same name.
    public struct Label: Sendable, Hashable {
      /// The name: `source`.
      public var name: String
      /// The value: `http`.
      public var value: String
    }
  }

  /// All numbers except the buckets of histograms, which contribute their count and sum.
  public var values: [Value] {
    families.flatMap { family in
      family.samples.filter { $0.suffix != "_bucket" }.map { sample in
        Value(
          name: family.name + sample.suffix,
          labels: sample.labels,
          isCounter: family.type != .gauge,
          number: sample.number.double
        )
      }
    }
  }

  struct Family {
    enum Kind: String {
      case counter
      case gauge
      case histogram
    }

    var name: String
    var type: Kind
    /// A sentence without its full stop.
    var help: String
    var samples: [Sample]
  }

  struct Sample {
    var suffix = ""
    var labels: [Value.Label] = []
    var number: Number
  }

  enum Number {
    case count(UInt64)
    /// Nanoseconds, shown in seconds.
    case time(UInt64)

    var double: Double {
      switch self {
      case .count(let count): Double(count)
      case .time(let nanoseconds): Double(nanoseconds) / 1e9
      }
    }
  }

  /// Families without numbers are omitted.
  var families: [Family] { (sourceFamilies + ownFamilies).filter { !$0.samples.isEmpty } }

  private var sourceFamilies: [Family] {
    [
      bySource("culprit_sources_watched", .gauge, "Sources of this kind and name that are watched now") {
        .count(UInt64($0.watchedCount))
      },
      bySource("culprit_stalls_total", .counter, "Stalls that began: work items that took longer than their threshold")
      {
        .count($0.stalls)
      },
      bySource("culprit_hangs_total", .counter, "Stalls that became hangs") { .count($0.hangs) },
      bySource("culprit_stall_age_seconds", .gauge, "Age of the oldest stall under way, 0 when there is none") {
        .time($0.stallAge.wholeNanoseconds)
      },
      histograms("culprit_stall_duration_seconds", "Durations of stalls that have ended", from: .milliseconds(10)) {
        $0.stallDurations
      },
      histograms(
        "culprit_probe_latency_seconds",
        "Time from enqueuing a probe on an event loop, queue, pool or executor until it ran",
        to: .seconds(100)
      ) { $0.latencies },
      bySource("culprit_samples_total", .counter, "Samples taken, also of work that ended before its threshold") {
        .count($0.samples)
      },
      bySource("culprit_samples_lost_total", .counter, "Samples that were due and could not be taken or kept") {
        .count($0.samplesLost)
      },
    ]
  }

  private var ownFamilies: [Family] {
    let times = [
      ("culprit_start_time_seconds", "Time at which the watchdog was started, since 1970", startTime),
      ("culprit_metrics_time_seconds", "Time at which these metrics were taken, since 1970", time),
    ]
    return [
      single("culprit_watching", .gauge, "1 while a watchdog watches, else 0", .count(mode == .watching ? 1 : 0)),
      Family(
        name: "culprit_build_info",
        type: .gauge,
        help: "Always 1; the label has the version of Culprit",
        samples: [Sample(labels: [Value.Label(name: "version", value: Watchdog.version)], number: .count(1))]
      ),
    ]
      + times.map { name, help, time in
        Family(
          name: name,
          type: .gauge,
          help: help,
          samples: time.map { [Sample(number: .time($0.nanosecondsSince1970))] } ?? []
        )
      } + [
        single(
          "culprit_cpu_seconds_total",
          .counter,
          "CPU time of the watchdog's threads, including the handlers that they call",
          .time(ownCost.cpuTime.wholeNanoseconds)
        ),
        single("culprit_wakeups_total", .counter, "Wake-ups of the watchdog's threads", .count(ownCost.wakeups)),
        single(
          "culprit_signal_handler_seconds_total",
          .counter,
          "Time that the service's threads have spent in the handler that copies their stacks",
          .time(ownCost.handlerTime.wholeNanoseconds)
        ),
        single(
          "culprit_reports_dropped_total",
          .counter,
          "Calls of handlers that were dropped",
          .count(reportsDropped)
        ),
        Family(
          name: "culprit_previous_runs",
          type: .gauge,
          help: "Previous runs of the service that this run has reported, by ending",
          samples: previousRuns.ordered { $0.key.rawValue < $1.key.rawValue }.map { ending, count in
            Sample(labels: [Value.Label(name: "ending", value: ending.rawValue)], number: .count(UInt64(count)))
          }
        ),
      ]
  }

  private func single(_ name: String, _ type: Family.Kind, _ help: String, _ number: Number) -> Family {
    Family(name: name, type: type, help: help, samples: [Sample(number: number)])
  }

  private func bySource(
    _ name: String,
    _ type: Family.Kind,
    _ help: String,
    _ number: (Watchdog.SourceMetrics) -> Number
  ) -> Family {
    Family(name: name, type: type, help: help, samples: sources.map { Sample(labels: $0.labels, number: number($0)) })
  }

  /// The bounds select the buckets.
  private func histograms(
    _ name: String,
    _ help: String,
    from shortest: Duration = .zero,
    to longest: Duration = .seconds(1000),
    _ histogram: (Watchdog.SourceMetrics) -> Watchdog.Histogram?
  ) -> Family {
    var samples: [Sample] = []
    for source in sources {
      guard let found = histogram(source) else { continue }
      func bucket(_ bound: String, _ count: UInt64) -> Sample {
        let label = Value.Label(name: "le", value: bound)
        return Sample(suffix: "_bucket", labels: source.labels + [label], number: .count(count))
      }
      for each in found.buckets where each.upperBound >= shortest && each.upperBound <= longest {
        samples.append(bucket(PrometheusText.seconds(each.upperBound.wholeNanoseconds), each.count))
      }
      samples.append(bucket("+Inf", found.count))
      samples.append(Sample(suffix: "_sum", labels: source.labels, number: .time(found.sum.wholeNanoseconds)))
      samples.append(Sample(suffix: "_count", labels: source.labels, number: .count(found.count)))
    }
    return Family(name: name, type: .histogram, help: help, samples: samples)
  }
}

extension Watchdog.SourceMetrics {
  fileprivate var labels: [Watchdog.Metrics.Value.Label] {
    [
      Watchdog.Metrics.Value.Label(name: "kind", value: source.kind.rawValue),
      Watchdog.Metrics.Value.Label(name: "source", value: source.name),
    ]
  }
}
