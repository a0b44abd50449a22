import CulpritStallRecord
import Testing

@testable import CulpritBlame

@Suite struct CPUUseTests {
  private func count(_ age: Int, used: Int?, delayed: Int?) -> StallReport.CPUUse.Count {
    StallReport.CPUUse.Count(
      age: .milliseconds(age),
      used: used.map { .milliseconds($0) },
      delayed: delayed.map { .milliseconds($0) }
    )
  }

  @Test func separatesRunningRunnableAndWaiting() throws {
    let counts = [
      count(0, used: 5, delayed: 70), count(100, used: 25, delayed: 140), count(200, used: 45, delayed: 220),
      count(300, used: 45, delayed: 220),
    ]
    let busy = try #require(StallReport.CPUUse(counts) { $0 < 3 })
    #expect(abs(busy.share - 0.2) < 1e-9 && abs((busy.runnableShare ?? 0) - 0.75) < 1e-9)
    #expect(StallReport.CPUUse(counts) { $0 >= 2 } == StallReport.CPUUse(share: 0, runnableShare: 0))
    #expect(StallReport.CPUUse(counts) { $0 == 1 } == nil)
  }

  /// Files before version 1.3 and kernels without schedstat lack counters.
  @Test func omitsUnknownCounters() {
    let counts = [count(0, used: 0, delayed: nil), count(100, used: 25, delayed: nil)]
    #expect(StallReport.CPUUse(counts) { _ in true } == StallReport.CPUUse(share: 0.25, runnableShare: nil))
    let none = [count(0, used: nil, delayed: 0), count(100, used: nil, delayed: 20)]
    #expect(StallReport.CPUUse(none) { _ in true } == nil)
  }

  /// The kernel counts a wait for a CPU at its end, including the part before the first sample.
  @Test func limitsDelayToElapsedTime() {
    let counts = [count(0, used: 0, delayed: 0), count(100, used: 50, delayed: 400)]
    #expect(StallReport.CPUUse(counts) { _ in true } == StallReport.CPUUse(share: 0.5, runnableShare: 0.5))
  }
}
