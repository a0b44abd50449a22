/// Something that was noted about a stall beside its samples.
package struct StallNote: Hashable, Sendable {
  /// What it is about.
  package enum Kind: Hashable, Sendable {
    /// What the application says of itself; the title is who says it.
    case context
    /// Work that was going on, by its name; the time is how long it had been.
    case activity
    /// A debugger was attached to the process.
    case debugger
    /// The stall became a hang; the time is how long the work had taken.
    case hang
    /// How much processor time was used.
    case processorTime
    /// The beginning of the work was not watched; the time is how long.
    case unwatched
    /// Other work of the same thread or task was stuck at the same time; the title is its source, the text the id of its report, the time how
    /// long both were.
    case overlap
    /// Who had the lock of a file that was waited for; the title is who, the text the file.
    case fileLock
    /// How many stalls the record stands for (``StallCount``); the time is that of the stalls without a record.
    case count
    /// Samples were not taken for want of processor time; the text is their number.
    case spared
    /// Other work with the same label was stuck at the same time; title, text and time as of an overlap.
    case sharedLabel
    /// A kind that a newer version wrote, by its number in the file.
    case unknown(UInt8)
  }

  /// What it is about.
  package var kind: Kind
  /// What or who it is about, in a few words; may be empty.
  package var title: String
  /// What is noted; may be empty.
  package var text: String
  /// A time that belongs to it; zero where none does.
  package var time: Duration

  /// A note of `kind`.
  package init(_ kind: Kind, title: String = "", text: String = "", time: Duration = .zero) {
    self.kind = kind
    self.title = title
    self.text = text
    self.time = time
  }
}

extension StallNote.Kind {
  /// Whether the note's text is the id of another stall's report.
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
    case .unknown(let code): code
    }
  }

  /// The kind with the number `code` in files.
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
    default: self = .unknown(code)
    }
  }
}

extension Stall {
  /// The samples that were not taken for want of processor time.
  package var sparedSamples: Int { notes.last { $0.kind == .spared }.flatMap { Int($0.text) }.map { max(0, $0) } ?? 0 }
}
