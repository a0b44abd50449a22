/// The number of stalls that a record represents: stalls of one source that exceeded the threshold during the recorded
/// stall.
package struct StallCount: Hashable, Sendable {
  package var since: WallTime
  /// The number of the source's stalls from ``since`` on.
  package var all: Int
  package var atSamePlace: Int
  package var unrecorded: Int
  package var unrecordedTime: Duration

  package init(since: WallTime, all: Int, atSamePlace: Int, unrecorded: Int, unrecordedTime: Duration) {
    self.since = since
    self.all = all
    self.atSamePlace = atSamePlace
    self.unrecorded = unrecorded
    self.unrecordedTime = unrecordedTime
  }

  package init?(of stalls: [Stall]) {
    let counts = stalls.compactMap(\.count)
    guard let first = stalls.map(\.began).min(), stalls.count > 1 || !counts.isEmpty else { return nil }
    let unrecorded = counts.reduce(0) { $0 + $1.unrecorded }
    let all = counts.reduce(stalls.count + unrecorded) { max($0, $1.all) }
    self.init(
      since: counts.reduce(first) { min($0, $1.since) },
      all: all,
      atSamePlace: min(all, counts.reduce(stalls.count) { max($0, $1.atSamePlace) }),
      unrecorded: unrecorded,
      unrecordedTime: counts.reduce(.zero) { $0 + $1.unrecordedTime }
    )
  }

  package init?(_ note: StallNote) {
    let words = note.text.split(separator: " ")
    guard note.kind == .count, words.count == 4, let since = UInt64(words[0]), let all = Int(words[1]),
      let atSamePlace = Int(words[2]), let unrecorded = Int(words[3]), all > 0, (0...all).contains(atSamePlace),
      (-1...all).contains(unrecorded)
    else { return nil }
    self.init(
      since: WallTime(nanosecondsSince1970: since),
      all: all,
      atSamePlace: atSamePlace,
      unrecorded: unrecorded,
      unrecordedTime: note.time
    )
  }

  package var note: StallNote {
    StallNote(
      .count,
      text: "\(since.nanosecondsSince1970) \(all) \(atSamePlace) \(unrecorded)",
      time: unrecordedTime
    )
  }
}

extension Stall {
  /// The stalls that the record represents; `nil` for a single stall.
  package var count: StallCount? { notes.last { $0.kind == .count }.flatMap { StallCount($0) } }
}
