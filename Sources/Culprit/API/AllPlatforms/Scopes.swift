extension Watchdog {
  /// Starts a watchdog with the default configuration, except for the given values. Errors as for ``init(_:)``.
  public convenience init(threshold: Duration = .seconds(4), directory: String? = nil) throws(WatchdogError) {
    try self.init(Configuration(threshold: threshold, directory: directory))
  }

  /// Runs `body` as an activity that ends when `body` returns or throws. If no activity can begin, `body` runs without
  /// one. See ``beginActivity(_:threshold:onExpiration:)``.
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
  /// Runs `body` as one turn, with `label` (``label(_:)``) if there is one.
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
