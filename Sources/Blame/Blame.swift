import CulpritStallRecord

/// A function and its share of a stall.
package struct Claim: Hashable, Sendable {
  /// The function, with the address and location of the heaviest place in it.
  package var frame: ResolvedFrame
  /// The time of the samples with the function on their stack. Recursive calls count once.
  package var share: Share
  /// The number of these samples.
  package var sampleCount: Int
  /// The function's CPU time, and its time ready to run without a CPU; `nil` if unknown.
  package var cpuUse: CPUUse?
  /// How often the function was found waiting; `nil` if unknown.
  package var waiting: Waiting?
}

/// How often a thread was found waiting.
package struct Waiting: Hashable, Sendable {
  /// The number of samples in which the thread waited for anything other than a CPU.
  package var samples: Int
  /// The number of samples with a known state.
  package var of: Int
  /// The system call in most of the waiting samples; `nil` if there was none.
  package var systemCall: Int32?
  /// The descriptor in most of the samples with this call; `nil` if there was none or it is unknown.
  package var descriptor: Descriptor?
  /// Whether the kernel restarted the call after the process had been stopped. The number of the call can then be
  /// `nil`.
  package var isRestarted = false
  /// The number of samples in which the task was suspended at an `await`.
  package var suspended = 0
}

/// The time of a stall in which no thread ran the task.
package struct TaskTimes: Hashable, Sendable {
  /// The time suspended at an `await`.
  package var suspended: Duration
  /// The time ready to run, waiting for a thread.
  package var ready: Duration
}

/// One of several threads that worked on the source that stalled.
package struct Worker: Hashable, Sendable {
  /// The kernel's thread ID.
  package var threadID: Int32
  /// The function with at least half of the thread's observed time; `nil` if there is none.
  package var culprit: Claim?

  init(_ threadID: Int32, observations: Observations) {
    self.threadID = threadID
    let suspects = Suspects(observations.stacks.map(\.stack), total: observations.duration)
    culprit = suspects.culprit().map { observations.claim(on: $0.function) }
  }
}

/// The result of blaming a stall.
package enum Verdict: Hashable, Sendable {
  /// One application function holds at least half of the stall.
  case culprit(Claim)
  /// No application function holds half of the stall, nor does a package's function in a stall with little application
  /// code.
  case noSingleCulprit
  /// No single culprit, and for at least half of the stall the task was suspended while its work continued elsewhere.
  case suspended(Suspension)
  /// No stack was captured, for the given reason.
  case noStacks(String)
}

