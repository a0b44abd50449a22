/// How often files are synced: one soon, and not many times a second, however many stalls there are. On the disk thread
/// only.
///
/// Files ask in the same order over and over. They take turns in the order in which they have come to need it, or those
/// behind would wait for as long as there are a few before them.
final class FsyncScheduler: @unchecked Sendable {
  // SAFETY: the disk thread alone uses it.
  private var last: UInt64 = 0
  /// The numbers of those that wait for their turn, ascending.
  private var waiting: [UInt64] = []
  private var nextNumber: UInt64 = 0

  /// How much a power cut may cost of a stall while there are few, but for the time that the disk itself takes.
  private static let fileInterval: UInt64 = 1_000_000_000
  private static let interval: UInt64 = 200_000_000

  /// A file's place among those that wait.
  struct Place {
    fileprivate var number: UInt64?
  }

  /// Whether it is the turn of the file at `place`, which was synced at `lastSync`, 0 for never.
  func isTurn(_ place: inout Place, lastSync: UInt64, now: UInt64) -> Bool {
    guard now &- lastSync >= Self.fileInterval else { return false }
    if place.number == nil {
      place.number = nextNumber
      waiting.append(nextNumber)
      nextNumber += 1
    }
    return waiting.first == place.number && now &- last >= Self.interval
  }

  /// The file at `place` was synced.
  func synced(_ place: inout Place, at now: UInt64) {
    last = now
    leave(place)
    place.number = nil
  }

  /// The file at `place` waits no more.
  func leave(_ place: Place) { waiting.removeAll { $0 == place.number } }
}
