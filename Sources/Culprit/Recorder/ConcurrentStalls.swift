import CulpritStallRecord

/// Relations between simultaneous stalls.
///
/// Stalls of one thread or one task are one stall seen twice: a section within a turn of a loop, a request on a loop,
/// an async function within another. Stalls with equal labels belong to one request, on whatever thread: a suspended
/// section and the job that it waits for. Each stall is reported, with a reference to the other one.
struct ConcurrentStalls {
  /// The thread or task that does the work.
  enum Worker: Hashable {
    case thread(Int32)
    /// A Swift task: its address and its id.
    case task(UInt64, UInt32)
  }

  /// A stall with its times by the observer's clock, in nanoseconds.
  struct Known {
    var reportID: String
    /// `nil` if several threads or tasks did the work.
    var worker: Worker?
    /// The thread on which the work ran at its declaration, and that time.
    var seen: (thread: Int32, time: UInt64)?
    var labels: Set<String> = []
    var source: WatchedSource
    var began: UInt64
    /// `nil` while the stall continues.
    var ended: UInt64?

    /// Whether this is the job of a pool thread that has run `other`, the work of a task.
    func contains(_ other: Known) -> Bool {
      guard source.kind == .job, let seen = other.seen, worker == .thread(seen.thread) else { return false }
      return began <= seen.time && seen.time <= ended ?? .max
    }
  }

  /// The most recent stalls that have ended.
  private var ended: [Known] = []

  private static let endedMax = 32

  /// Maximum number of notes about stalls with a shared label: thousands of requests can have one label.
  private static let sharedLabelsMax = 4

  /// Returns the notes about stalls that overlap `one`, which has just been declared or has just ended. `others` are
  /// the stalls under way.
  func notes(of one: Known, beside others: [Known], now: UInt64) -> [StallNote] {
    var sharedLabels = 0
    return (ended + others)
      .compactMap { other in
        let isSame = one.worker != nil && other.worker == one.worker || one.contains(other) || other.contains(one)
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

  mutating func remember(_ one: Known) {
    if ended.count == Self.endedMax { ended.removeFirst() }
    ended.append(one)
  }
}
