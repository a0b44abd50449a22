#if canImport(Dispatch)
  import Dispatch

  extension Watchdog {
    /// Watches nothing.
    @discardableResult
    public func watchQueue(
      _ queue: DispatchQueue,
      named name: String? = nil,
      threshold: Duration? = nil,
      scoped: Bool = false
    ) throws(WatchdogError) -> WatchedProbe { try WatchedProbe(name ?? "queue", threshold) }
  }
#endif

extension Watchdog {
  /// Watches nothing.
  public func watchLoop(
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedLoop {
    try Configuration.check(threshold, ofSource: name)
    return WatchedLoop()
  }

  /// Watches nothing.
  @discardableResult
  public func watchLoop(
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false,
    execute: @escaping @Sendable (_ probe: @escaping @Sendable () -> Void) -> Void
  ) throws(WatchdogError) -> WatchedProbe { try WatchedProbe(name, threshold) }

  /// Watches nothing.
  @discardableResult
  public func watchLoops(
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false,
    execute: [@Sendable (@escaping @Sendable () -> Void) -> Void]
  ) throws(WatchdogError) -> WatchedProbe { try WatchedProbe(name, threshold) }

  /// Watches nothing.
  @discardableResult
  public func watchConcurrency(threshold: Duration? = nil, scoped: Bool = false) throws(WatchdogError) -> WatchedProbe {
    try WatchedProbe("Swift concurrency", threshold)
  }

  /// Watches nothing.
  @discardableResult
  public func watchMainActor(threshold: Duration? = nil, scoped: Bool = false) throws(WatchdogError) -> WatchedProbe {
    try WatchedProbe("main actor", threshold)
  }

  /// Watches nothing.
  @discardableResult
  public func watchExecutor(
    _ executor: any SerialExecutor,
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedProbe { try WatchedProbe(name, threshold) }

  /// Watches nothing.
  @discardableResult
  public func watchMainRunLoop(threshold: Duration? = nil, scoped: Bool = false) throws(WatchdogError) -> WatchedRunLoop
  { try watchCurrentRunLoop(named: "main", threshold: threshold) }

  /// Watches nothing.
  @discardableResult
  public func watchCurrentRunLoop(
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedRunLoop {
    try Configuration.check(threshold, ofSource: name)
    return WatchedRunLoop()
  }

  /// Runs `body`.
  public func withSection<Result: ~Copyable, Failure: Error>(
    _ name: String,
    threshold: Duration,
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result { try body() }

  /// Runs `body`.
  public func withSection<Result, Failure: Error>(
    _ name: String,
    threshold: Duration,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result { try await body() }

  /// Runs `body`.
  public func withRequest<Result, Failure: Error>(
    name: String = "request",
    label: String,
    threshold: Duration,
    isolation: isolated (any Actor)? = #isolation,
    onStall: (@Sendable (StallEvent) -> Void)? = nil,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result { try await body() }

  /// Watches nothing.
  public func beginSection(
    _ name: String,
    threshold: Duration,
    onStall: (@Sendable (StallEvent) -> Void)? = nil
  ) -> WatchedSection { WatchedSection() }

  /// Begins an activity that never expires.
  public func beginActivity(
    _ name: String,
    threshold: Duration? = nil,
    onExpiration: (@Sendable () -> Void)? = nil
  ) throws(WatchdogError) -> WatchedActivity {
    try Configuration.check(threshold, ofActivity: name)
    return WatchedActivity(name)
  }

  /// Runs `body`.
  public static func withLabel<Result>(
    _ text: String,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> Result
  ) async rethrows -> Result { try await body() }

  /// Runs `body`.
  public static func withLabel<Result>(_ text: String, _ body: () throws -> Result) rethrows -> Result { try body() }
}

/// An event loop that is not watched.
public final class WatchedLoop: Sendable {
  /// Does nothing.
  public func begin() {}

  /// Does nothing.
  public func end() {}

  /// Does nothing.
  public func label(_ text: String) {}

  /// Runs `body`.
  public func withExemption<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result { try body() }

  /// Does nothing.
  public func stop() {}
}

/// A source that is not probed.
public final class WatchedProbe: Sendable {
  init(_ name: String, _ threshold: Duration?) throws(WatchdogError) {
    try Watchdog.Configuration.check(threshold, ofSource: name)
  }

  /// Does nothing.
  public func stop() {}
}

/// A run loop that is not watched.
public final class WatchedRunLoop: Sendable {
  /// Does nothing.
  public func stop() {}
}

/// A critical section that is not watched.
public final class WatchedSection: Sendable {
  /// `false`: nothing is watched.
  public var isWatched: Bool { false }

  /// Returns `true`: the handler is never called.
  @discardableResult
  public func end() -> Bool { true }

  /// Does nothing.
  public func label(_ text: String) {}

  /// Runs `body`.
  public func withExemption<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result { try body() }
}

/// An activity that never expires.
public final class WatchedActivity: Sendable {
  /// The activity's name.
  public let name: String

  init(_ name: String) { self.name = name }

  /// Does nothing.
  public func end() {}

  /// `nil`: the activity never expires.
  public var timeRemaining: Duration? { nil }
}
