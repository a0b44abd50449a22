/// The process that was observed.
public struct ObservedProcess: Hashable, Sendable {
  /// Its process id.
  public var id: Int32
  /// The path of its executable.
  public var executable: String
  /// The processor architecture as `uname -m` has it.
  public var architecture: String
  /// The version of Culprit that observed it.
  public var observerVersion: String
  /// When the watchdog was started.
  public var watchedSince: WallTime
  /// What the service counts as its own code beside the package that was built.
  public var ownModules: [String]
  /// Its own functions that it has passed over.
  public var wrappers: [String]

  /// A process `id` running `executable`.
  public init(
    id: Int32,
    executable: String,
    architecture: String,
    observerVersion: String,
    watchedSince: WallTime,
    ownModules: [String] = [],
    wrappers: [String] = []
  ) {
    self.id = id
    self.executable = executable
    self.architecture = architecture
    self.observerVersion = observerVersion
    self.watchedSince = watchedSince
    self.ownModules = ownModules
    self.wrappers = wrappers
  }
}

/// What kind of work was watched.
public enum SourceKind: Hashable, Sendable {
  /// The turns of an event loop.
  case loop
  /// The iterations of a run loop.
  case runLoop
  /// A critical section with a budget.
  case section
  /// A dispatch queue, by pings that wait in it for their turn.
  case queue
  /// The threads of Swift concurrency, by pings that wait for one of them.
  case pool
  /// An executor of Swift concurrency, an actor's for one, by pings that wait for their turn.
  case executor
  /// An event loop of any library, by pings that wait for their turn.
  case pinged
  /// A phase of the process's life: its launch, or its shutdown.
  case phase
  /// A kind that a newer version wrote, by its number in the file.
  case unknown(UInt8)

  /// The kind in words.
  public var description: String {
    switch self {
    case .loop: "event loop"
    case .runLoop: "run loop"
    case .section: "section"
    case .queue: "dispatch queue"
    case .pool: "thread pool"
    case .executor: "executor"
    case .pinged: "event loop"
    case .phase: "phase"
    case .unknown(let number): "source of unknown kind \(number)"
    }
  }
}

/// What was watched.
public struct WatchedSource: Hashable, Sendable {
  /// What kind of work it is.
  public var kind: SourceKind
  /// The name that the application gave it.
  public var name: String

  /// A source of `kind` called `name`.
  public init(kind: SourceKind, name: String) {
    self.kind = kind
    self.name = name
  }
}

/// A thread of the observed process.
public struct ObservedThread: Hashable, Sendable {
  /// The kernel's id of the thread.
  public var id: Int32
  /// The thread's name, empty if unknown.
  public var name: String

  /// The thread `id` called `name`.
  public init(id: Int32, name: String) {
    self.id = id
    self.name = name
  }
}

/// One look at a stalled thread.
public struct Sample: Hashable, Sendable {
  /// How old the work item was.
  public var age: Duration
  /// The stack, as an index into ``Recording/stacks``; `nil` when none was captured or it was lost with a damaged file.
  public var stack: Int?
  /// How the capture went.
  public var outcome: CaptureOutcome
  /// The processor time that the thread had used so far, `nil` if unknown.
  public var cpuTime: Duration?
  /// What the thread was doing. A thread that was waiting was read from outside, without a signal, unless it had spent
  /// time in the handler.
  public var activity: ThreadActivity
  /// The time that the observed thread spent being observed.
  public var handlerTime: Duration
  /// The time that unwinding took, on another thread.
  public var unwindTime: Duration
  /// What the application had said of the work by then: which request, which job. Empty where it had said nothing.
  public var label: String
  /// Two samples with different numbers tell that waiting work was taken up in between, where the source is a queue; 0 where
  /// that is not known, or nothing waits.
  public var progress: UInt32
  /// How long the thread had been ready to run so far, and had no processor; `nil` if unknown.
  public var runDelay: Duration?

  /// A look at a thread whose work item was `age` old.
  public init(
    age: Duration,
    stack: Int?,
    outcome: CaptureOutcome,
    cpuTime: Duration?,
    activity: ThreadActivity = .unknown,
    handlerTime: Duration = .zero,
    unwindTime: Duration = .zero,
    label: String = "",
    progress: UInt32 = 0,
    runDelay: Duration? = nil
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
  }
}

/// A work item that took longer than its threshold.
public struct Stall: Hashable, Sendable, Identifiable {
  /// Tells the stalls of one process apart.
  public var id: UInt64
  /// What was watched.
  public var source: WatchedSource
  /// The thread that was stuck.
  public var thread: ObservedThread
  /// What the work was allowed to take.
  public var threshold: Duration
  /// When the work began.
  public var began: WallTime
  /// What was seen, in order of time.
  public var samples: [Sample]
  /// How long the work took; as long as it was known to run, when it has not ended.
  public var duration: Duration
  /// Whether the end was seen. `false` for a stall that its process did not survive, or that still lasts.
  public var hasEnded: Bool
  /// Samples that were taken and lost, because what records them could not keep up.
  public var lostSamples: UInt64
  /// Whether the file that it was read from was cut off or damaged: there may have been more samples.
  public var isDamaged = false
  /// Time that passed while the process could not run (stopped, frozen, suspended): not part of `duration`.
  public var gap: Duration
  /// The other threads when the stall was declared; `nil` when they were not captured.
  public var others: AllThreads?
  /// What it cost to observe the stall, the other threads included.
  public var cost: ObservationCost
  /// What was noted about it, in order of time.
  public var notes: [StallNote]

  /// A stall of `source` on `thread`.
  public init(
    id: UInt64,
    source: WatchedSource,
    thread: ObservedThread,
    threshold: Duration,
    began: WallTime,
    samples: [Sample] = [],
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
    self.duration = duration
    self.hasEnded = hasEnded
    self.lostSamples = lostSamples
    self.gap = gap
    self.others = others
    self.cost = cost
    self.notes = notes
  }
}

/// Everything that was recorded about some stalls of one process: what a `.stall` file holds.
public struct Recording: Hashable, Sendable {
  /// The process, `nil` when a damaged file has lost it.
  public var process: ObservedProcess?
  /// What was mapped into it.
  public var modules: [Module]
  /// The distinct stacks that samples and threads refer to.
  public var stacks: [Stack]
  /// The stalls, in the order in which they were declared.
  public var stalls: [Stall]
  /// What addresses are called, by the address that is looked up (``StackFrame/lookupAddress``), the innermost function
  /// first. Empty unless the recording was resolved to travel without the files that its names are from.
  public var names: [RuntimeAddress: [ResolvedFrame]]

  /// A recording of `process`.
  public init(
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
