/// The threads of a process at about the same time, grouped by activity.
public struct ThreadsReport: Hashable, Sendable, Codable {
  /// The groups, largest first.
  public var groups: [Group]
  /// The number of threads that were not captured for lack of time or space.
  public var omittedCount: Int
  /// Whether all threads were captured; `false` if the stall or its process ended during the capture.
  public var isComplete: Bool
  package var width = Aside(value: 100)

  enum CodingKeys: String, CodingKey { case groups, omittedCount, isComplete }

  /// Threads with equal functions on their stacks.
  public struct Group: Hashable, Sendable, Codable {
    /// The threads.
    public var threads: [StallReport.Thread]
    /// The activity of the threads.
    public var activity: StallReport.Activity
    /// The lock for which the threads wait; `nil` if there is none, if it is unknown, and for other threads of a stall.
    public var lock: Lock?
    /// The object of the threads' system call, such as `/srv/journal.db` or `a socket to 10.0.0.3:5432`; `nil` if it is
    /// unknown, if the threads have different ones, and for other threads of a stall.
    public var target: String?
    /// The stack of the first thread, innermost first; empty if there is none.
    public var functions: [StallReport.Function]
    /// The reason for a missing stack; `nil` if there is a stack.
    public var noStack: StallReport.Reason?
    /// The reason why outermost callers are missing; `nil` if the stack is complete.
    public var missingCallers: StallReport.Reason?
  }

  /// A lock for which threads wait, and its owner.
  public struct Lock: Hashable, Sendable, Codable {
    /// The kind of the lock.
    public var kind: StallReport.WaitLink.Kind
    /// The address of the lock in the process.
    public var address: UInt64
    /// The thread that held the lock when the waiting thread was captured.
    public var owner: StallReport.Thread
    /// Whether the owner had ended. No thread can then release the lock.
    public var hasOwnerEnded: Bool
  }

  /// The number of threads.
  public var count: Int { groups.reduce(0) { $0 + $1.threads.count } }
}
