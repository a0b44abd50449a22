import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

extension Watchdog {
  /// Begins an activity: work that is expected to end, such as an upload, a migration, a request to another service.
  ///
  /// Every stall's report lists the activities that are going on. When the threshold is passed, `onExpiration` is
  /// called on a thread of the watchdog's own, to make the work end. An activity that has not ended after that, or that
  /// is released before it has ended, is leaked: handlers of ``onLeakedActivity(_:)`` get it.
  ///
  /// Costs a walk of the caller's stack, some microseconds.
  ///
  /// - Parameters:
  ///   - name: The activity's name in reports.
  ///   - threshold: How long it may take; default (`nil`): for ever.
  ///   - onExpiration: Called when it has taken longer.
  /// - Returns: The activity. Hold a strong reference, and end it.
  /// - Throws: ``WatchdogError/Code/tooManyActivities``, ``WatchdogError/Code/stopped``,
  ///   ``WatchdogError/Code/notInThisProcess``, ``WatchdogError/Code/invalidConfiguration`` for a threshold that is not
  ///   positive.
  public func beginActivity(
    _ name: String,
    threshold: Duration? = nil,
    onExpiration: (@Sendable () -> Void)? = nil
  ) throws(WatchdogError) -> WatchedActivity {
    if !isDisabled { _ = try running() }
    try Configuration.check(threshold, ofActivity: name)
    guard let activities = core?.activities else { return WatchedActivity(name: name, number: 0, activities: nil) }
    return try activities.begin(name, threshold: threshold, onExpiration)
  }

  /// Runs `body` as an activity that ends with it.
  ///
  /// - Parameters: As for ``beginActivity(_:threshold:onExpiration:)``.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws. When no activity can begin, `body` runs without one.
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

  /// Runs `body`, which may suspend, as an activity that ends with it.
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

  /// Calls `handler` with every leaked activity, on a thread of the watchdog's own. Without a handler, leaked
  /// activities are printed to standard error, by a thread of the watchdog's own as well: releasing an activity waits
  /// for nothing.
  ///
  /// - Parameter handler: Called with the activity.
  /// - Returns: The registration, whose ``Registration/remove()`` removes the handler.
  @discardableResult
  public func onLeakedActivity(_ handler: @escaping @Sendable (LeakedActivity) -> Void) -> Registration {
    register(core?.activities.leaked, handler)
  }
}
