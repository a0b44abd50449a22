import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// An earlier run of the service in the same directory, and how it ended.
  public struct PreviousRun: Sendable, CustomStringConvertible {
    /// How it ended.
    public let ending: Ending
    /// How it ended, in words.
    public let endingText: String
    /// Its process id.
    public let processID: Int32
    /// The path of its executable.
    public let executable: String
    /// When its watchdog was started.
    public let since: StallReport.Timestamp
    /// The signal that ended it, as far as it is noted: a fatal signal, or SIGTERM without a handler of the service's;
    /// `nil` when there was none, or one that cannot be noted, such as SIGKILL.
    public let signal: Int32?
    /// The work that was stuck when it ended.
    public let hangs: [FatalHang]
    /// The paths of the files of its stalls, those included that ended well.
    public let files: [String]
    /// A sentence for each of these files that cannot be read, or, where its stall has no end, only in part.
    public let problems: [String]
    let texts: [String]

    /// Work that was stuck when its process ended.
    public struct FatalHang: Hashable, Sendable {
      /// The report; its duration is right to within a tick (250 ms).
      public let report: StallReport
      /// The last stacks, as many as ten, in order of time.
      public let lastStacks: [StallReport.TimedStack]
    }

    /// How a run ended. A newer version may have more.
    public struct Ending: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// In an orderly way: its watchdog was stopped, it returned from `main` or called exit(3), or its process has
      /// gone on as another program (execve(2)) while nothing was stuck.
      public static let cleanExit = Ending(rawValue: "cleanExit")
      /// By SIGTERM, for which the service had no handler, while nothing was stuck.
      public static let terminated = Ending(rawValue: "terminated")
      /// In mid-stall: it was killed, ended by a signal that was sent, or replaced by another program, while work was
      /// stuck.
      public static let fatalHang = Ending(rawValue: "fatalHang")
      /// By a signal that left no trace (SIGKILL, mostly) or by _exit(2), while nothing was stuck.
      public static let killed = Ending(rawValue: "killed")
      /// By ``PreviousRun/signal``, which came from a fault of its own or from itself (abort(3)).
      public static let crash = Ending(rawValue: "crash")
      /// The kernel killed it for want of memory.
      public static let outOfMemory = Ending(rawValue: "outOfMemory")
      /// By a signal that left no trace or by _exit(2), while nothing was stuck. The kernel killed a process outside the
      /// run's control group meanwhile because memory was exhausted; the victim might be another process.
      public static let possiblyOutOfMemory = Ending(rawValue: "possiblyOutOfMemory")
      /// The machine went down, or was started anew, before it had ended.
      public static let machineGone = Ending(rawValue: "machineGone")
    }

    /// The run in a line, a line for each file that cannot be read, and for each hang its report, its last stacks and
    /// the stacks of the other threads.
    public var description: String {
      let name = executable.split(separator: "/").last.map(String.init) ?? executable
      let head = "\(name) (process \(processID)), watched since \(since): \(endingText)"
      return ([printable(head) + "\n" + problems.map { $0 + "\n" }.joined()] + texts).joined(separator: "\n")
    }
  }
}
