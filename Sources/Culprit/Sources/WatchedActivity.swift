/// Work that has begun and is expected to end, until ``end()``.
public final class WatchedActivity: Sendable {
  /// The activity's name in reports.
  public let name: String
  private let number: UInt64
  private let activities: Activities?

  init(name: String, number: UInt64, activities: Activities?) {
    self.name = name
    self.number = number
    self.activities = activities
  }

  deinit { activities?.drop(number) }

  /// Ends the activity. The second call does nothing.
  public func end() { activities?.end(number) }

  /// The time until its threshold: `nil` without a threshold, zero when it is passed or the activity has ended.
  public var timeRemaining: Duration? { activities?.timeRemaining(number) ?? nil }
}
