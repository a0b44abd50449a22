import CulpritBlame
import CulpritReports
import CulpritStallRecord

/// What is known about one stall, and who is to blame for it.
public struct StallReport: Sendable, CustomStringConvertible {
  /// What was observed.
  public let recording: Recording
  /// The stall.
  public let stall: Stall
  /// Who is to blame.
  public let blame: Blame
  /// The other threads by what they were doing when the stall was declared, the largest group first.
  public let others: [ThreadGroup]
  /// How many stalls of the same source and culprit were counted, and not reported, since the one before.
  public let repeats: Int
  private let width: Int

  init(recording: Recording, stall: Stall, blame: Blame, others: [ThreadGroup], repeats: Int, width: Int) {
    self.recording = recording
    self.stall = stall
    self.blame = blame
    self.others = others
    self.repeats = repeats
    self.width = width
  }

  /// The function that is to blame; `nil` when no single one is.
  public var culprit: Claim? { blame.culprit }

  /// The report as text, in lines as long as the configuration says.
  public var description: String { text(width: width) }

  /// The report as text, in lines of at most `width` characters.
  public func text(width: Int) -> String {
    TextReport(
      process: recording.process,
      stall: stall,
      blame: blame,
      others: others,
      repeats: repeats,
      modules: recording.modules
    )
    .text(width: width)
  }
}
