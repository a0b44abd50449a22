import CoreMetrics
import Culprit
import CulpritMetrics
import MetricsTestKit
import Testing

extension SerialTests {
  @Suite(.timeLimit(.minutes(1))) struct MetricsTests {
    /// The backend of the process, set once.
    private static let backend = {
      let backend = TestMetrics()
      MetricsSystem.bootstrap(backend)
      return backend
    }()

    @Test func exportsCountersAndTimers() async throws {
      let backend = Self.backend
      let watchdog = try Watchdog()
      let export = watchdog.exportMetrics(every: .seconds(3600))
      watchdog.stallSection("counted")
      await watchdog.stop()
      let dimensions = [("kind", "section"), ("source", "counted")]
      for _ in 0..<2 {
        export.record()
        #expect(try backend.expectCounter("culprit_stalls_total", dimensions).totalValue == 1)
        let durations = try backend.expectTimer("culprit_stall_duration_seconds", dimensions).values
        #expect(durations.count == 1 && durations.allSatisfy { $0 >= 1_000_000_000 }, "\(durations)")
        #expect(try backend.expectGauge("culprit_sources_watched", dimensions).lastValue == 0)
      }
      #expect(throws: (any Error).self) { try backend.expectCounter("culprit_stall_duration_seconds_sum", dimensions) }
    }
  }
}
