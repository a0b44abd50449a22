import CulpritReports

extension Watchdog {
  /// The state of a watchdog.
  public struct Status: Sendable {
    /// Whether the watchdog watches.
    public var mode: Mode
    /// The number of ticks of the monitor.
    public var wakeups: UInt64
    /// The work items that were in progress and past their hang threshold at the monitor's last tick.
    public var hanging: [Hang]
    /// The number of stacks copied by the signal handler in this process, including checks of the set-up.
    public var captures: UInt64
    /// The number of threads that answered after their request had been abandoned.
    public var lateAnswers: UInt64
    /// The number of due samples skipped because Culprit's threads had used up their CPU budget
    /// (``Configuration/Sampling/cpuBudget``).
    public var samplesSkipped: UInt64
    /// The number of handler calls dropped because symbolizing or the handlers could not keep up.
    public var reportsDropped: UInt64
    /// The messages sent to systemd; `nil` if Culprit does not notify systemd.
    public var systemd: SystemdState?
    /// The problems, as sentences: failures to save files (the first sixteen), invalid values in the environment and
    /// the configuration file, and settings in which a second watchdog differs from the first.
    public var problems: [String]
    /// The things that cannot be observed in this process; empty if there are none.
    public var limitations: [Limitation]

    /// The status of a watchdog without a running engine.
    init(_ mode: Mode, problems: [String]) {
      (self.mode, wakeups, hanging, captures, lateAnswers, reportsDropped) = (mode, 0, [], 0, 0, 0)
      samplesSkipped = 0
      (systemd, self.problems, limitations) = (nil, problems, [])
    }
  }

  /// The messages sent to systemd.
  public struct SystemdState: Sendable, Hashable {
    /// The number of pings (WATCHDOG=1) sent.
    public var pings: UInt64
    /// The number of times the pings were stopped, because a source hung or the monitor did not tick.
    public var hangs: UInt64
    /// The reason why the last message could not be sent; `nil` if it was sent.
    public var problem: String?
  }

  /// A source whose work item hangs.
  public struct Hang: Hashable, Sendable {
    /// The source.
    public var source: StallReport.Source
    /// The age of the work item.
    public var age: Duration
    /// The thread that runs the work item; 0 if unknown.
    public var threadID: Int32
  }

  /// Whether a watchdog watches. Newer versions might add values.
  public struct Mode: ReportCode {
    /// The value as a string, as in JSON.
    public var rawValue: String
    /// The value with this string, known or not.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The watchdog is watching.
    public static let watching = Mode(rawValue: "watching")
    /// The watchdog is switched off, and can be switched on.
    public static let switchedOff = Mode(rawValue: "switchedOff")
    /// The watchdog has been stopped. Other watchdogs of the process might be running.
    public static let stopped = Mode(rawValue: "stopped")
    /// The watchdog has no running engine: the environment disabled it at the start (`CULPRIT_ENABLED=no`), this is a
    /// child of the watched process, or Culprit does nothing on this platform (``Limitation/Code/platform``).
    public static let disabled = Mode(rawValue: "disabled")
  }

  /// A thing that cannot be observed in this process, because the process or its sandbox lacks a capability. Consists
  /// of a code for programs and a sentence for people.
  public struct Limitation: Hashable, Sendable, CustomStringConvertible {
    /// The kind of limitation. Newer versions might add values.
    public struct Code: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Stacks of blocked threads are missing, because the kernel does not report the system calls of threads.
      /// Computing threads are still captured.
      public static let blockedThreads = Code(rawValue: "blockedThreads")
      /// Timers on a thread's CPU time were refused when the watchdog started. Computing threads receive the signal
      /// immediately, so a system call that the thread enters at that moment can return early.
      public static let signalsAtOnce = Code(rawValue: "signalsAtOnce")
      /// Timers on a thread's CPU time are now refused, although they worked when the watchdog started: the limit for
      /// the user's processes has been reached (RLIMIT_SIGPENDING). Stacks of computing threads are missing until a
      /// timer is free.
      public static let computingThreads = Code(rawValue: "computingThreads")
      /// Memory is read through a pipe. Coroutine stacks and alternate signal stacks of computing threads are missing,
      /// because their bounds are unknown.
      public static let unknownStacks = Code(rawValue: "unknownStacks")
      /// The list of the process's threads cannot be read, so the record of a stall lacks the other threads.
      public static let otherThreads = Code(rawValue: "otherThreads")
      /// Another handler has been installed for SIGPROF, so computing threads cannot be captured.
      public static let handlerReplaced = Code(rawValue: "handlerReplaced")
      /// The kernel blocks samplers. While all of them are blocked, no stacks are captured. Stalls are still detected,
      /// timed and acted on.
      public static let samplersHeldUp = Code(rawValue: "samplersHeldUp")
      /// Memory is read by process_vm_readv or /proc/self/mem, which can wait for a lock in the kernel. Stacks might be
      /// missing in a stall caused by an unanswered page fault.
      public static let readingWaits = Code(rawValue: "readingWaits")
      /// The runtime does not show which threads of Swift's pool run tasks. A stall of the pool is attributed to the
      /// work of its threads at its declaration.
      public static let poolThreads = Code(rawValue: "poolThreads")
      /// Culprit cannot detect whether a computing thread of Swift's pool is still in the same job. A job that computes
      /// for too long is detected only if all threads are busy; a job that waits is always detected.
      public static let computingJobs = Code(rawValue: "computingJobs")
      /// The runtime's task structures are unknown. Stacks end where a task begins, and suspended tasks are not
      /// followed.
      public static let tasks = Code(rawValue: "tasks")
      /// Culprit does nothing on this platform.
      public static let platform = Code(rawValue: "platform")
    }

    /// The kind of limitation.
    public var code: Code
    /// The limitation and its reason: a sentence without a full stop.
    public var description: String

    init(_ code: Code, _ description: String) {
      self.code = code
      self.description = description
    }
  }
}
