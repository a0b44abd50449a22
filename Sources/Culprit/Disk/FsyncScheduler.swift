/// Limits the rate of syncs to a few files per second. Used only by the disk thread.
///
/// Files take turns in the order of requests; otherwise the first few would starve the rest.
final class FsyncScheduler: @unchecked Sendable {
  // SAFETY: used only by the disk thread.
  private var last: UInt64 = 0
  private var waiting: [UInt64] = []
  private var nextNumber: UInt64 = 0

  /// The longest part of a stall that a power failure can lose while few stalls are in progress.
  private static let fileInterval: UInt64 = 1_000_000_000
  private static let interval: UInt64 = 200_000_000

  struct Place {
    fileprivate var number: UInt64?
  }

  /// Returns whether a file can be synced at `now`. `lastSync` 0: never synced.
  func isTurn(_ place: inout Place, lastSync: UInt64, now: UInt64) -> Bool {
    guard now &- lastSync >= Self.fileInterval else { return false }
    if place.number == nil {
      place.number = nextNumber
      waiting.append(nextNumber)
      nextNumber += 1
    }
    return waiting.first == place.number && now &- last >= Self.interval
  }

  func synced(_ place: inout Place, at now: UInt64) {
    last = now
    leave(place)
    place.number = nil
  }

  func leave(_ place: Place) { waiting.removeAll { $0 == place.number } }
}
