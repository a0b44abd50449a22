/// A note about a stall.
package struct StallNote: Hashable, Sendable {
  /// The kind of a note.
  package enum Kind: Hashable, Sendable {
    /// The application's context; the title is its source.
    case context
    /// A concurrent activity by its name; the time is its duration so far.
    case activity
    /// A debugger was attached to the process.
    case debugger
    /// The stall became a hang; the time is the age of the work.
    case hang
    /// The CPU time used.
    case processorTime
    /// The start of the work was not watched; the time is the duration of the unwatched part.
    case unwatched
    /// Other work of the same thread or task stalled simultaneously. The title is its source, the text its report ID,
    /// the time the duration of the overlap.
    case overlap
    /// The work waited for a file lock. The title is the lock's owner, the text the file.
    case fileLock
    /// The number of stalls that the record represents (``StallCount``); the time is that of the stalls without a
    /// record.
    case count
    /// Samples were skipped for lack of CPU time; the text is their number.
    case spared
    /// Other work with the same label stalled simultaneously. Title, text and time are those of ``overlap``.
    case sharedLabel
    /// The report has been delivered, or was only counted because of the report limits.
    case reported
    /// A kind written by a newer version, with its number in the file.
    case unknown(UInt8)
  }

  /// The kind of the note.
  package var kind: Kind
  /// The subject in a few words; can be empty.
  package var title: String
  /// The text of the note; can be empty.
  package var text: String
  /// The time of the note; zero if it has none.
  package var time: Duration

  /// Creates a note of `kind`.
  package init(_ kind: Kind, title: String = "", text: String = "", time: Duration = .zero) {
    self.kind = kind
    self.title = title
    self.text = text
    self.time = time
  }
}

extension StallNote.Kind {
  /// Whether the note's text is the report ID of another stall.
  var isOfAnotherStall: Bool { self == .overlap || self == .sharedLabel }

  /// The kind's number in files.
  var code: UInt8 {
    switch self {
    case .context: 1
    case .activity: 2
    case .debugger: 3
    case .hang: 4
    case .processorTime: 5
    case .unwatched: 6
    case .overlap: 7
    case .fileLock: 8
    case .count: 9
    case .spared: 10
    case .sharedLabel: 11
    case .reported: 12
    case .unknown(let code): code
    }
  }

  /// Creates the kind with the number `code` in files.
  init(code: UInt8) {
    switch code {
    case 1: self = .context
    case 2: self = .activity
    case 3: self = .debugger
    case 4: self = .hang
    case 5: self = .processorTime
    case 6: self = .unwatched
    case 7: self = .overlap
    case 8: self = .fileLock
    case 9: self = .count
    case 10: self = .spared
    case 11: self = .sharedLabel
    case 12: self = .reported
    default: self = .unknown(code)
    }
  }
}

extension Stall {
  /// The number of samples that were skipped for lack of CPU time.
  package var sparedSamples: Int { notes.last { $0.kind == .spared }.flatMap { Int($0.text) }.map { max(0, $0) } ?? 0 }
}
