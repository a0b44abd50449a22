import CulpritBlame
import CulpritStallRecord

/// Creates the reports of ongoing stalls, ended stalls and saved files.
///
/// Symbolizes, blames and names functions. All content of a report is determined here; texts and exports only print it.
package struct ReportBuilder {
  let recording: Recording
  /// The rules for the application's own code.
  package let rules: OwnershipRules
  /// Symbolizes a frame. Returns the innermost function first if calls were inlined.
  package let resolve: (StackFrame) -> [ResolvedFrame]
  let architecture: String

  /// Creates a builder for the stalls in `recording`.
  ///
  /// - Parameters:
  ///   - recording: The recording.
  ///   - rules: The rules for the application's own code.
  ///   - architecture: The architecture if the recording contains none. It determines the names of system calls.
  ///   - resolve: Symbolizes a frame. Returns the innermost function first if calls were inlined.
  package init(
    _ recording: Recording,
    rules: OwnershipRules = OwnershipRules(),
    architecture: String = "",
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    self.recording = recording
    self.rules = rules
    self.resolve = resolve
    self.architecture = recording.process?.architecture ?? architecture
  }

  /// Returns the analysis of `stall`.
  package func blame(for stall: Stall) -> Blame {
    Blame(
      stall: stall.namingPoolThreads,
      stacks: recording.stacks,
      rules: rules,
      architecture: architecture,
      resolve: resolve
    )
  }

  /// Creates the report of a stall.
  ///
  /// - Parameters:
  ///   - stall: A stall of the recording.
  ///   - blame: The analysis, if it has been computed already.
  ///   - repeats: The number of stalls with an equal culprit since the previous report.
  /// - Returns: The report.
  package func report(of stall: Stall, blame: Blame? = nil, repeats: Int = 0) -> StallReport {
    let stall = stall.namingPoolThreads
    let blame = blame ?? self.blame(for: stall)
    let groups = stall.others.map {
      ThreadGroup.groups(of: $0, stacks: recording.stacks, resolve: resolve)
    }
    let maker = ReportParts(
      rules: rules,
      architecture: architecture,
      names: FunctionNames(blame, groups ?? [])
    )
    var report = maker.report(recording, stall, blame, repeats)
    if let others = stall.others, let groups { report.otherThreads = maker.threads(others, groups) }
    return report
  }

  /// Returns the last `count` stacks of `stall` in order of time.
  package func lastStacks(of stall: Stall, count: Int = 10) -> [StallReport.TimedStack] {
    let stacks = stall.samples.suffix(count)
      .map { sample in
        let frames = sample.stack.map { recording.stacks[$0].frames } ?? []
        return (sample.age, frames.flatMap(resolve).namingMergedFunctions())
      }
    let maker = ReportParts(rules: rules, architecture: architecture, names: FunctionNames(stacks.flatMap(\.1)))
    return stacks.map { StallReport.TimedStack(ageSeconds: Seconds($0), functions: $1.map(maker.function)) }
  }

  /// Returns a function that converts frames with the names used in `report`, which must be from this builder.
  package func functions(of report: StallReport) -> (ResolvedFrame) -> StallReport.Function {
    let groups = report.raw.stall.others.map { ThreadGroup.groups(of: $0, stacks: recording.stacks, resolve: resolve) }
    let names = FunctionNames(report.raw.blame, groups ?? [])
    return ReportParts(rules: rules, architecture: architecture, names: names).function
  }

  /// Converts a thread's activity for a report.
  package func activity(_ activity: ThreadActivity) -> StallReport.Activity {
    ReportParts(rules: rules, architecture: architecture, names: FunctionNames([])).activity(activity)
  }

  /// Returns a dump of the threads of `all` and of `work`, whose stacks are in the recording.
  package func dump(_ all: AllThreads, _ work: [WorkUnderWay], at time: WallTime) -> ProcessDump {
    let all = all.namingPoolThreads
    // Work without a thread is grouped like threads. Its index replaces the thread ID.
    let waiting = work.indices.filter { work[$0].threadID == 0 }
      .map { place in
        ThreadSample(
          thread: ObservedThread(id: Int32(place), name: ""),
          stack: work[place].stack,
          outcome: .captured,
          cpuTime: nil,
          activity: work[place].activity
        )
      }
    let threads = ThreadGroup.groups(of: all, stacks: recording.stacks, resolve: resolve)
    let groups = ThreadGroup.groups(of: AllThreads(threads: waiting), stacks: recording.stacks, resolve: resolve)
    let names = FunctionNames((threads + groups).flatMap(\.frames))
    let maker = ReportParts(rules: rules, architecture: architecture, names: names)
    let running = Dictionary(grouping: work.filter { $0.threadID != 0 }, by: \.threadID).sorted { $0.key < $1.key }
    return ProcessDump(
      process: recording.process.map { maker.process($0, recording.modules) },
      time: StallReport.Timestamp(time),
      threads: maker.threads(all, threads),
      work: running.map { id, work in
        let thread = all.threads.first { $0.thread.id == id }
        return ProcessDump.Group(
          work: work.map { ProcessDump.Work($0, thread?.thread ?? ObservedThread(id: id, name: "")) },
          activity: maker.activity(thread?.activity ?? .unknown),
          functions: []
        )
      }
        + groups.map { group in
          ProcessDump.Group(
            work: group.threads.map { work[Int($0.id)] }.sorted { ($0.age ?? .zero) > ($1.age ?? .zero) }
              .map { ProcessDump.Work($0, nil) },
            activity: maker.activity(group.activity),
            functions: group.frames.map(maker.function)
          )
        }
    )
  }

  /// Returns a report of the threads of `all`, whose stacks are in the recording.
  package func threads(of all: AllThreads) -> ThreadsReport {
    let all = all.namingPoolThreads
    let groups = ThreadGroup.groups(of: all, stacks: recording.stacks, resolve: resolve)
    let names = FunctionNames(groups.flatMap(\.frames))
    return ReportParts(rules: rules, architecture: architecture, names: names).threads(all, groups)
  }
}

