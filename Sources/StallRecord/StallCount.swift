/// The number of stalls that one record stands for: stalls of the same source that began to be late while it was
/// recorded, most of which have no record of their own.
package struct StallCount: Hashable, Sendable {
  /// When the first of them began.
  package var since: WallTime
  /// The stalls of the source since then.
  package var all: Int
  /// Of these, the stalls that were suspended or blocked at the same place as the recorded stall.
  package var atSamePlace: Int
  /// The stalls that only this record counts.
  package var unrecorded: Int
  /// The time that those took together.
  package var unrecordedTime: Duration

  /// A count of stalls since `since`.
  package init(since: WallTime, all: Int, atSamePlace: Int, unrecorded: Int, unrecordedTime: Duration) {
    self.since = since
    self.all = all
    self.atSamePlace = atSamePlace
    self.unrecorded = unrecorded
    self.unrecordedTime = unrecordedTime
  }

  /// The count that `note` has; `nil` if it has none, or none that can be true.
  package init?(_ note: StallNote) {
    let numbers = note.text.split(separator: " ").compactMap { UInt64($0) }
    guard note.kind == .count, numbers.count == 4,
      let all = Int(exactly: numbers[1]), let atSamePlace = Int(exactly: numbers[2]),
      let unrecorded = Int(exactly: numbers[3]), atSamePlace <= all, unrecorded <= all
    else { return nil }
    self.init(
      since: WallTime(nanosecondsSince1970: numbers[0]),
      all: all,
      atSamePlace: atSamePlace,
      unrecorded: unrecorded,
      unrecordedTime: note.time
    )
  }

  /// The count as a note of its record.
  package var note: StallNote {
    StallNote(
      .count,
      text: "\(since.nanosecondsSince1970) \(all) \(atSamePlace) \(unrecorded)",
      time: unrecordedTime
    )
  }
}

extension Stall {
  /// The number of stalls that the record stands for; `nil` if it stands for itself only. A later note replaces an earlier one.
  package var count: StallCount? { notes.last { $0.kind == .count }.flatMap { StallCount($0) } }
}
