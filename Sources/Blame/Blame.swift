import CulpritStallRecord

/// The analysis of a stall: a pure function of the recording.
///
/// ``SampleTimes`` determines the time of each sample, ``Suspects`` the culprit. A culprit with more time remains the
/// culprit.
extension StallReport {
  /// Analyzes `stall`. The report lacks other threads, and its functions lack final display names.
  package init(
    of stall: Stall,
    in recording: Recording,
    rules: OwnershipRules = OwnershipRules(),
    architecture: String = "",
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    let stacks = recording.stacks
    let isPool = stall.source.kind == .pool
    let observed = PoolOccupants.observed(stall, stacks, resolve)
    let observations = Observations(
      stall: observed,
      stacks: stacks,
      rules: rules,
      architecture: architecture,
      resolve: resolve
    )
    var graph = WaitGraph(observed, stacks, rules: rules, resolve: resolve)
    let chains = graph.chains(observations)
    let observedSamples = observations.sampleTimes.map(\.sample)
    let counts = Counts(observedSamples)
    let length = observations.duration

    version = Self.formatVersion
    id = stall.reportID(in: recording.process)
    signature = ""
    process = recording.process.map { Process($0, recording.modules) }
    source = Source(stall.source)
    thread = Thread(stall.thread)
    began = Timestamp(stall.began)
    thresholdSeconds = Seconds(stall.threshold)
    durationSeconds = Seconds(stall.duration)
    isLowerBound = !stall.hasEnded || stall.source.isProbed
    hasEnded = stall.hasEnded
    hangSeconds = stall.notes.last { $0.kind == .hang }.map { Seconds($0.time) }

    verdict = .noSingleCulprit
    (verdictReason, culprit, suspendedIn, spentIn) = (nil, nil, nil, nil)
    (parts, callers, outerCallers, callees, contenders, contenderCount) = ([], [], [], [], [], 0)
    ownSeconds = Seconds(.zero)

    cpuUse = observations.cpuUse { _, _ in true }
    workers = observations.byThread.map { id, observations in
      let name = stall.others?.threads.first { $0.thread.id == id }?.thread.name ?? ""
      return Worker(thread: Thread(id: id, name: name), culprit: observations.culprit)
    }
    labels = observations.labels
    queueProgress = stall.queueProgress
    waitingWork = stall.waitingWork
    taskTimes = observations.taskTimes
    waitChains = chains.all
    causes =
      observedSamples.isEmpty
      ? [] : CauseFinder(observed, observations, chains, counts, Counts.counters(observedSamples)).causes()
    self.counts = counts.isEmpty ? nil : counts
    timeline = []
    group = stall.count.map(Group.init)
    notes = stall.notes(causes)
    tree = CallTree(whole: length.inSeconds, rules: rules).merged(observations.stacks.map(\.stack))
    dominant = observations.dominant(of: tree)
    let last = observations.last?.stack.frames ?? []
    lastStack =
      last.isEmpty
      ? nil
      : Stack(
        functions: last.reversed().map { Function($0.content, rules) },
        missingCallers: Reason(observations.last?.end ?? .notCaptured)
      )
    lastStackBlames = last.last(where: \.isApplication).map { Function($0.content, rules) }
    samples = stall.samples.map { Sample($0, stacks, architecture) }
    evidence = Evidence(stall, observations)
    otherThreads = nil
    cost = Cost(stall.cost)
    repeats = 0
    missingNames = MissingNames(tree, recording.modules).notes
    origin.value = Made(recording: recording, stall: stall)

    judge(observations, isPool: isPool)
    signature = Signature.of(
      source,
      service: process?.name ?? "",
      verdict: verdict,
      function: (culprit ?? (suspendedIn == nil ? nil : callers.first) ?? suspendedIn ?? dominant)?.function.frame
    )
  }

