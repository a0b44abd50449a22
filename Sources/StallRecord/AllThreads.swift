/// A thread that was captured together with all threads of the process.
package struct ThreadSample: Hashable, Sendable {
  /// The thread.
  package var thread: ObservedThread
  /// The index of the stack in the recording; `nil` if none was captured or a damaged file lost it.
  package var stack: Int?
  /// The result of the capture.
  package var outcome: CaptureOutcome
  /// The thread's CPU time so far; `nil` if unknown.
  package var cpuTime: Duration?
  /// The thread's activity.
  package var activity: ThreadActivity
  /// The time that the thread spent in the signal handler.
  package var handlerTime: Duration
  /// The time for unwinding, on another thread.
  package var unwindTime: Duration
  /// The lock for which the thread waited; `nil` if there was none or it is unknown. Known for captures on request only,
  /// and not saved.
  package var lock: HeldLock?
  /// The descriptor of the thread's system call, with the limits of ``lock``.
  package var descriptor: Descriptor?

  /// Creates a sample of `thread`.
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

/// All threads of the process except the watchdog's, captured at about the same time.
package struct AllThreads: Hashable, Sendable {
  /// The threads, in the kernel's order.
  package var threads: [ThreadSample]
  /// The number of threads not captured for lack of time or space.
  package var leftOut: Int
  /// Whether the capture was completed; `false` if the stall or its process ended during the capture.
  package var isComplete: Bool

  /// Creates a set of threads.
  package init(threads: [ThreadSample] = [], leftOut: Int = 0, isComplete: Bool = false) {
    self.threads = threads
    self.leftOut = leftOut
    self.isComplete = isComplete
  }
}
