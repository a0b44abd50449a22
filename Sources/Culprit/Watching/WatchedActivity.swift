import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

extension Watchdog {
  /// Tells of work that has begun and is expected to end: an upload, a migration, a request to another service.
  ///
  /// Every stall's report lists the activities that are going on. When the time runs out, `onExpiration` is called, on a
  /// thread of the watchdog's own; it is to make the work end. An activity that has not ended after that, or whose last
  /// reference is gone before it has, is told to the handlers of ``onLeakedActivity(_:)``.
  ///
  /// Costs a walk of the caller's stack, some microseconds.
  ///
  /// - Parameters:
  ///   - name: What reports call it.
  ///   - threshold: How long it may take; for ever when `nil`.
  ///   - onExpiration: Called when it has taken longer.
  /// - Returns: The activity, which must be kept and ended.
  /// - Throws: ``WatchdogError/Code/tooManyActivities``, ``WatchdogError/Code/stopped``,
  ///   ``WatchdogError/Code/notInThisProcess``, ``WatchdogError/Code/invalidConfiguration`` for a threshold that is not positive.
  public func beginActivity(
    _ name: String,
    threshold: Duration? = nil,
    onExpiration: (@Sendable () -> Void)? = nil
  ) throws(WatchdogError) -> WatchedActivity {
    if !isDisabled {
      _ = try running()
      guard !isStopped else { throw .stopped }
    }
    if let threshold, threshold <= .zero {
      let limit = "may take \(threshold); it must be longer than no time at all"
      throw .invalidConfiguration("the activity \(quoted(name)) \(limit)", setting: name)
    }
    guard let activities = core?.activities else { return WatchedActivity(name: name, number: 0, activities: nil) }
    return try activities.begin(name, threshold: threshold, onExpiration)
  }

  /// Runs `body` as an activity, which ends with it.
  ///
  /// - Parameters: As for ``beginActivity(_:threshold:onExpiration:)``.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws. When no activity can begin, `body` runs all the same.
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

  /// The same for work that waits without a thread.
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

  /// Calls `handler` with every activity that has not ended as it should, on a thread of the watchdog's own. While there is
  /// no handler, they are told on standard error, by a thread of the watchdog's own as well: letting go of an activity
  /// waits for nothing.
  @discardableResult
  public func onLeakedActivity(_ handler: @escaping @Sendable (LeakedActivity) -> Void) -> Registration {
    register(core?.activities.leaked, handler)
  }
}

/// Work that was said to have begun, until ``end()``.
public final class WatchedActivity: Sendable {
  /// What reports call it.
  public let name: String
  private let number: UInt64
  private let activities: Activities?

  init(name: String, number: UInt64, activities: Activities?) {
    self.name = name
    self.number = number
    self.activities = activities
  }

  deinit { activities?.drop(number) }

  /// Says that the work has ended. Does nothing the second time.
  public func end() { activities?.end(number) }

  /// How long it may still take: `nil` when for ever, zero when its time has run out or it has ended.
  public var timeRemaining: Duration? { activities?.timeRemaining(number) ?? nil }
}
