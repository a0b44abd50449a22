/// Work that has begun and should end with ``end()``.
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

  /// Ends the activity. A second call has no effect.
  public func end() { activities?.end(number) }

  /// The time until the activity expires: `nil` without a threshold, zero after expiration or end.
  public var timeRemaining: Duration? { activities?.timeRemaining(number) ?? nil }
}
