/// The threads of a process at about the same time, in groups that were doing the same.
public struct ThreadsReport: Hashable, Sendable, Codable {
  /// The groups, the largest first.
  public var groups: [Group]
  /// How many threads were not captured for want of time or room.
  public var leftOut: Int
  /// Whether all threads were captured; `false` when the stall ended, or its process was killed, meanwhile.
  public var isComplete: Bool
  /// The length of a line of ``description``.
  package var width = StallReport.Width()

  enum CodingKeys: String, CodingKey { case groups, leftOut, isComplete }

  /// Threads whose stacks go through the same functions.
  public struct Group: Hashable, Sendable, Codable {
    /// The threads.
    public var threads: [StallReport.Thread]
    /// What the threads were doing.
    public var activity: StallReport.Activity
    /// The stack of the first of them, innermost first; empty when there is none.
    public var functions: [StallReport.Function]
    /// Why there is no stack; `nil` when there is one.
    public var noStack: StallReport.Reason?
    /// Why callers are missing at its end; `nil` when it is complete.
    public var missingCallers: StallReport.Reason?
  }

  /// How many threads there are.
  public var count: Int { groups.reduce(0) { $0 + $1.threads.count } }
}

extension ThreadsReport: CustomStringConvertible {
  /// The threads as text, in lines of the configured width.
  public var description: String { text(width: width.characters) }

  /// Every group with its whole stack.
  ///
  /// - Parameter width: The length of a line in characters, at least 40.
  /// - Returns: The text.
  public func text(width: Int) -> String { text(StallReport.TextStyle(width: width)) }

  /// The same in the characters of `style`, and in lines of its width.
  package func text(_ style: StallReport.TextStyle) -> String { ThreadsText(self).text(style) }
}