/// Converts a verdict and its evidence to the values of a report.
struct ReportParts {
  let rules: OwnershipRules
  let architecture: String
  let names: FunctionNames

  func report(_ recording: Recording, _ stall: Stall, _ blame: Blame, _ repeats: Int) -> StallReport {
    let (verdict, reason) = self.verdict(blame)
    return StallReport(
      version: StallReport.formatVersion,
      id: stall.reportID(in: recording.process),
      signature: Signature.of(
        StallReport.Source(stall.source),
        service: recording.process?.name ?? "",
        verdict: verdict,
        function: (blame.culprit ?? blame.suspension?.caller ?? blame.suspension?.place ?? blame.dominant)?.frame
      ),
      process: recording.process.map { process($0, recording.modules) },
      source: StallReport.Source(stall.source),
      thread: StallReport.Thread(stall.thread),
      began: StallReport.Timestamp(stall.began),
      thresholdSeconds: Seconds(stall.threshold),
      durationSeconds: Seconds(stall.duration),
      isLowerBound: !stall.hasEnded || stall.source.isProbed,
      hasEnded: stall.hasEnded,
      hangSeconds: stall.notes.last { $0.kind == .hang }.map { Seconds($0.time) },
      verdict: verdict,
      verdictReason: reason,
      culprit: blame.culprit.map(finding),
      parts: blame.parts.map(finding),
      suspendedIn: blame.suspension.map { finding($0.place) },
      callers: (blame.suspension?.caller.map { [$0] } ?? blame.callers).map(finding),
      outerCallers: blame.farCallers.map(finding),
      callees: blame.doing.map(finding),
      ownSeconds: Seconds(blame.ownTime),
      spentIn: blame.dependency.map(finding),
      dominant: blame.dominant.map(finding),
      contenders: blame.contenders.map(finding),
      contenderCount: blame.contenderCount,
      cpuUse: blame.cpuUse.map(StallReport.CPUUse.init),
      workers: blame.workers.map { worker($0, stall) },
      labels: blame.labels.map { label in
        StallReport.Label(text: label.label, share: label.share.fraction, seconds: Seconds(label.share.time))
      },
      queueProgress: blame.queueProgress.map(StallReport.QueueProgress.init),
      waitingWork: blame.waitingWork.map {
        StallReport.WaitingWork(
          count: $0.most,
          isLowerBound: $0.isLowerBound,
          oldestSeconds: $0.oldest.map { Seconds($0) }
        )
      },
      taskTimes: blame.taskTimes.map {
        StallReport.TaskTimes(suspendedSeconds: Seconds($0.suspended), readySeconds: Seconds($0.ready))
      },
      waitChains: blame.waitChains.map(waitChain),
      causes: blame.causes.map(cause),
      counts: counts(blame.counts),
      timeline: blame.timeline.map {
        StallReport.Stretch(
          beginSeconds: Seconds($0.begin),
          endSeconds: Seconds($0.end),
          culprit: $0.claim.map(finding)
        )
      },
      group: stall.count.map {
        StallReport.Group(
          since: StallReport.Timestamp($0.since),
          count: $0.all,
          atSamePlace: $0.atSamePlace,
          unrecordedCount: $0.unrecorded,
          unrecordedSeconds: Seconds($0.unrecordedTime)
        )
      },
      notes: notes(stall, blame),
      tree: blame.tree.map { node($0, blame.duration.inSeconds) },
      lastStack: blame.lastStack.isEmpty
        ? nil
        : StallReport.Stack(
          functions: blame.lastStack.map(function),
          missingCallers: StallReport.Reason(blame.lastStackEnd)
        ),
      lastStackBlames: blame.lastStackBlames.map(function),
      samples: stall.samples.map { sample($0, recording.stacks) },
      evidence: evidence(stall, blame),
      otherThreads: nil,
      cost: StallReport.Cost(stall.cost),
      repeats: repeats,
      missingNames: MissingNames(blame.tree, recording.modules).notes,
      origin: StallReport.Origin(made: StallReport.Origin.Made(recording: recording, stall: stall, blame: blame))
    )
  }

