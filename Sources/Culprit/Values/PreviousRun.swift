import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// An earlier run of the service with the same directory.
  public struct PreviousRun: Sendable, CustomStringConvertible {
    /// The way the run ended.
    public let ending: Ending
    /// The ending in words.
    public let endingText: String
    /// The process id.
    public let processID: Int32
    /// The path of the executable.
    public let executable: String
    /// The start of the watchdog.
    public let since: StallReport.Timestamp
    /// The signal that ended the run: a fatal signal, or SIGTERM without a handler of the service. `nil` without a
    /// signal, and for a signal that cannot be recorded, such as SIGKILL.
    public let signal: Int32?
    /// The work that was stuck when the run ended.
    public let hangs: [FatalHang]
    /// The paths of the run's stall files, including those of ended stalls.
    public let files: [String]
    /// One sentence for each unreadable or incomplete file.
    public let problems: [String]
    let texts: [String]

    /// Work that was stuck when its process ended.
    public struct FatalHang: Hashable, Sendable {
      let boxed: Boxed<StallReport>
      /// The report. Its duration is accurate to 250 ms.
      public var report: StallReport { boxed.value }
      /// The last stacks, at most ten, in chronological order.
      public let lastStacks: [StallReport.TimedStack]
    }

    /// The way a run ended. Newer versions might add values.
    public struct Ending: ReportCode {
      /// The name of the ending, as in JSON.
      public var rawValue: String
      /// Accepts unknown values.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// The watchdog was stopped, the process exited, or the process replaced its program by execve(2). No work was
      /// stuck.
      public static let cleanExit = Ending(rawValue: "cleanExit")
      /// SIGTERM, for which the service had no handler, while no work was stuck.
      public static let terminated = Ending(rawValue: "terminated")
      /// The process was killed, was ended by a signal from outside, or replaced its program while work was stuck.
      /// Also: the watchdog was stopped during a hang.
      public static let fatalHang = Ending(rawValue: "fatalHang")
      /// A signal that leaves no trace (usually SIGKILL) or _exit(2), while no work was stuck.
      public static let killed = Ending(rawValue: "killed")
      /// The signal ``PreviousRun/signal``, raised by a fault of the process or by the process itself (abort(3)).
      public static let crash = Ending(rawValue: "crash")
      /// The kernel killed the process because memory was exhausted.
      public static let outOfMemory = Ending(rawValue: "outOfMemory")
      /// As ``killed``, but during the run the kernel killed a process outside the run's control group because memory
      /// was exhausted. The victim might be another process.
      public static let possiblyOutOfMemory = Ending(rawValue: "possiblyOutOfMemory")
      /// The machine went down or was restarted before the end of the run.
      public static let machineGone = Ending(rawValue: "machineGone")
    }

    /// The run in one line, one line for each unreadable file, and each hang with its stacks.
    public var description: String {
      let name = executable.split(separator: "/").last.map(String.init) ?? executable
      let head = "\(name) (process \(processID)), watched since \(since): \(endingText)"
      return ([printable(head) + "\n" + problems.map { $0 + "\n" }.joined()] + texts).joined(separator: "\n")
    }
  }
}
