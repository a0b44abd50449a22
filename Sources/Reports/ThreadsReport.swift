/// Threads of a process at about the same time, those that were doing the same together.
public struct ThreadsReport: Hashable, Sendable, Codable {
  /// The threads by what they were doing, the largest group first.
  public var groups: [Group]
  /// Threads that there was no time or no room for.
  public var leftOut: Int
  /// Whether that was all. `false` when the stall was over, or its process killed, while they were captured.
  public var isComplete: Bool
  /// The length of a line of ``description``.
  package var width = StallReport.Width()

  enum CodingKeys: String, CodingKey { case groups, leftOut, isComplete }

  /// Threads whose stacks go through the same functions.
  public struct Group: Hashable, Sendable, Codable {
    /// The threads.
    public var threads: [StallReport.Thread]
    /// What they were doing.
    public var activity: StallReport.Activity
    /// The stack of the first of them, innermost first; empty when there is none.
    public var functions: [StallReport.Function]
    /// Why there is no stack; `nil` when there is one.
    public var noStack: StallReport.Reason?
    /// Why callers are missing at its end; `nil` when none are.
    public var missingCallers: StallReport.Reason?
  }

  /// How many threads there are.
  public var count: Int { groups.reduce(0) { $0 + $1.threads.count } }
}

extension ThreadsReport: CustomStringConvertible {
  /// The threads as text, in lines as long as the configuration says.
  public var description: String { text(width: width.characters) }

  /// Every group with its whole stack.
  ///
  /// - Parameter width: The length of a line in characters, at least 40.
  /// - Returns: The text, which ends with a newline.
  public func text(width: Int) -> String { ThreadsText(self).text(width: width) }
}
