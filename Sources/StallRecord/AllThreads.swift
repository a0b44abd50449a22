/// A thread, captured together with all threads of the process.
package struct ThreadSample: Hashable, Sendable {
  package var thread: ObservedThread
  /// The index of the stack in the recording; `nil` if no stack was captured or a damaged file lost it.
  package var stack: Int?
  package var outcome: CaptureOutcome
  /// The thread's CPU time so far; `nil` if unknown.
  package var cpuTime: Duration?
  package var activity: ThreadActivity
  package var handlerTime: Duration
  package var unwindTime: Duration
  /// The lock for which the thread waited; `nil` if there was none or it is unknown. Determined only for captures on
  /// request, and not saved.
  package var lock: HeldLock?
  package var descriptor: Descriptor?

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

package struct AllThreads: Hashable, Sendable {
  package var threads: [ThreadSample]
  /// The number of threads not captured for lack of time or space.
  package var leftOut: Int
  /// Whether the capture was completed; `false` if the stall or its process ended meanwhile.
  package var isComplete: Bool

  package init(threads: [ThreadSample] = [], leftOut: Int = 0, isComplete: Bool = false) {
    self.threads = threads
    self.leftOut = leftOut
    self.isComplete = isComplete
  }
}
