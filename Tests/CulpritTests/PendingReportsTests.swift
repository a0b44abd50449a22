import CCulpritProcess
import CulpritReports
import CulpritStallRecord
import SampleRecordings
import Testing

@testable import Culprit

@Suite struct PendingReportsTests {
  /// Sections of one name share a line.
  @Test func lineShowsOngoingStall() async throws {
    let result = try await #require(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let pending = PendingReports()
      func begin(_ seconds: UInt64, isCounted: Bool = false) -> Stall {
        let stall = Stall("order", kind: .section, id: seconds, duration: .seconds(Int64(seconds)))
        let text = EventText(stall, of: nil, isHang: false)
        pending.begin(stall, text, in: .init(slot: 0, item: 1), isCounted: isCounted)
        return stall
      }
      cprocess_pending_start { _, _ in 0 }
      pending.deliver(begin(1).id)
      // As if another thread delivered the report.
      cprocess_pending_deliver(0)
      pending.uncount(begin(2, isCounted: true).source)
      cprocess_pending_print(.max)
      _ = begin(3, isCounted: true)
      pending.drop(begin(4).id)
      cprocess_pending_print(.max)
    }
    let lines = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(lines.matches(of: /at least (\d)/).map { $0.1 } == ["1", "4"], "\(lines)")
  }
}
