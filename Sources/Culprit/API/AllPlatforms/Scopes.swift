extension Watchdog {
  /// Starts a watchdog with the default configuration, except for the given values.
  ///
  /// - Parameters:
  ///   - threshold: The age at which a work item is a stall; default: 4 s.
  ///   - directory: The directory for saved stalls; default (`nil`): nothing is saved.
  /// - Throws: The errors of ``init(_:)``.
  public convenience init(threshold: Duration = .seconds(4), directory: String? = nil) throws(WatchdogError) {
    try self.init(Configuration(threshold: threshold, directory: directory))
  }

  /// Runs `body` as an activity that ends when `body` returns or throws.
  ///
  /// - Parameters: As for ``beginActivity(_:threshold:onExpiration:)``.
  /// - Returns: The result of `body`.
  /// - Throws: The error thrown by `body`. If no activity can begin, `body` runs without one.
  public func withActivity<Result, Failure: Error>(
    _ name: String,
    threshold: Duration? = nil,
    onExpiration: (@Sendable () -> Void)? = nil,
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let activity = try? beginActivity(name, threshold: threshold, onExpiration: onExpiration)
    defer { activity?.end() }
    return try body()
  }

  /// Runs `body`, which can suspend, as an activity that ends when `body` returns or throws.
  public func withActivity<Result, Failure: Error>(
    _ name: String,
    threshold: Duration? = nil,
    onExpiration: (@Sendable () -> Void)? = nil,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result {
    let activity = try? beginActivity(name, threshold: threshold, onExpiration: onExpiration)
    defer { activity?.end() }
    return try await body()
  }
}

extension WatchedLoop {
  /// Runs `body` as one turn.
  ///
  /// - Parameters:
  ///   - label: The turn's label in reports, for example a request or a job. See ``label(_:)``.
  ///   - body: The turn.
  /// - Returns: The result of `body`.
  /// - Throws: The error thrown by `body`.
  public func withTurn<Result: ~Copyable, Failure: Error>(
    label: String? = nil,
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    if let label { self.label(label) }
    begin()
    defer {
      end()
      if label != nil { self.label("") }
    }
    return try body()
  }
}