  private mutating func judge(_ observations: Observations, isPool: Bool) {
    guard !observations.stacks.isEmpty else {
      (verdict, verdictReason) = (.noStacks, observations.failureText)
      return
    }
    let blamed = observations.stacks.map(\.blamed)
    var counted = blamed
    var suspects = Suspects(counted, total: observations.duration, isHalfEnough: !isPool)
    // If application code holds less than half of the time, package functions count as application code, because
    // packages can have their own threads.
    let own = blamed.reduce(Duration.zero) { $0 + ($1.frames.contains(where: \.isApplication) ? $1.time : .zero) }
    let elsewhere = observations.stacks.reduce(Duration.zero) { $0 + ($1.isElsewhere ? $1.stack.time : .zero) }
    if own * 2 < observations.duration - elsewhere {
      counted = blamed.map(\.withDependencies)
      suspects = Suspects(counted, total: observations.duration)
    }
    func claims(_ group: Suspects.Group) -> [Finding] {
      group.functions.prefix(Suspects.claimsMax).map { observations.claim(on: $0, at: group.places) }
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
    guard let found else {
      guard let suspension = observations.suspension else { return }
      (verdict, suspendedIn) = (.suspended, suspension.place)
      callers = suspension.caller.map { [$0] } ?? []
      return
    }
    let function = found.function
    (verdict, culprit) = (.culprit, observations.claim(on: function))
    parts = divided.map(claims) ?? []
    let levels = suspects.callers(of: function, levels: Suspects.callersMax)
    callers = levels.first.map(claims) ?? []
    outerCallers = levels.dropFirst().compactMap { claims($0).first }
    let (ownTime, callees) = observations.breakdown(of: function)
    (ownSeconds, self.callees) = (Seconds(ownTime), callees)
    let below = blamed.compactMap { $0.below(function) }
    let taken = Suspects(below, total: below.reduce(.zero) { $0 + $1.time }).culprit()?.function
    spentIn = (taken ?? found.callback).map { observations.claim(on: $0, below: function) }
  }
}

extension StallReport.Group {
  fileprivate init(_ count: StallCount) {
    self.init(
      since: StallReport.Timestamp(count.since),
      count: count.all,
      atSamePlace: count.atSamePlace,
      unrecordedCount: count.unrecorded,
      unrecordedSeconds: Seconds(count.unrecordedTime)
    )
  }
}

extension StallReport.Sample {
  fileprivate init(_ sample: Sample, _ stacks: [Stack], _ architecture: String) {
    let stack = sample.stack.flatMap { stacks.indices.contains($0) ? stacks[$0] : nil }
    self.init(
      ageSeconds: Seconds(sample.age),
      noStack: stack == nil ? StallReport.Reason(sample.outcome) : nil,
      missingCallers: stack.flatMap { StallReport.Reason($0.end) },
      activity: StallReport.Activity(sample.activity, architecture),
      label: sample.label,
      threadID: sample.threadID
    )
  }
}

extension StallReport.Evidence {
  fileprivate init(_ stall: Stall, _ observations: Observations) {
    func counts<Key: RawRepresentable>(_ counted: [Key: Int], _ reason: (Key) -> StallReport.Reason?) -> [Count]
    where Key.RawValue == UInt8 {
      counted.ordered { $0.key.rawValue < $1.key.rawValue }
        .compactMap { key, count in reason(key).map { Count(reason: $0, count: count) } }
    }
    self.init(
      stackCount: observations.stacks.count,
      noStack: counts(observations.failures) { StallReport.Reason($0) },
      missingCallers: counts(observations.truncations) { StallReport.Reason($0) },
      completedCount: observations.completed,
      joinedCount: observations.joined,
      unknownCallersCount: observations.unknownCallers,
      lostCount: stall.lostSamples,
      skippedCount: stall.sparedSamples,
      omittedCount: stall.leftOutSamples,
      isDamaged: stall.isDamaged,
      unobservedSeconds: Seconds(observations.unobserved),
      gapSeconds: Seconds(stall.gap)
    )
  }
}

extension Stall {
  /// Returns the notes for a report with `causes`. Includes the owner of a file lock only if the work waited for a
  /// lock, or slept in a library that might have retried a lock. Includes other work only if this work was suspended.
  fileprivate func notes(_ causes: [StallReport.Cause]) -> [StallReport.Note] {
    let canWaitForFile = causes.contains { $0.kind == .lock || ($0.kind == .sleep && !$0.subjects.isEmpty) }
    return latestNotes.filter {
      switch $0.kind {
      case .count, .spared, .reported: false
      case .fileLock: canWaitForFile
      case .meanwhile: causes.contains { $0.kind == .awaiting }
      default: true
      }
    }
    .map {
      StallReport.Note(
        kind: StallReport.Note.Kind($0.kind),
        title: $0.title,
        text: $0.text,
        seconds: Seconds($0.time)
      )
    }
  }
}
