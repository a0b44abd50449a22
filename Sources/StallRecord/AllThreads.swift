/// A thread as it was found when all threads of the process were captured.
package struct ThreadSample: Hashable, Sendable {
  /// The thread.
  package var thread: ObservedThread
  /// The stack, as an index into the stacks that come with it; `nil` when none was captured or it was lost with a damaged
  /// file.
  package var stack: Int?
  /// How the capture went.
  package var outcome: CaptureOutcome
  /// The processor time that the thread had used so far, `nil` if unknown.
  package var cpuTime: Duration?
  /// What the thread was doing.
  package var activity: ThreadActivity
  /// The time that the thread spent being observed.
  package var handlerTime: Duration
  /// The time that unwinding took, on another thread.
  package var unwindTime: Duration

  /// A look at `thread`.
  package init(
    thread: ObservedThread,
    stack: Int?,
    outcome: CaptureOutcome,
    cpuTime: Duration?,
    activity: ThreadActivity,
    handlerTime: Duration = .zero,
    unwindTime: Duration = .zero
  ) {
    self.thread = thread
    self.stack = stack
    self.outcome = outcome
    self.cpuTime = cpuTime
    self.activity = activity
    self.handlerTime = handlerTime
    self.unwindTime = unwindTime
  }
}

/// All threads of the process at about the same time, but for those of the watchdog.
package struct AllThreads: Hashable, Sendable {
  /// The threads, in the order in which the kernel lists them.
  package var threads: [ThreadSample]
  /// Threads that there was no time or no room for.
  package var leftOut: Int
  /// Whether that was all. `false` when the stall was over, or its process killed, while they were captured.
  package var isComplete: Bool

  /// So many `threads`.
  package init(threads: [ThreadSample] = [], leftOut: Int = 0, isComplete: Bool = false) {
    self.threads = threads
    self.leftOut = leftOut
    self.isComplete = isComplete
  }
}
