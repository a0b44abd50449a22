import CCulpritProcess
import CulpritReports
import CulpritStallRecord
import Synchronization

/// Summary lines of stalls whose reports have not been delivered, stored so that an exit handler can print them
/// (`cprocess_pending.h`).
struct PendingReports: Sendable {
  private static let reporters = Atomic<UInt64>(0)

  /// The high bits of this reporter's numbers, unique in the process.
  private let base = reporters.add(1, ordering: .relaxed).newValue << 40

  /// Adds the report of a stall that has begun, or updates it when the stall has become a hang.
  func put(_ event: StallEvent) { put(event.summary, event.number, isNew: !event.isHang) }

  /// Updates the report of `stall`, whose recording is complete.
  func put(_ stall: Stall, of process: ObservedProcess?) {
    put(EventText(stall, of: process, isHang: false).endSummary, stall.id)
  }

  /// Updates the report of stall `number`, which is ready for delivery.
  func put(_ report: StallReport, number: UInt64) { put(report.summary, number) }

  /// Records that the calling thread delivers the report of stall `number` to a handler.
  func deliver(_ number: UInt64) { cprocess_pending_deliver(base | number) }

  /// Removes the report of stall `number`, which has been delivered or only counted.
  func remove(_ number: UInt64) { cprocess_pending_remove(base | number) }

  private func put(_ summary: String, _ number: UInt64, isNew: Bool = false) {
    let line = "culprit: no time for a full report: \(summary)\n"
    cprocess_pending_put(base | number, isNew, line, line.utf8.count)
  }
}
