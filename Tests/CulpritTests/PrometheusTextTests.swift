import CulpritStallRecord
import Foundation
import Testing

@testable import Culprit

/// `tools/prove prometheus` validates the golden file with promtool.
@Suite struct PrometheusTextTests {
  private func histogram(_ times: [Duration]) -> Watchdog.Histogram {
    let bounds: [Duration] = [
      .microseconds(100), .microseconds(250), .milliseconds(10), .seconds(1), .seconds(100), .seconds(1000),
    ]
    return Watchdog.Histogram(
      buckets: bounds.map { bound in
        Watchdog.Histogram.Bucket(upperBound: bound, count: UInt64(times.filter { $0 <= bound }.count))
      },
      count: UInt64(times.count),
      sum: times.reduce(.zero, +)
    )
  }

  private func metrics() -> Watchdog.Metrics {
    func source(_ kind: StallReport.Source.Kind, _ name: String, _ latencies: [Duration]?) -> Watchdog.SourceMetrics {
      Watchdog.SourceMetrics(
        source: StallReport.Source(kind: kind, name: name),
        watchedCount: 1,
        stalls: 3,
        hangs: 1,
        stallDurations: histogram([.milliseconds(500), .seconds(200)]),
        stallAge: .milliseconds(4250),
        latencies: latencies.map(histogram),
        samples: 81,
        samplesLost: 2
      )
    }
    var metrics = Watchdog.Metrics(.watching)
    metrics.sources = [
      source(.probedLoop, "http", [.microseconds(70), .microseconds(101), .nanoseconds(1_500_000_001), .seconds(101)]),
      source(.section, "a \"b\" \\ c\nd\r\n\u{1b} é", nil),
    ]
    metrics.startTime = StallReport.Timestamp(nanosecondsSince1970: 1_795_470_707_902_000_000)
    metrics.time = StallReport.Timestamp(nanosecondsSince1970: 1_795_470_767_000_000_001)
    metrics.ownCost = Watchdog.OwnCost(cpuTime: .milliseconds(1234), wakeups: 281, handlerTime: .microseconds(17))
    metrics.previousRuns = [.fatalHang: 1, .cleanExit: 0]
    return metrics
  }

  @Test func matchesGoldenFile() throws {
    let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Golden/metrics.prom")
    let text = metrics().prometheusText(labels: ["service": "shop", "kind": "mine", "0": "no", "__x": "no"])
      .replacingOccurrences(of: "version=\"\(Watchdog.version)\"", with: "version=\"VERSION\"")
    if getenv("RECORD_SNAPSHOTS") != nil { try text.write(to: path, atomically: true, encoding: .utf8) }
    let golden = try String(contentsOf: path, encoding: .utf8)
    #expect(text == golden, "differs from Golden/metrics.prom; if it should, run it with RECORD_SNAPSHOTS=1")
  }

  @Test func disabledWatchdogExportsNoCounts() {
    let text = Watchdog.Metrics(.disabled).prometheusText()
    #expect(text.contains("\nculprit_watching 0\n"))
    #expect(!text.contains("culprit_stalls_total") && !text.contains("culprit_start_time_seconds"))
  }

  @Test(
    arguments: [
      (0, "0"), (1, "0.000000001"), (100_000, "0.0001"), (250_000_000, "0.25"), (1_000_000_000, "1"),
      (1_500_000_001, "1.500000001"), (.max, "18446744073.709551615"),
    ] as [(UInt64, String)]
  )
  func formatsSecondsExactly(nanoseconds: UInt64, text: String) {
    #expect(PrometheusText.seconds(nanoseconds) == text)
  }

  @Test(arguments: ["", "0", "1a", "a-b", "a b", "ä", "__name__", "source", "kind", "le", "ending", "version", "a\n"])
  func rejectsInvalidLabels(name: String) { #expect(!PrometheusText.isLabel(name)) }

  @Test(arguments: ["service", "_a", "A0", "a_b"]) func acceptsValidLabels(name: String) {
    #expect(PrometheusText.isLabel(name))
  }

  @Test func valuesMatchText() {
    let metrics = metrics()
    let lines = metrics.prometheusText().split(separator: "\n").filter {
      !$0.hasPrefix("#") && !$0.contains("_bucket{")
    }
    #expect(metrics.values.count == lines.count)
    let counts = metrics.values.filter { $0.name == "culprit_probe_latency_seconds_count" }
    #expect(counts.map(\.number) == [4] && counts.allSatisfy(\.isCounter))
    #expect(metrics.values.first { $0.name == "culprit_stall_age_seconds" }.map(\.isCounter) == false)
    #expect(metrics.values.first { $0.name == "culprit_stall_age_seconds" }?.number == 4.25)
  }
}
