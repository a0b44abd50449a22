import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// An activity that has not ended after its expiration, or was released before it had ended.
  public struct LeakedActivity: Sendable, CustomStringConvertible {
    /// Why an activity counts as leaked.
    public struct Reason: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Its threshold was passed, its expiration handler has returned, and it has not ended.
      public static let expired = Reason(rawValue: "expired")
      /// Its last reference was released, and it has not ended.
      public static let dropped = Reason(rawValue: "dropped")
    }

    /// The activity's name.
    public let name: String
    /// Why it counts as leaked.
    public let reason: Reason
    /// The age of the activity.
    public let age: Duration
    /// Names the functions that it began in, innermost first, without the watchdog's own.
    let beginning: @Sendable () -> [String]

    /// The functions that it began in, innermost first, without the watchdog's own. Looks them up on the calling
    /// thread, in the time that reading symbols takes: for handlers. Never uses the network.
    ///
    /// - Returns: The names of the functions.
    public func stack() -> [String] { beginning() }

    /// The activity and where it began. Takes as long as ``stack()`` does.
    public var description: String {
      let what = reason == .expired ? "its time ran out" : "nobody refers to it any more"
      return "activity \"\(printable(name))\", for \(readable(age)): \(what) and it has not ended. It began in:\n"
        + stack().map { "  \(printable($0))\n" }.joined()
    }
  }
}
