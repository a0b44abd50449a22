/// What kind of work was watched.
package enum SourceKind: Hashable, Sendable {
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
  /// The jobs of one of Swift concurrency's threads.
  case job
  /// A kind that a newer version wrote, by its number in the file.
  case unknown(UInt8)

  /// The kind as reports and exports have it for programs.
  package var name: String {
    switch self {
    case .loop: "loop"
    case .runLoop: "runLoop"
    case .section: "section"
    case .queue: "queue"
    case .pool: "pool"
    case .executor: "executor"
    case .pinged: "probedLoop"
    case .phase: "phase"
    case .job: "job"
    case .unknown(let number): "kind\(number)"
    }
  }

  /// The kind in words.
  package var description: String {
    switch self {
    case .loop: "event loop"
    case .runLoop: "run loop"
    case .section: "section"
    case .queue: "dispatch queue"
    case .pool: "thread pool"
    case .executor: "executor"
    case .pinged: "event loop"
    case .phase: "phase"
    case .job: "job"
    case .unknown(let number): "source of unknown kind \(number)"
    }
  }
}

/// What was watched.
package struct WatchedSource: Hashable, Sendable {
  /// What kind of work it is.
  package var kind: SourceKind
  /// The name that the application gave it.
  package var name: String

  /// A source of `kind` called `name`.
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
    case .pinged: 7
    case .phase: 8
    case .job: 9
    case .unknown(let code): code
    }
  }

  /// The kind with the number `code` in files.
  package init(code: UInt8) {
    switch code {
    case 1: self = .loop
    case 2: self = .runLoop
    case 3: self = .section
    case 4: self = .queue
    case 5: self = .pool
    case 6: self = .executor
    case 7: self = .pinged
    case 8: self = .phase
    case 9: self = .job
    default: self = .unknown(code)
    }
  }
}
