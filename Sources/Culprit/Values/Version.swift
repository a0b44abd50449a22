extension Watchdog {
  /// The version of Culprit.
  public static let version = "0.1.0"
}
