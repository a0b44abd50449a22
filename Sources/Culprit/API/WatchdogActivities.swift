extension Watchdog {
  /// Begins an activity: work that is expected to end, such as an upload or a migration.
  ///
  /// Stall reports list the activities in progress. When an activity exceeds its threshold, `onExpiration` is called on
  /// a thread of the watchdog to make the work end. An activity that has not ended when the handler returns, or is
  /// released before its end, is leaked (``onLeakedActivity(_:)``). The call walks the caller's stack, which takes some
  /// microseconds.
  ///
  /// - Parameters:
  ///   - name: The activity's name in reports.
  ///   - threshold: The longest time the activity can take; default: no limit.
  ///   - onExpiration: Called when the activity has exceeded its threshold.
  /// - Returns: The activity. Keep a strong reference and end the activity.
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
    guard let activities = engine?.activities else { return WatchedActivity(name: name, number: 0, activities: nil) }
    return try activities.begin(name, threshold: threshold, onExpiration)
  }

  /// Calls `handler` with every leaked activity, on a thread of the watchdog. Without a handler, leaked activities are
  /// printed to standard error. ``Registration/remove()`` of the result removes the handler.
  @discardableResult
  public func onLeakedActivity(_ handler: @escaping @Sendable (LeakedActivity) -> Void) -> Registration {
    register(engine?.activities.leaked, handler)
  }
}
