import CulpritStallRecord

/// A function and how much of the stall it took.
package struct Claim: Hashable, Sendable {
  /// The function. Address and location are those of the place in it that took most.
  package var frame: ResolvedFrame
  /// The time of the samples whose stack contains the function, counted once however often it recurs.
  package var share: Share
  /// How many samples that were.
  package var sampleCount: Int
  /// How much of its time it used a processor, and how much it was ready for one; `nil` if unknown.
  package var processorUse: ProcessorUse?
  /// How often it was found waiting; `nil` if unknown.
  package var waiting: Waiting?
}

/// How often a thread was found waiting.
package struct Waiting: Hashable, Sendable {
  /// So many samples found it waiting for something other than a processor.
  package var samples: Int
  /// Of so many that tell.
  package var of: Int
  /// The number of the system call that most of them found it in; `nil` if none.
  package var systemCall: Int32?
  /// What most of these found it on; `nil` if nothing, or where it is not known.
  package var descriptor: Descriptor?
  /// Whether the kernel had begun one anew, after the process had been stopped; its number is `nil` where that is not known.
  package var isRestarted = false
  /// How many found that no thread ran the task, which was at an `await`.
  package var suspended = 0
}

/// What a task did of a stall in which no thread ran it; the rest it was run.
package struct TaskTimes: Hashable, Sendable {
  /// It was at an `await`.
  package var suspended: Duration
  /// It was ready, and waited for a thread.
  package var ready: Duration
}

/// One of several threads that worked on what stalled.
package struct Worker: Hashable, Sendable {
  /// The kernel's id of the thread.
  package var threadID: Int32
  /// Who held at least half of the time in which it was seen; `nil` when nobody did.
  package var culprit: Claim?

  init(_ threadID: Int32, observations: Observations) {
    self.threadID = threadID
    let suspects = Suspects(observations.stacks.map(\.stack), total: observations.duration)
    culprit = suspects.culprit().map { observations.claim(on: $0.function) }
  }
}

/// Who is to blame.
package enum Verdict: Hashable, Sendable {
  /// One function of the application holds at least half of the stall.
  case culprit(Claim)
  /// No function of the application does; nor one of a package's, where the application has little to do with it.
  case noSingleCulprit
  /// The same, and for at least half of the stall the task was suspended while its work went on elsewhere.
  case suspended(Suspension)
  /// Not one stack was captured; the text says why.
  case noStacks(String)
}

