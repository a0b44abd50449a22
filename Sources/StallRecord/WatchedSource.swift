package enum SourceKind: Hashable, Sendable {
  /// The turns of an event loop.
  case loop
  case runLoop
  /// A critical section with a threshold.
  case section
  case queue
  /// The threads of Swift concurrency, watched by probes that wait for a thread.
  case pool
  case executor
  case probedLoop
  case phase
  case job
  /// A newer version's kind, with its number in the file.
  case unknown(UInt8)

  package var name: String {
    switch self {
    case .loop: "loop"
    case .runLoop: "runLoop"
    case .section: "section"
    case .queue: "queue"
    case .pool: "pool"
    case .executor: "executor"
    case .probedLoop: "probedLoop"
    case .phase: "phase"
    case .job: "job"
    case .unknown(let number): "kind\(number)"
    }
  }

  package var description: String {
    switch self {
    case .loop: "event loop"
    case .runLoop: "run loop"
    case .section: "section"
    case .queue: "dispatch queue"
    case .pool: "thread pool"
    case .executor: "executor"
    case .probedLoop: "event loop"
    case .phase: "phase"
    case .job: "job"
    case .unknown(let number): "source of unknown kind \(number)"
    }
  }
}

/// A watched source.
package struct WatchedSource: Hashable, Sendable {
  package var kind: SourceKind
  package var name: String

  package init(kind: SourceKind, name: String) {
    self.kind = kind
    self.name = name
  }
}

extension SourceKind {
  /// The kind's number in files.
  package var code: UInt8 {
    switch self {
    case .loop: 1
    case .runLoop: 2
    case .section: 3
    case .queue: 4
    case .pool: 5
    case .executor: 6
    case .probedLoop: 7
    case .phase: 8
    case .job: 9
    case .unknown(let code): code
    }
  }

  package init(code: UInt8) {
    switch code {
    case 1: self = .loop
    case 2: self = .runLoop
    case 3: self = .section
    case 4: self = .queue
    case 5: self = .pool
    case 6: self = .executor
    case 7: self = .probedLoop
    case 8: self = .phase
    case 9: self = .job
    default: self = .unknown(code)
    }
  }
}