  /// Returns the notes on `stall`. The owner of a file's lock is among them only if the work waited for a lock, or in a
  /// library that might have tried to take one repeatedly; work that ran meanwhile only if the work was suspended.
  private func notes(_ stall: Stall, _ blame: Blame) -> [StallReport.Note] {
    let canWaitForFile = blame.causes.contains { $0.kind == .lock || ($0.kind == .sleep && !$0.parts.isEmpty) }
    return stall.latestNotes.filter {
      switch $0.kind {
      case .count, .spared, .reported: false
      case .fileLock: canWaitForFile
      case .meanwhile: blame.causes.contains { $0.kind == .awaiting }
      default: true
      }
    }
    .map(note)
  }

  private func verdict(_ blame: Blame) -> (StallReport.Verdict, String?) {
    switch blame.verdict {
    case .culprit: (.culprit, nil)
    case .noSingleCulprit: (.noSingleCulprit, nil)
    case .suspended: (.suspended, nil)
    case .noStacks(let why): (.noStacks, why)
    }
  }

  func process(_ process: ObservedProcess, _ modules: [Module]) -> StallReport.Process {
    let buildID = modules.first { $0.path == process.executable }?.buildID ?? []
    return StallReport.Process(
      id: process.id,
      executable: process.executable,
      architecture: process.architecture,
      observerVersion: process.observerVersion,
      watchedSince: StallReport.Timestamp(process.watchedSince),
      host: process.host.isEmpty ? nil : process.host,
      buildID: buildID.isEmpty ? nil : hexadecimal(buildID)
    )
  }

  /// Converts `frame` for a report.
  func function(_ frame: ResolvedFrame) -> StallReport.Function {
    let isOwn = CodeOwner.isApplication(frame, rules)
    // An address in a library is useless to readers. In application code it is the only identification.
    let isNameless = frame.function == nil && !frame.module.isEmpty && !isOwn
    return StallReport.Function(
      name: printable(frame.displayName),
      displayName: isNameless ? "a function of \(printable(frame.moduleName))" : names.name(frame),
      fullName: frame.fullName,
      symbol: frame.rawName,
      module: frame.module,
      package: CodeOwner.package(of: frame),
      location: frame.location.map { StallReport.Location(file: $0.file, line: $0.line, column: $0.column) },
      isOwn: isOwn,
      isInlined: frame.isInlined,
      isAwaiting: frame.isAwaiting,
      address: StallReport.Address(frame.address),
      noName: frame.missing?.explanation
    )
  }

  func finding(_ claim: Claim) -> StallReport.Finding {
    StallReport.Finding(
      function: function(claim.frame),
      share: claim.share.fraction,
      shareLow: claim.share.low,
      shareHigh: claim.share.high,
      seconds: Seconds(claim.share.time),
      sampleCount: claim.sampleCount,
      cpuUse: claim.cpuUse.map(StallReport.CPUUse.init),
      waiting: claim.waiting.map { waiting in
        StallReport.Waiting(
          samples: waiting.samples,
          of: waiting.of,
          systemCall: SystemCallText.of(waiting, architecture),
          target: waiting.descriptor.flatMap(DescriptorText.of),
          suspended: waiting.suspended
        )
      }
    )
  }

  private func worker(_ worker: Worker, _ stall: Stall) -> StallReport.Worker {
    let name = stall.others?.threads.first { $0.thread.id == worker.threadID }?.thread.name ?? ""
    return StallReport.Worker(
      thread: StallReport.Thread(ObservedThread(id: worker.threadID, name: name)),
      culprit: worker.culprit.map(finding)
    )
  }

