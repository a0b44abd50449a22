/// Limits the rate of syncs: each file is synced soon, but with many stalls only a few files per second. Used only by
/// the disk thread.
///
/// Files ask in a fixed order. They take turns in the order of their first request; otherwise the first few would
/// starve the rest.
final class FsyncScheduler: @unchecked Sendable {
  // SAFETY: used only by the disk thread.
  private var last: UInt64 = 0
  /// The numbers of the waiting files, ascending.
  private var waiting: [UInt64] = []
  private var nextNumber: UInt64 = 0

  /// The longest part of a stall that a power failure can lose while few stalls are in progress, apart from the disk's
  /// own delay.
  private static let fileInterval: UInt64 = 1_000_000_000
  private static let interval: UInt64 = 200_000_000

  /// The position of a file in the waiting list.
  struct Place {
    fileprivate var number: UInt64?
  }

  /// Returns whether the file at `place` can be synced now. `lastSync` is the time of its last sync, 0 for none.
  func isTurn(_ place: inout Place, lastSync: UInt64, now: UInt64) -> Bool {
    guard now &- lastSync >= Self.fileInterval else { return false }
    if place.number == nil {
      place.number = nextNumber
      waiting.append(nextNumber)
      nextNumber += 1
    }
    return waiting.first == place.number && now &- last >= Self.interval
  }

  /// Records that the file at `place` was synced.
  func synced(_ place: inout Place, at now: UInt64) {
    last = now
    leave(place)
    place.number = nil
  }

  /// Removes the file at `place` from the waiting list.
  func leave(_ place: Place) { waiting.removeAll { $0 == place.number } }
}
