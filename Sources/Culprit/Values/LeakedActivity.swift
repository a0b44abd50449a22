import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// An activity that has not ended after its expiration, or was released before it had ended.
  public struct LeakedActivity: Sendable, CustomStringConvertible {
    /// The reason why an activity counts as leaked.
    public struct Reason: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// The activity exceeded its threshold, and has not ended although its expiration handler has returned.
      public static let expired = Reason(rawValue: "expired")
      /// The last reference was released before the activity ended.
      public static let dropped = Reason(rawValue: "dropped")
    }

    /// The activity's name.
    public let name: String
    /// The reason why the activity counts as leaked.
    public let reason: Reason
    /// The age of the activity.
    public let age: Duration
    /// The number of unreported leaks since the last report with the same place and reason. `reporting.perCulprit` and
    /// `reporting.perMinute` limit the reports in a minute.
    public let repeats: Int
    /// The state of the task that began the activity, in a few words; `nil` without a task, or if its state is unknown.
    public let taskState: String?
    /// Returns the names of the functions in which the activity began, innermost first, without the watchdog's own.
    let beginning: @Sendable () -> [String]
    /// Returns the names of the functions in which the task waits.
    let waiting: @Sendable () -> [String]

    /// Returns the functions in which the activity began, innermost first, without the watchdog's own. Symbolizes on
    /// the calling thread, which takes the time of reading symbols. Call it in handlers. Never uses the network.
    ///
    /// - Returns: The names of the functions.
    public func stack() -> [String] { beginning() }

    /// Returns the functions in which the activity's task waits, innermost first; empty if the task is running or has
    /// ended. Symbolizes on the calling thread like ``stack()``.
    ///
    /// - Returns: The names of the functions.
    public func taskStack() -> [String] { waiting() }

    /// The activity, its beginning and the state of its task. Takes as long as ``stack()`` and ``taskStack()``.
    public var description: String {
      let what = reason == .expired ? "its time ran out" : "its last reference was released"
      func lines(_ names: [String]) -> String { names.map { "  \(printable($0))\n" }.joined() }
      let text =
        "activity \"\(printable(name))\", for \(readable(age)): \(what) and it has not ended. "
        + (repeats == 0 ? "" : "\(repeats) more of this place were not reported. ")
        + "It began in:\n" + lines(stack())
      guard let taskState else { return text }
      let names = taskStack()
      let task = taskState.prefix(1).uppercased() + taskState.dropFirst()
      return text + (names.isEmpty ? "\(task).\n" : "\(task), in:\n" + lines(names))
    }
  }
}