  private func node(_ node: CallNode, _ whole: Double) -> StallReport.Node {
    StallReport.Node(
      function: function(node.frame),
      share: whole > 0 ? node.time.inSeconds / whole : 0,
      seconds: Seconds(node.time),
      selfSeconds: Seconds(node.selfTime),
      repetitions: node.repetitions,
      children: node.children.map { self.node($0, whole) }
    )
  }

  private func sample(_ sample: Sample, _ stacks: [Stack]) -> StallReport.Sample {
    let stack = sample.stack.flatMap { stacks.indices.contains($0) ? stacks[$0] : nil }
    return StallReport.Sample(
      ageSeconds: Seconds(sample.age),
      noStack: stack == nil ? StallReport.Reason(sample.outcome) : nil,
      missingCallers: stack.flatMap { StallReport.Reason($0.end) },
      activity: activity(sample.activity),
      label: sample.label,
      threadID: sample.threadID
    )
  }

  func activity(_ activity: ThreadActivity) -> StallReport.Activity {
    switch activity {
    case .unknown: StallReport.Activity(kind: .unknown)
    case .running: StallReport.Activity(kind: .computing)
    case .blocked: StallReport.Activity(kind: .blocked)
    case .suspended: StallReport.Activity(kind: .suspended)
    case .enqueued: StallReport.Activity(kind: .enqueued)
    case .inSystemCall(let call):
      StallReport.Activity(kind: .inSystemCall, systemCall: SystemCallText.name(of: call, architecture: architecture))
    case .inRestartedCall(let call):
      StallReport.Activity(
        kind: .inRestartedCall,
        systemCall: call.map { SystemCallText.name(of: $0, architecture: architecture) }
      )
    }
  }

  private func note(_ note: StallNote) -> StallReport.Note {
    StallReport.Note(
      kind: StallReport.Note.Kind(note.kind),
      title: note.title,
      text: note.text,
      seconds: Seconds(note.time)
    )
  }

  private func evidence(_ stall: Stall, _ blame: Blame) -> StallReport.Evidence {
    func counts<Key: RawRepresentable>(
      _ counted: [Key: Int],
      _ reason: (Key) -> StallReport.Reason?
    ) -> [StallReport.Evidence.Count] where Key.RawValue == UInt8 {
      counted.sorted { $0.key.rawValue < $1.key.rawValue }
        .compactMap { key, count in reason(key).map { StallReport.Evidence.Count(reason: $0, count: count) } }
    }
    return StallReport.Evidence(
      stackCount: blame.sampleCount,
      noStack: counts(blame.failures) { StallReport.Reason($0) },
      missingCallers: counts(blame.truncations) { StallReport.Reason($0) },
      completedCount: blame.completedCount,
      joinedCount: blame.joinedCount,
      unknownCallersCount: blame.unknownCallersCount,
      lostCount: stall.lostSamples,
      skippedCount: stall.sparedSamples,
      omittedCount: stall.leftOutSamples,
      isDamaged: stall.isDamaged,
      unobservedSeconds: Seconds(blame.unobserved),
      gapSeconds: Seconds(stall.gap)
    )
  }

  /// Converts the threads of `all`, grouped in `groups`.
  func threads(_ all: AllThreads, _ groups: [ThreadGroup]) -> ThreadsReport {
    ThreadsReport(
      groups: groups.map { group in
        ThreadsReport.Group(
          threads: group.threads.map(StallReport.Thread.init),
          activity: activity(group.activity),
          lock: group.lock.map { lock in
            let owner = all.threads.first { $0.thread.id == lock.holderID }?.thread
            return ThreadsReport.Lock(
              kind: StallReport.WaitLink.Kind(.held(lock.kind)),
              address: lock.address,
              owner: StallReport.Thread(owner ?? ObservedThread(id: lock.holderID, name: "")),
              hasOwnerEnded: lock.isOrphaned
            )
          },
          target: group.descriptor.flatMap(DescriptorText.of),
          functions: group.frames.map(function),
          noStack: group.frames.isEmpty ? StallReport.Reason(group.outcome) : nil,
          missingCallers: group.frames.isEmpty ? nil : StallReport.Reason(group.end)
        )
      },
      omittedCount: all.leftOut,
      isComplete: all.isComplete
    )
  }
}

extension StallReport.Origin {
  /// The data from which a report was made.
  package struct Made: Sendable {
    /// The recording.
    package var recording: Recording
    /// The stall.
    package var stall: Stall
    /// The analysis of the stall.
    package var blame: Blame
  }
}

extension StallReport {
  /// The data from which the report was made, for exports of raw samples. Must not be used for a decoded report, which
  /// has none.
  package var raw: Origin.Made {
    guard let made = origin.made else { preconditionFailure("a report that was decoded has no recording") }
    return made
  }
}
