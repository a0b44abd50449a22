import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// An earlier run of the service with the same directory.
  public struct PreviousRun: Sendable, CustomStringConvertible {
    /// The way the run ended.
    public let ending: Ending
    /// The way the run ended, in words.
    public let endingText: String
    /// The process id of the run.
    public let processID: Int32
    /// The path of the executable.
    public let executable: String
    /// The time at which the watchdog was started.
    public let since: StallReport.Timestamp
    /// The signal that ended the run, if it was recorded: a fatal signal, or SIGTERM without a handler of the service.
    /// `nil` if there was none, or one that cannot be recorded, such as SIGKILL.
    public let signal: Int32?
    /// The work that was stuck when the run ended.
    public let hangs: [FatalHang]
    /// The paths of the stall files of the run, including those of stalls that ended.
    public let files: [String]
    /// One sentence for each file that cannot be read, or can be read only in part because its stall has no end.
    public let problems: [String]
    let texts: [String]

    /// Work that was stuck when its process ended.
    public struct FatalHang: Hashable, Sendable {
      /// The report. Its duration is accurate to one tick (250 ms).
      public let report: StallReport
      /// The last stacks, at most ten, in chronological order.
      public let lastStacks: [StallReport.TimedStack]
    }

    /// The way a run ended. Newer versions might add values.
    public struct Ending: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// An orderly end: the watchdog was stopped, the process returned from `main` or called exit(3), or it replaced
      /// its program by execve(2) while no work was stuck. No hang was under way.
      public static let cleanExit = Ending(rawValue: "cleanExit")
      /// SIGTERM, for which the service had no handler, while no work was stuck.
      public static let terminated = Ending(rawValue: "terminated")
      /// An end during a stall: the process was killed, ended by a signal from outside, or replaced its program, while
      /// work was stuck, or its watchdog was stopped during a hang.
      public static let fatalHang = Ending(rawValue: "fatalHang")
      /// A signal that leaves no trace (usually SIGKILL) or _exit(2), while no work was stuck.
      public static let killed = Ending(rawValue: "killed")
      /// The signal ``PreviousRun/signal``, raised by a fault of the process or by the process itself (abort(3)).
      public static let crash = Ending(rawValue: "crash")
      /// The kernel killed the process because memory was exhausted.
      public static let outOfMemory = Ending(rawValue: "outOfMemory")
      /// A signal that leaves no trace, or _exit(2), while no work was stuck. During that time, the kernel killed a
      /// process outside the run's control group because memory was exhausted; the victim might be another process.
      public static let possiblyOutOfMemory = Ending(rawValue: "possiblyOutOfMemory")
      /// The machine went down or was restarted before the run had ended.
      public static let machineGone = Ending(rawValue: "machineGone")
    }

    /// The run in one line, one line for each unreadable file, and for each hang its report, its last stacks and the
    /// stacks of the other threads.
    public var description: String {
      let name = executable.split(separator: "/").last.map(String.init) ?? executable
      let head = "\(name) (process \(processID)), watched since \(since): \(endingText)"
      return ([printable(head) + "\n" + problems.map { $0 + "\n" }.joined()] + texts).joined(separator: "\n")
    }
  }
}
