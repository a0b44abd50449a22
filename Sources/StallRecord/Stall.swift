/// A sample of a stalled thread.
package struct Sample: Hashable, Sendable {
  package var age: Duration
  /// The index in ``Recording/stacks``; `nil` if no stack was captured or a damaged file lost it.
  package var stack: Int?
  package var outcome: CaptureOutcome
  package var cpuTime: Duration?
  /// The thread's activity. A waiting thread was read from outside, unless it spent time in the handler.
  package var activity: ThreadActivity
  package var handlerTime: Duration
  package var unwindTime: Duration
  package var label: String
  /// A number that changes when a queue takes up waiting work; 0 if unknown or without waiting work.
  package var progress: UInt32
  /// The thread's total time ready to run without a CPU; `nil` if unknown.
  package var runDelay: Duration?
  /// The kernel's thread ID if several threads work on the source; `nil` for the stall's thread.
  package var threadID: Int32?
  /// The kind of thread that delayed the ready task and has the stack; `nil` if the stack belongs to the work.
  package var obstacle: Obstacle?
  /// The number of items in the queue, including the probe; 0 if not counted. ``waitingCountMax`` means at least that
  /// many.
  package var waitingCount: UInt32
  package var descriptor: Descriptor?
  package var lock: HeldLock?
  /// The kernel's counters and the arguments of the system call.
  package var evidence = SampleEvidence()

  package var arguments: [UInt64]? { evidence.arguments.isEmpty ? nil : evidence.arguments }

  package enum Obstacle: UInt8, Hashable, Sendable {
    case thread = 1
    case actor = 2
  }

  package var isInTheWay: Bool { obstacle != nil }

  /// Maximum number of items counted.
  package static let waitingCountMax: UInt32 = 1000

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

package struct Stall: Hashable, Sendable, Identifiable {
  /// The number of the stall, unique in its process.
  package var id: UInt64
  package var source: WatchedSource
  package var thread: ObservedThread
  package var threshold: Duration
  package var began: WallTime
  package var samples: [Sample]
  /// Samples, in order of time, of threads that held objects for which sampled threads or other holders waited.
  package var holders: [HolderSample]
  /// The duration of the work. Without an end, the time for which the work is known to have run.
  package var duration: Duration
  /// Whether the end was observed; `false` for an ongoing stall, or if the process did not survive the stall.
  package var hasEnded: Bool
  /// The number of samples that were taken but lost, because the recorder could not keep up.
  package var lostSamples: UInt64
  /// The number of samples omitted, evenly, from ``samples``, because there are very many.
  package var leftOutSamples = 0
  /// Whether the file was truncated or damaged. Samples might be missing.
  package var isDamaged = false
  /// The time in which the process could not run (stopped, frozen, suspended). Not part of `duration`.
  package var gap: Duration
  package var others: AllThreads?
  package var cost: ObservationCost
  package var notes: [StallNote]

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
  /// The notes without outdated ones. Keeps only the last note about another stall, or about other work with one label.
  package var latestNotes: [StallNote] {
    var last: [String: Int] = [:]
    func subject(_ note: StallNote) -> String? {
      note.kind == .meanwhile ? "label \(note.title)" : note.kind.isOfAnotherStall ? note.text : nil
    }
    for (place, note) in notes.enumerated() { if let subject = subject(note) { last[subject] = place } }
    return notes.enumerated()
      .filter { place, note in subject(note).map { last[$0] == place } ?? true }.map(\.element)
  }

  package func reportID(in process: ObservedProcess?) -> String {
    guard let process else { return "\(began.nanosecondsSince1970)-\(id)" }
    return "\(process.id)-\(process.watchedSince.nanosecondsSince1970)-\(id)"
  }
}

/// The recorded data of stalls of one process: the content of a `.stall` file.
package struct Recording: Hashable, Sendable {
  package var process: ObservedProcess?
  package var modules: [Module]
  package var stacks: [Stack]
  package var stalls: [Stall]
  /// Symbolized frames by lookup address (``StackFrame/lookupAddress``), innermost function first. Empty unless the
  /// recording was symbolized for use without the modules' files.
  package var names: [RuntimeAddress: [ResolvedFrame]]

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
