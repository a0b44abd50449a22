import CulpritStallRecord

// Converts numeric codes of files and the observer to the strings of reports. The strings must not change when code is
// renamed.

extension StallReport.Source {
  package init(_ source: WatchedSource) { self.init(kind: Kind(source.kind), name: source.name) }
}

extension StallReport.Source.Kind {
  package init(_ kind: SourceKind) { self.init(rawValue: kind.name) }
}

extension WatchedSource {
  /// Whether the source is watched by probes or periodic checks.
  package var isProbed: Bool {
    switch kind {
    case .queue, .pool, .executor, .probedLoop, .job: true
    case .loop, .runLoop, .section, .phase, .unknown: false
    }
  }
}

extension StallReport.Thread {
  package init(_ thread: ObservedThread) { self.init(id: thread.id, name: thread.name) }
}

extension StallReport.Timestamp {
  package init(_ time: WallTime) { self.init(nanosecondsSince1970: time.nanosecondsSince1970) }
}

extension StallReport.Address {
  init(_ address: CodeAddress) {
    switch address {
    case .file(let address): self.init(kind: .file, value: address.value)
    case .runtime(let address): self.init(kind: .runtime, value: address.value)
    }
  }
}

extension StallReport.Cost {
  init(_ cost: ObservationCost) {
    self.init(
      stacksFromOutside: cost.fromOutside,
      stacksBySignal: cost.bySignal,
      withoutStack: cost.withoutStack,
      longestHandlerSeconds: Seconds(cost.longestHandlerTime),
      handlerSeconds: Seconds(cost.handlerTime),
      unwindSeconds: Seconds(cost.unwindTime)
    )
  }
}

extension StallReport.Note.Kind {
  init(_ kind: StallNote.Kind) {
    switch kind {
    case .context: self = .context
    case .activity: self = .activity
    case .debugger: self = .debugger
    case .hang: self = .hang
    case .cpuTime: self = .cpuTime
    case .unwatched: self = .unwatched
    case .overlap: self = .overlap
    case .fileLock: self = .fileLock
    // Shown as part of the evidence.
    case .spared: self = StallReport.Note.Kind(rawValue: "spared")
    // Shown in the report's group.
    case .count: self = StallReport.Note.Kind(rawValue: "count")
    case .sharedLabel: self = .sharedLabel
    case .likely: self = .likely
    case .meanwhile: self = .meanwhile
    case .reported: self = StallReport.Note.Kind(rawValue: "reported")
    default: self = StallReport.Note.Kind(rawValue: "kind\(kind.code)")
    }
  }
}

extension StallReport.Reason {
  init?(_ outcome: CaptureOutcome) {
    let code: String
    switch outcome {
    case .captured: return nil
    case .unitOver: code = "workEnded"
    case .threadGone: code = "threadExited"
    case .noAnswer: code = "noAnswer"
    case .notSignalled: code = "notSignalled"
    case .requestsStuck: code = "requestsStuck"
    case .noState: code = "stateUnknown"
    case .untouchable: code = "unreadable"
    case .handlerReplaced: code = "handlerReplaced"
    case .noWorker: code = "noWorker"
    case .taskGone: code = "taskEnded"
    case .sectionLeft: code = "sectionLeft"
    case .samplerStopped: code = "samplerHeldUp"
    }
    self.init(code: code, text: outcome.explanation)
  }

  init?(_ end: StackEnd) {
    let code: String
    switch end {
    case .outermost: return nil
    case .copyLimit: code = "copyLimit"
    case .frameLimit: code = "frameLimit"
    case .noUnwindInformation: code = "noUnwindInformation"
    case .noModule: code = "noModule"
    case .unreadable: code = "unreadable"
    case .noProgress: code = "noProgress"
    case .failed: code = "failed"
    case .notCaptured: code = "notCaptured"
    case .noRegister: code = "noRegister"
    case .childTask: code = "childTask"
    case .taskLost: code = "taskLost"
    }
    self.init(code: code, text: end.explanation ?? "")
  }
}

extension StallReport.Activity {
  package init(_ activity: ThreadActivity, _ architecture: String) {
    func name(_ call: Int32) -> String { SystemCallText.name(of: call, architecture: architecture) }
    switch activity {
    case .unknown: self.init(kind: .unknown)
    case .running: self.init(kind: .computing)
    case .blocked: self.init(kind: .blocked)
    case .suspended: self.init(kind: .suspended)
    case .enqueued: self.init(kind: .enqueued)
    case .inSystemCall(let call): self.init(kind: .inSystemCall, systemCall: name(call))
    case .inRestartedCall(let call): self.init(kind: .inRestartedCall, systemCall: call.map(name))
    }
  }
}

extension StallReport.Process {
  package init(_ process: ObservedProcess, _ modules: [Module]) {
    let buildID = modules.first { $0.path == process.executable }?.buildID ?? []
    self.init(
      id: process.id,
      executable: process.executable,
      architecture: process.architecture,
      observerVersion: process.observerVersion,
      watchedSince: StallReport.Timestamp(process.watchedSince),
      host: process.host.isEmpty ? nil : process.host,
      buildID: buildID.isEmpty ? nil : hexadecimal(buildID)
    )
  }
}

extension StallReport.Function {
  /// Converts a frame. ``displayName`` becomes final once all functions of the report are known.
  package init(_ content: FrameContent, _ rules: OwnershipRules) {
    let frame = content.resolved
    self.init(
      name: printable(frame.displayName),
      displayName: printable(visible(frame.displayName)),
      fullName: frame.fullName,
      symbol: frame.rawName,
      module: frame.module,
      package: CodeOwner.package(of: frame),
      location: frame.location.map { StallReport.Location(file: $0.file, line: $0.line, column: $0.column) },
      isOwn: CodeOwner.isApplication(frame, rules),
      isInlined: frame.isInlined,
      isAwaiting: frame.isAwaiting,
      address: StallReport.Address(frame.address),
      noName: frame.missing?.explanation,
      content: Aside(value: content)
    )
  }
}