/// The analysis of a stall: a pure function of the recording.
///
/// Each instant of the stall belongs to the sample nearest in time. If an application function holds more than half of
/// the stall, there is a culprit; among several such functions it is the innermost (`Suspects.swift` has the complete
/// rule). More time for a culprit never removes it from blame.
package struct Blame: Hashable, Sendable {
  /// The verdict.
  package var verdict: Verdict
  /// The culprit function; `nil` if no single function is to blame.
  package var culprit: Claim? {
    if case .culprit(let claim) = verdict { return claim }
    return nil
  }
  /// The place at which the task was suspended; `nil` unless the verdict is ``Verdict/suspended(_:)``.
  package var suspension: Suspension? {
    if case .suspended(let suspension) = verdict { return suspension }
    return nil
  }
  /// The functions among which the culprit merely divides its time, heaviest first, limited in number. None has most of
  /// the time. Empty if the culprit itself works.
  package var parts: [Claim]
  /// The function at the end of the path of heaviest callees with at least half of the stall, with any owner; `nil` if
  /// even the outermost function holds less.
  package var dominant: Claim?
  /// The application functions that called the culprit, with the culprit's time below each, heaviest first, limited in
  /// number.
  package var callers: [Claim]
  /// The next levels of callers, nearest first, limited in number. Continues only while each level has a single
  /// function with all of the culprit's time; the last one can have less.
  package var farCallers: [Claim]
  /// The culprit's callees and their times, heaviest first, limited in number.
  package var doing: [Claim]
  /// The function of a package that took most of the culprit's time, or the application function that a library called
  /// back for the culprit; `nil` if there is none. The culprit is its caller.
  package var dependency: Claim?
  /// The culprit's self time.
  package var ownTime: Duration
  /// The other application functions with time in the stall, heaviest first; only the first of ``contenderCount``. Each
  /// stack without the culprit counts for one function, so the sum does not exceed the rest of the stall.
  package var contenders: [Claim]
  /// The number of contenders.
  package var contenderCount: Int
  /// The duration of the stall: at least the age of the last sample.
  package var duration: Duration
  /// The part of the stall that belongs to no sample, because samples were lost or the file is damaged.
  package var unobserved: Duration
  /// The call tree of all sampled stacks, heaviest first.
  package var tree: [CallNode]
  /// The last captured stack, innermost first: the stack that a watchdog with a single sample would show.
  package var lastStack: [ResolvedFrame]
  /// The innermost application function on the last stack, which such a watchdog would blame.
  package var lastStackBlames: ResolvedFrame?
  /// The reason why unwinding of the last stack ended.
  package var lastStackEnd: StackEnd
  /// The number of samples with a stack.
  package var sampleCount: Int
  /// The numbers of samples without a stack, by reason.
  package var failures: [CaptureOutcome: Int]
  /// The numbers of samples whose stack lacks outermost frames, by reason.
  package var truncations: [StackEnd: Int]
  /// The number of samples whose outermost frames come from an earlier stack of the same work, at the same stack
  /// addresses.
  package var joinedCount: Int
  /// The number of samples whose missing outermost frames were completed from a stack near in time with equal
  /// functions.
  package var completedCount: Int
  /// The number of stacks with unnamed async callers, which are left out.
  package var unknownCallersCount: Int
  /// The thread's CPU time and its time ready to run; `nil` if unknown.
  package var cpuUse: CPUUse?
  /// The application's labels of the work with their times; empty if there were none.
  package var labels: [LabelShare]
  /// The culprit of each of several threads that worked on the source, by thread ID; empty if there was one thread or
  /// the threads are unknown.
  package var workers: [Worker]
  /// Whether the queue took up waiting work; `nil` if the source is not a queue or this is unknown.
  package var queueProgress: QueueProgress?
  /// The work that waited in the queue; `nil` if the source has none or this is unknown.
  package var waitingWork: WaitingWork?
  /// The times in which no thread ran the task; `nil` if there are none.
  package var taskTimes: TaskTimes?
  /// The chains of lock waits, heaviest first, limited in number.
  package var waitChains: [WaitChain]
  /// The causes of the stall, heaviest first. Their shares add up to the stall. Empty if there is no sample.
  package var causes: [Cause]
  /// The kernel's counts during the stall.
  package var counts: StallCounts
  /// The phases of the stall; empty if there is only one, or if several threads worked.
  package var timeline: [TimelineStretch]

  /// Analyzes `stall`.
  ///
  /// - Parameters:
  ///   - stall: The stall.
  ///   - stacks: The stacks to which its samples refer.
  ///   - rules: The rules for the application's own code.
  ///   - architecture: The process's architecture as printed by `uname -m`, which determines the names of system
  ///     calls.
  ///   - resolve: Symbolizes a frame. Returns the innermost function first if calls were inlined.
  package init(
    stall: Stall,
    stacks: [Stack],
    rules: OwnershipRules = OwnershipRules(),
    architecture: String = "",
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    let isPool = stall.source.kind == .pool
    let observed = PoolOccupants.observed(stall, stacks, resolve)
    let observations = Observations(stall: observed, stacks: stacks, rules: rules, resolve: resolve)
    labels = observations.labels
    taskTimes = observations.taskTimes
    var graph = WaitGraph(observed, stacks, rules: rules, resolve: resolve)
    let chains = graph.chains(observations)
    waitChains = chains.all
    counts = StallCounts(observations.sampleTimes.map(\.sample))
    let areSeen = !observations.sampleTimes.isEmpty
    causes = areSeen ? CauseFinder(observed, observations, chains, counts, architecture: architecture).causes() : []
    timeline = []
    workers = observations.byThread.map { Worker($0, observations: $1) }
    queueProgress = stall.queueProgress
    waitingWork = stall.waitingWork
    tree = CallNode.merge(observations.stacks.map(\.stack))
    sampleCount = observations.stacks.count
    failures = observations.failures
    truncations = observations.truncations
    joinedCount = observations.joined
    completedCount = observations.completed
    unknownCallersCount = observations.unknownCallers
    cpuUse = observations.cpuUse { _, _ in true }
    let last = observations.last?.stack.frames ?? []
    lastStack = last.reversed().map(\.resolved)
    lastStackBlames = last.last(where: \.isApplication)?.resolved
    lastStackEnd = observations.last?.end ?? .notCaptured
    duration = observations.duration
    unobserved = observations.unobserved
    dominant = observations.dominant(of: tree)
    dependency = nil
    (parts, callers, farCallers, doing, ownTime, contenders, contenderCount) = ([], [], [], [], .zero, [], 0)
    guard !observations.stacks.isEmpty else {
      verdict = .noStacks(observations.failureText)
      return
    }
    let blamed = observations.stacks.map(\.blamed)
    var counted = blamed
    var suspects = Suspects(counted, total: observations.duration, isHalfEnough: !isPool)
    // If the application holds little of the time, functions of packages count as the application's, for packages with
    // their own threads.
    let own = blamed.reduce(Duration.zero) { $0 + ($1.frames.contains(where: \.isApplication) ? $1.time : .zero) }
    let elsewhere = observations.stacks.reduce(Duration.zero) { $0 + ($1.isElsewhere ? $1.stack.time : .zero) }
    if own * 2 < observations.duration - elsewhere {
      counted = blamed.map(\.withDependencies)
      suspects = Suspects(counted, total: observations.duration)
    }
    func claims(_ group: Suspects.Group) -> [Claim] {
      group.functions.prefix(Self.claimsMax).map { observations.claim(on: $0, at: group.places) }
    }
    var found = suspects.culprit()
    if found == nil, !isPool {
      let withEntryPoints = Suspects(counted.map(\.withEntryPoint), total: observations.duration)
      found = withEntryPoints.culprit()
      if found != nil { suspects = withEntryPoints }
    }
    let others = suspects.contenders(beside: found?.function)
    contenderCount = others.functions.count
    contenders = claims(others)
    let divided = found.map { suspects.parts(of: $0.function) }
    if workers.isEmpty, !isPool {
      let functions = counted.enumerated().map { number, stack -> FunctionIdentity? in
        if let culprit = found?.function, stack.contains(culprit) {
          return divided?.places[number].map { stack.frames[$0].identity } ?? culprit
        }
        return others.places[number].map { stack.frames[$0].identity }
      }
      timeline = Timeline.stretches(observations, functions)
    }
    guard let culprit = found?.function else {
      verdict = observations.suspension.map(Verdict.suspended) ?? .noSingleCulprit
      return
    }
    verdict = .culprit(observations.claim(on: culprit))
    parts = divided.map(claims) ?? []
    let levels = suspects.callers(of: culprit, levels: Self.callersMax)
    callers = levels.first.map(claims) ?? []
    farCallers = levels.dropFirst().compactMap { claims($0).first }
    (ownTime, doing) = observations.breakdown(of: culprit)
    let below = blamed.compactMap { $0.below(culprit) }
    let taken = Suspects(below, total: below.reduce(.zero) { $0 + $1.time }).culprit()?.function
    dependency = (taken ?? found?.callback).map { observations.claim(on: $0, below: culprit) }
  }

  /// Tolerance around half of the stall within which two functions count as equal. Smaller differences are noise.
  package static let tieMargin = 0.01
  /// Maximum number of callers, callees and contenders.
  private static let claimsMax = 8
  /// Maximum number of levels of callers.
  private static let callersMax = 3

  /// Returns the functions in `times`, heaviest first. Ties are broken by name.
  static func heaviest(_ times: [FunctionIdentity: Duration]) -> [FunctionIdentity] {
    times.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }.map(\.key)
  }
}
