/// One look at a stalled thread.
package struct Sample: Hashable, Sendable {
  /// How old the work item was.
  package var age: Duration
  /// The stack, as an index into ``Recording/stacks``; `nil` when none was captured or it was lost with a damaged file.
  package var stack: Int?
  /// How the capture went.
  package var outcome: CaptureOutcome
  /// The processor time that the thread had used so far, `nil` if unknown.
  package var cpuTime: Duration?
  /// What the thread was doing. A thread that was waiting was read from outside, without a signal, unless it had spent
  /// time in the handler.
  package var activity: ThreadActivity
  /// The time that the observed thread spent being observed.
  package var handlerTime: Duration
  /// The time that unwinding took, on another thread.
  package var unwindTime: Duration
  /// What the application had said of the work by then: which request, which job. Empty where it had said nothing.
  package var label: String
  /// Two samples with different numbers tell that waiting work was taken up in between, where the source is a queue; 0 where
  /// that is not known, or nothing waits.
  package var progress: UInt32
  /// How long the thread had been ready to run so far, and had no processor; `nil` if unknown.
  package var runDelay: Duration?
  /// The kernel's id of the thread, where several threads work on what is watched; `nil`: the stall's thread.
  package var threadID: Int32?
  /// What stood in the way of the work, whose task was ready: the stack is that one's then. `nil` where the stack is the work's own.
  package var obstacle: Obstacle?
  /// How much waited in the queue, the probe included; 0 where that was not counted. At most ``waitingCountMax``: there may be
  /// more.
  package var waitingCount: UInt32
  /// The descriptor that the system call was on, where the thread was blocked in one that is on any.
  package var descriptor: Descriptor?
  /// What the thread waited for that another one held, where it was blocked in such a thing.
  package var lock: HeldLock?
  /// What the kernel had counted by then, and what the system call was given.
  package var evidence = SampleEvidence()

  /// The arguments of the system call that the thread was blocked in; `nil` where it was in none, or they are not known.
  package var arguments: [UInt64]? { evidence.arguments.isEmpty ? nil : evidence.arguments }

  /// A thread that a task waits for which is ready to run.
  package enum Obstacle: UInt8, Hashable, Sendable {
    /// One that the task could run on.
    case thread = 1
    /// One that runs something on the task's actor.
    case actor = 2
  }

  /// Whether the stack is of another thread, which the work waited for.
  package var isInTheWay: Bool { obstacle != nil }

  /// So much is counted.
  package static let waitingCountMax: UInt32 = 1000

  /// A look at a thread whose work item was `age` old.
  package init(
    age: Duration,
    stack: Int?,
    outcome: CaptureOutcome,
    cpuTime: Duration?,
    activity: ThreadActivity = .unknown,
    handlerTime: Duration = .zero,
    unwindTime: Duration = .zero,
    label: String = "",
    progress: UInt32 = 0,
    runDelay: Duration? = nil,
    threadID: Int32? = nil,
    obstacle: Obstacle? = nil,
    waitingCount: UInt32 = 0,
    descriptor: Descriptor? = nil,
    lock: HeldLock? = nil,
    evidence: SampleEvidence = SampleEvidence()
  ) {
    self.age = age
    self.stack = stack
    self.outcome = outcome
    self.cpuTime = cpuTime
    self.activity = activity
    self.handlerTime = handlerTime
    self.unwindTime = unwindTime
    self.label = label
    self.progress = progress
    self.runDelay = runDelay
    self.threadID = threadID
    self.obstacle = obstacle
    self.waitingCount = waitingCount
    self.descriptor = descriptor
    self.lock = lock
    self.evidence = evidence
  }
}

