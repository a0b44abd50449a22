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
    /// How many that began in the same place, and leaked for the same reason, were counted and not told since the last one: no more
    /// are told in a minute than `reporting.perCulprit` and `reporting.perMinute`.
    public let repeats: Int
    /// What the task that began it does, in a few words; `nil` when no task did, or it is not known.
    public let taskState: String?
    /// Names the functions that it began in, innermost first, without the watchdog's own.
    let beginning: @Sendable () -> [String]
    /// Names the functions that the task waits in.
    let waiting: @Sendable () -> [String]

    /// The functions that it began in, innermost first, without the watchdog's own. Looks them up on the calling
    /// thread, in the time that reading symbols takes: for handlers. Never uses the network.
    ///
    /// - Returns: The names of the functions.
    public func stack() -> [String] { beginning() }

    /// The functions that the task waits in which began it, innermost first; none when it runs, or has ended. Looks them up as
    /// ``stack()`` does.
    ///
    /// - Returns: The names of the functions.
    public func taskStack() -> [String] { waiting() }

    /// The activity, where it began and what its task does. Takes as long as ``stack()`` and ``taskStack()`` do.
    public var description: String {
      let what = reason == .expired ? "its time ran out" : "nobody refers to it any more"
      func lines(_ names: [String]) -> String { names.map { "  \(printable($0))\n" }.joined() }
      let text =
        "activity \"\(printable(name))\", for \(readable(age)): \(what) and it has not ended. "
        + (repeats == 0 ? "" : "Of \(repeats) more from the same place nothing was said. ")
        + "It began in:\n" + lines(stack())
      guard let taskState else { return text }
      let names = taskStack()
      let task = taskState.prefix(1).uppercased() + taskState.dropFirst()
      return text + (names.isEmpty ? "\(task).\n" : "\(task), in:\n" + lines(names))
    }
  }
}
