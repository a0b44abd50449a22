import CulpritStallRecord

/// Relations between simultaneous stalls.
///
/// Two stalls of one thread or task are one stall seen twice, such as a section in a loop's turn. Stalls with equal
/// labels belong to one request.
///
/// A resource other than a lock, such as a connection of a pool, has no known owner. The report of a suspended section
/// notes the labels of concurrent work, which might have held the resource.
struct ConcurrentStalls {
  enum Worker: Hashable {
    case thread(Int32)
    /// The task's address and id.
    case task(UInt64, UInt32)
  }

  /// A stall with its times by the observer's clock, in nanoseconds.
  struct Known {
    var reportID: String
    /// `nil` if several threads or tasks did the work.
    var worker: Worker?
    /// The thread that ran the work at the stall's declaration, and the time.
    var seen: (thread: Int32, time: UInt64)?
    var labels: Set<String> = []
    var source: WatchedSource
    var began: UInt64
    /// `nil` while the stall continues.
    var ended: UInt64?

    /// Whether `other` is the work of a task that ran in this job of a pool thread.
    func contains(_ other: Known) -> Bool {
      guard source.kind == .job, let seen = other.seen, worker == .thread(seen.thread) else { return false }
      return began <= seen.time && seen.time <= ended ?? .max
    }
  }

  private var ended: [Known] = []

  private static let endedMax = 32

  /// Maximum number of notes about stalls with a shared label: thousands of requests can have one label.
  private static let sharedLabelsMax = 4

  /// Returns the notes about stalls that overlap `one`, which has just been declared or has just ended.
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

  struct Labelled {
    var labels: Set<String>
    var place: Storms.Place
    var reportID: String?
    var began: UInt64
    var ended: UInt64?
  }

  private var endedLabelled: [Labelled] = []

  private static let meanwhileMax = 3

  /// Returns the notes about work with other labels that ran during at least half of `one`, a suspended section. Omits
  /// work suspended at the place of `one`, which waits for the same resource.
  func meanwhile(_ one: Labelled, beside others: some Sequence<Labelled>, now: UInt64) -> [StallNote] {
    var longest: [String: StallNote] = [:]
    let end = one.ended ?? now
    func add(_ other: Labelled) {
      guard other.labels.isDisjoint(with: one.labels), !other.place.isSameAwait(as: one.place) else { return }
      let (from, to) = (max(one.began, other.began), min(end, other.ended ?? now))
      guard from < to, to - from >= (end - one.began) / 2 else { return }
      let time = Duration(wholeNanoseconds: to - from)
      for label in other.labels where time > longest[label]?.time ?? .zero {
        longest[label] = StallNote(.meanwhile, title: label, text: other.reportID ?? "", time: time)
      }
    }
    for other in endedLabelled { add(other) }
    for other in others { add(other) }
    return Array(longest.values.ordered { ($1.time, $0.title) < ($0.time, $1.title) }.prefix(Self.meanwhileMax))
  }

  mutating func remember(_ one: Labelled) {
    if endedLabelled.count == Self.endedMax { endedLabelled.removeFirst() }
    endedLabelled.append(one)
  }

  mutating func remember(_ one: Known) {
    if ended.count == Self.endedMax { ended.removeFirst() }
    ended.append(one)
  }
}