/// A work item that took longer than its threshold.
package struct Stall: Hashable, Sendable, Identifiable {
  /// Tells the stalls of one process apart.
  package var id: UInt64
  /// What was watched.
  package var source: WatchedSource
  /// The thread that was stuck.
  package var thread: ObservedThread
  /// What the work was allowed to take.
  package var threshold: Duration
  /// When the work began.
  package var began: WallTime
  /// What was seen, in order of time.
  package var samples: [Sample]
  /// What was seen of threads that held what those of the samples waited for, and so on, in order of time.
  package var holders: [HolderSample]
  /// How long the work took; as long as it was known to run, when it has not ended.
  package var duration: Duration
  /// Whether the end was seen. `false` for a stall that its process did not survive, or that still lasts.
  package var hasEnded: Bool
  /// Samples that were taken and lost, because what records them could not keep up.
  package var lostSamples: UInt64
  /// Samples that are there and were left out of ``samples``, evenly, because there are very many.
  package var leftOutSamples = 0
  /// Whether the file that it was read from was cut off or damaged: there may have been more samples.
  package var isDamaged = false
  /// Time that passed while the process could not run (stopped, frozen, suspended): not part of `duration`.
  package var gap: Duration
  /// The other threads when the stall was declared; `nil` when they were not captured.
  package var others: AllThreads?
  /// What it cost to observe the stall, the other threads included.
  package var cost: ObservationCost
  /// What was noted about it, in order of time.
  package var notes: [StallNote]

  /// A stall of `source` on `thread`.
  package init(
    id: UInt64,
    source: WatchedSource,
    thread: ObservedThread,
    threshold: Duration,
    began: WallTime,
    samples: [Sample] = [],
    holders: [HolderSample] = [],
    duration: Duration = .zero,
    hasEnded: Bool = false,
    lostSamples: UInt64 = 0,
    gap: Duration = .zero,
    others: AllThreads? = nil,
    cost: ObservationCost = ObservationCost(),
    notes: [StallNote] = []
  ) {
    self.id = id
    self.source = source
    self.thread = thread
    self.threshold = threshold
    self.began = began
    self.samples = samples
    self.holders = holders
    self.duration = duration
    self.hasEnded = hasEnded
    self.lostSamples = lostSamples
    self.gap = gap
    self.others = others
    self.cost = cost
    self.notes = notes
  }
}

extension Stall {
  /// The notes; of several about the same other stall the last one.
  package var latestNotes: [StallNote] {
    var last: [String: Int] = [:]
    for (place, note) in notes.enumerated() where note.kind.isOfAnotherStall { last[note.text] = place }
    return notes.enumerated()
      .filter { !$0.element.kind.isOfAnotherStall || last[$0.element.text] == $0.offset }.map(\.element)
  }

  /// What tells it from the stalls of all other processes of the host.
  package func reportID(in process: ObservedProcess?) -> String {
    guard let process else { return "\(began.nanosecondsSince1970)-\(id)" }
    return "\(process.id)-\(process.watchedSince.nanosecondsSince1970)-\(id)"
  }
}

/// Everything that was recorded about some stalls of one process: what a `.stall` file holds.
package struct Recording: Hashable, Sendable {
  /// The process, `nil` when a damaged file has lost it.
  package var process: ObservedProcess?
  /// What was mapped into it.
  package var modules: [Module]
  /// The distinct stacks that samples and threads refer to.
  package var stacks: [Stack]
  /// The stalls, in the order in which they were declared.
  package var stalls: [Stall]
  /// What addresses are called, by the address that is looked up (``StackFrame/lookupAddress``), the innermost function
  /// first. Empty unless the recording was resolved to travel without the files that its names are from.
  package var names: [RuntimeAddress: [ResolvedFrame]]

  /// A recording of `process`.
  package init(
    process: ObservedProcess?,
    modules: [Module] = [],
    stacks: [Stack] = [],
    stalls: [Stall] = [],
    names: [RuntimeAddress: [ResolvedFrame]] = [:]
  ) {
    self.process = process
    self.modules = modules
    self.stacks = stacks
    self.stalls = stalls
    self.names = names
  }
}
