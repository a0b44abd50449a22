package struct StallNote: Hashable, Sendable {
  /// The kind of a note, by its number in files.
  package struct Kind: Hashable, Sendable {
    package var code: UInt8

    init(code: UInt8) { self.code = code }

    /// The application's context. The title is its source.
    package static var context: Kind { Kind(code: 1) }
    /// A concurrent activity by its name. The time is its duration so far.
    package static var activity: Kind { Kind(code: 2) }
    package static var debugger: Kind { Kind(code: 3) }
    /// The stall became a hang. The time is the age of the work.
    package static var hang: Kind { Kind(code: 4) }
    package static var cpuTime: Kind { Kind(code: 5) }
    /// The start of the work was not watched. The time is the duration of the unwatched part.
    package static var unwatched: Kind { Kind(code: 6) }
    /// Other work of the same thread or task stalled simultaneously. The title is its source, the text its report ID,
    /// and the time the duration of the overlap.
    package static var overlap: Kind { Kind(code: 7) }
    /// The work waited for a file lock. The title is the lock's owner, the text the file.
    package static var fileLock: Kind { Kind(code: 8) }
    /// The number of stalls that the record represents (``StallCount``). The time is the total of unrecorded stalls.
    package static var count: Kind { Kind(code: 9) }
    /// Samples were skipped for lack of CPU time. The text is their number.
    package static var spared: Kind { Kind(code: 10) }
    /// Other work with the same label stalled simultaneously. Title, text and time have the meanings of ``overlap``.
    package static var sharedLabel: Kind { Kind(code: 11) }
    /// The report was delivered, or only counted because of the report limits.
    package static var reported: Kind { Kind(code: 12) }
    /// The work might have been several jobs, because suspensions that resumed at once were not visible.
    package static var likely: Kind { Kind(code: 13) }
    /// Labelled work that ran while this work was suspended, and might have held the awaited resource. The title is the
    /// label, the text the report ID if the work stalled, and the time the duration of the overlap.
    package static var meanwhile: Kind { Kind(code: 14) }
  }

  package var kind: Kind
  /// The subject in a few words; can be empty.
  package var title: String
  package var text: String
  package var time: Duration

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
}

extension Stall {
  package var sparedSamples: Int { notes.last { $0.kind == .spared }.flatMap { Int($0.text) }.map { max(0, $0) } ?? 0 }
}