/// What a stall was spent on: a pure function of what was recorded.
///
/// Each instant of the stall belongs to the sample nearest to it in time. A function of the application that holds more than
/// half of the stall is never nobody; of several the innermost is the culprit (`Suspects.swift` has the whole rule). More
/// time for a culprit leaves it one.
package struct Blame: Hashable, Sendable {
  /// Who is to blame.
  package var verdict: Verdict
  /// The function that is to blame; `nil` when no single one is.
  package var culprit: Claim? {
    if case .culprit(let claim) = verdict { return claim }
    return nil
  }
  /// Where the task was suspended, when no function is to blame because its work went on elsewhere; else `nil`.
  package var suspension: Suspension? {
    if case .suspended(let suspension) = verdict { return suspension }
    return nil
  }
  /// The functions between which the culprit only divides its time, and none of which has most of it: heaviest first, the
  /// first few. None when it works itself.
  package var parts: [Claim]
  /// The innermost function, of whoever, to which always the heaviest callee with at least half of the stall leads; `nil` when
  /// already the outermost function holds less.
  package var dominant: Claim?
  /// The application's functions that called the culprit, each with the time that the culprit had from it: heaviest first,
  /// the first few.
  package var callers: [Claim]
  /// Where ``callers`` is a single one with all of the culprit's time: the application's functions that called that one, and
  /// so on, the nearest few. The last of them need not have all.
  package var farCallers: [Claim]
  /// The culprit's callees and what they took, heaviest first: what it was doing; the first few.
  package var doing: [Claim]
  /// The function of a package that the application depends on which took most of the culprit's time, or the application's own that a
  /// library called back for it; `nil` when there is none. The culprit is who called it.
  package var dependency: Claim?
  /// The time that the culprit spent in its own code.
  package var ownTime: Duration
  /// The application's functions beside the culprit, or instead of one, heaviest first: the first few of
  /// ``contenderCount``. Each stack without the culprit counts for one, so that all together make up no more than the rest of
  /// the stall.
  package var contenders: [Claim]
  /// How many contenders there are.
  package var contenderCount: Int
  /// How long the stall took: at least as long as the last sample's age.
  package var duration: Duration
  /// How much of that belongs to nobody, because samples are missing: they were lost, or the file is damaged.
  package var unobserved: Duration
  /// Every sampled stack, merged; heaviest first.
  package var tree: [CallNode]
  /// The last stack that was captured, innermost first: what a watchdog with a single sample would have shown.
  package var lastStack: [ResolvedFrame]
  /// The application's innermost function on the last stack: what such a watchdog would have blamed.
  package var lastStackBlames: ResolvedFrame?
  /// Where the last stack ended.
  package var lastStackEnd: StackEnd
  /// The samples with a stack.
  package var sampleCount: Int
  /// The samples without one, and why.
  package var failures: [CaptureOutcome: Int]
  /// The samples whose stack lacks its outermost frames, and why.
  package var truncations: [StackEnd: Int]
  /// The samples whose outermost frames are those of an earlier stack of the same work, which lay at the same places.
  package var joinedCount: Int
  /// The samples that lack outermost frames, and count as if they had those of a stack near in time with the same functions.
  package var completedCount: Int
  /// How many stacks have async callers without a name, which are left out.
  package var unknownCallersCount: Int
  /// How much of the stall the thread used a processor, and how much it was ready for one; `nil` if unknown.
  package var processorUse: ProcessorUse?
  /// What the application had said of the work, and for how long; empty when it had said nothing.
  package var labels: [LabelShare]
  /// What was to blame on each of the threads that worked on what stalled, by their ids; empty where one did, or where it is not
  /// known.
  package var workers: [Worker]
  /// Whether waiting work was taken up, where the source is a queue and that is known.
  package var queueProgress: QueueProgress?
  /// What waited in the queue, where the source has one and that is known.
  package var waitingWork: WaitingWork?
  /// How long no thread ran the task that worked; `nil` where one always did.
  package var taskTimes: TaskTimes?
  /// What the work waited for that other threads held, the heaviest first; the first few.
  package var waitChains: [WaitChain]
  /// Why the work did not go on, the heaviest first: their shares make up the stall. Empty where there is no sample.
  package var causes: [Cause]
  /// What the kernel counted meanwhile.
  package var counts: StallCounts
  /// The stall in order of time; empty where one function held all of it, or several threads worked.
  package var timeline: [TimelineStretch]

  /// Works out who is to blame for `stall`.
  ///
  /// - Parameters:
  ///   - stall: The stall.
  ///   - stacks: The stacks that its samples refer to.
  ///   - rules: What counts as the application's own code.
  ///   - architecture: That of the process, as `uname -m` has it: for the names of system calls.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
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
    processorUse = observations.processorUse { _, _ in true }
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
    // Threads of a package's own, on which the application has little.
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

  /// Two functions hold half each if neither is further from half than this part of the stall: which has more is chance.
  package static let tieMargin = 0.01
  /// The most callers, callees and contenders that are worked out.
  private static let claimsMax = 8
  /// The most callers above each other.
  private static let callersMax = 3

  /// The functions in `times`, heaviest first, equal ones in a fixed order.
  static func heaviest(_ times: [FunctionIdentity: Duration]) -> [FunctionIdentity] {
    times.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }.map(\.key)
  }
}
