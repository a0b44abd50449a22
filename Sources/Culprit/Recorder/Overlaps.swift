import CulpritStallRecord

/// Relations between stalls at one time. Stalls of one thread or one task are one stall, seen twice: a section within a turn of a loop, a
/// request on a loop, an async function in another one. Stalls with the same label belong to the same request, on whatever thread: a
/// section that is suspended, and the job that it waits for. Each is reported, and its report refers to the other one.
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
    /// The labels of the work.
    var labels: Set<String> = []
    var source: WatchedSource
    var began: UInt64
    /// `nil` while it goes on.
    var ended: UInt64?
  }

  /// The last ones that have ended.
  private var ended: [Known] = []

  /// So many are remembered.
  private static let endedMax = 32

  /// The most stalls with the same label that are noted: a label may be that of thousands of requests.
  private static let sharedLabelsMax = 4

  /// What is to be noted about `one`, which ends or has just been declared, when `others` go on.
  func notes(of one: Known, beside others: [Known], now: UInt64) -> [StallNote] {
    var sharedLabels = 0
    return (ended + others)
      .compactMap { other in
        let isSame = one.worker != nil && other.worker == one.worker
        let isRelated = isSame || (sharedLabels < Self.sharedLabelsMax && !other.labels.isDisjoint(with: one.labels))
        guard isRelated, other.reportID != one.reportID else { return nil }
        let (begin, end) = (max(one.began, other.began), min(one.ended ?? now, other.ended ?? now))
        guard begin < end else { return nil }
        if !isSame { sharedLabels += 1 }
        return StallNote(
          isSame ? .overlap : .sharedLabel,
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
