import CulpritStallRecord

/// Stalls of one thread or one task at one time: a section within a turn of a loop, a request on a loop, an async function in another
/// one. It is one stall, seen twice: each is reported, and says of the other one.
struct Overlaps {
  /// Who does the work.
  enum Worker: Hashable {
    case thread(Int32)
    /// A task of Swift concurrency: where it is, and its number.
    case task(UInt64, UInt32)
  }

  /// A stall of one worker, by the observer's clock.
  struct Known {
    var reportID: String
    /// `nil` where several did.
    var worker: Worker?
    var source: WatchedSource
    var began: UInt64
    /// `nil` while it goes on.
    var ended: UInt64?
  }

  /// The last ones that have ended.
  private var ended: [Known] = []

  /// So many are remembered.
  private static let endedMax = 32

  /// What is to be noted about `one`, which ends or has just been declared, when `others` go on.
  func notes(of one: Known, beside others: [Known], now: UInt64) -> [StallNote] {
    guard let worker = one.worker else { return [] }
    return (ended + others)
      .compactMap { other in
        guard other.worker == worker, other.reportID != one.reportID else { return nil }
        let (begin, end) = (max(one.began, other.began), min(one.ended ?? now, other.ended ?? now))
        guard begin < end else { return nil }
        return StallNote(
          .overlap,
          title: "\(other.source.kind.description) \"\(other.source.name)\"",
          text: other.reportID,
          time: Duration(wholeNanoseconds: end - begin)
        )
      }
  }

  /// Remembers `one`, which has ended.
  mutating func remember(_ one: Known) {
    if ended.count == Self.endedMax { ended.removeFirst() }
    ended.append(one)
  }
}
