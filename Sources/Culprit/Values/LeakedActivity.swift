import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// An activity that has not ended after its expiration, or was released before its end.
  public struct LeakedActivity: Sendable, CustomStringConvertible {
    /// The reason why an activity counts as leaked.
    public struct Reason: ReportCode {
      /// The string, as in JSON.
      public var rawValue: String
      /// Accepts unknown values.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// The activity has not ended although its expiration handler has returned.
      public static let expired = Reason(rawValue: "expired")
      /// The last reference was released before the activity ended.
      public static let dropped = Reason(rawValue: "dropped")
    }

    /// The activity's name.
    public let name: String
    /// The reason for the leak.
    public let reason: Reason
    /// The age of the activity.
    public let age: Duration
    /// The number of unreported leaks since the last report with the same beginning and reason.
    /// ``Watchdog/Configuration/Reporting`` limits the reports.
    public let repeats: Int
    /// The state of the task that began the activity, in a few words; `nil` if unknown, or without a task.
    public let taskState: String?
    let beginning: @Sendable () -> [String]
    let waiting: @Sendable () -> [String]

    /// Returns the functions in which the activity began, innermost first, without the watchdog's own. Symbolizes on
    /// the calling thread, which takes the time of reading symbols. Never uses the network.
    public func stack() -> [String] { beginning() }

    /// Returns the functions in which the activity's task waits; empty if it is running or has ended. Otherwise like
    /// ``stack()``.
    public func taskStack() -> [String] { waiting() }

    /// Takes as long as ``stack()`` and ``taskStack()``.
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
