/// A pool of one connection.
public protocol ConnectionPool: Sendable {
  /// Whether the connection is in use.
  var isTaken: Bool { get async }

  /// Holds the connection for two seconds.
  func runTheQuery() async throws

  /// Waits for the connection, and returns it to the pool at once.
  func waitForTheConnection() async throws
}

/// A pool without a database: callers take turns.
public actor ActorPool: ConnectionPool {
  /// The pool of the process.
  public static let shared = ActorPool()

  /// Whether the connection is in use.
  public private(set) var isTaken = false
  private var waiting: [CheckedContinuation<Void, Never>] = []

  /// Holds the connection for two seconds.
  public func runTheQuery() async throws {
    await lease()
    defer { release() }
    try await Task.sleep(for: .seconds(2))
  }

  /// Waits for the connection, and returns it to the pool at once.
  public func waitForTheConnection() async {
    await lease()
    release()
  }

  private func lease() async {
    if isTaken { await withCheckedContinuation { waiting.append($0) } }
    isTaken = true
  }

  private func release() {
    isTaken = false
    if !waiting.isEmpty { waiting.removeFirst().resume() }
  }
}
