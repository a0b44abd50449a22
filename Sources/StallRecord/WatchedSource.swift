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
  /// The known kinds in the order of their numbers in files, which start at 1.
  private static let known: [SourceKind] = [
    .loop, .runLoop, .section, .queue, .pool, .executor, .probedLoop, .phase, .job,
  ]

  /// The kind's number in files.
  package var code: UInt8 {
    if case .unknown(let code) = self { return code }
    return Self.known.firstIndex(of: self).map { UInt8($0 + 1) } ?? 0
  }

  package init(code: UInt8) {
    self = code > 0 && code <= Self.known.count ? Self.known[Int(code) - 1] : .unknown(code)
  }
}
