import CulpritBlame
import CulpritStallRecord

// Converts numeric codes of files and the observer to the strings of reports, which must not change when code is
// renamed.

extension StallReport.Source {
  /// Converts `source` for a report.
  package init(_ source: WatchedSource) { self.init(kind: Kind(source.kind), name: source.name) }
}

extension StallReport.Source.Kind {
  package init(_ kind: SourceKind) { self.init(rawValue: kind.name) }
}

extension WatchedSource {
  /// Whether the source is watched by probes or periodic checks. Its work might have begun before the first one.
  package var isProbed: Bool {
    switch kind {
    case .queue, .pool, .executor, .pinged, .job: true
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

extension StallReport.CPUUse {
  init(_ use: CPUUse) { self.init(share: use.share, runnableShare: use.runnableShare) }
}

extension StallReport.QueueProgress {
  init(_ progress: QueueProgress) {
    switch progress {
    case .stoodStill(let samples, let of): self.init(stoodStill: true, samples: samples, of: of)
    case .moved(let between, let of): self.init(stoodStill: false, samples: between, of: of)
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
    // Part of the evidence.
    case .spared: self = StallReport.Note.Kind(rawValue: "spared")
    // Part of the report's group.
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
  /// Creates the reason for a missing stack; `nil` if there is a stack.
  init?(_ outcome: CaptureOutcome) {
    let code: String
    switch outcome {
    case .captured: return nil
    case .unitOver: code = "workEnded"
    case .threadGone: code = "threadExited"
    case .noAnswer: code = "noAnswer"
    case .notSignalled: code = "notSignalled"
    case .requestsStuck: code = "requestsStuck"
    case .noLook: code = "stateUnknown"
    case .untouchable: code = "unreadable"
    case .handlerReplaced: code = "handlerReplaced"
    case .noWorker: code = "noWorker"
    case .taskGone: code = "taskEnded"
    case .samplerStopped: code = "samplerHeldUp"
    }
    self.init(code: code, text: outcome.explanation)
  }

  /// Creates the reason for missing callers; `nil` if none are missing.
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
