import CulpritReports

extension Watchdog {
  /// The state of a watchdog.
  public struct Status: Sendable {
    /// Whether the watchdog watches.
    public var mode: Mode
    /// The number of times that the monitor thread has checked the work items.
    public var wakeups: UInt64
    /// The work items past their hang threshold at the last check. Checks are at most 250 ms apart.
    public var hanging: [Hang]
    /// The number of stacks copied by the signal handler, including tests at the start.
    public var captures: UInt64
    /// The number of stacks that were copied too late, when Culprit had stopped waiting for them.
    public var lateAnswers: UInt64
    /// The number of due samples skipped because of ``Configuration/Sampling/cpuBudget``.
    public var samplesSkipped: UInt64
    /// The number of handler calls dropped because symbolizing or the handlers could not keep up.
    public var reportsDropped: UInt64
    /// The messages sent to systemd; `nil` if Culprit does not notify systemd.
    public var systemd: SystemdState?
    /// Sentences: failures to save files (the first sixteen), invalid values in the environment and the configuration
    /// file, and settings in which a second watchdog differs from the first.
    public var problems: [String]
    /// The things that cannot be observed in this process.
    public var limitations: [Limitation]

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
    /// The number of times the pings were stopped, because a source hung or the monitor thread did not run.
    public var hangs: UInt64
    /// The reason for the failure of the last message; `nil` if it was sent.
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
    /// The string, as in JSON.
    public var rawValue: String
    /// Accepts unknown values.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The watchdog is watching.
    public static let watching = Mode(rawValue: "watching")
    /// The watchdog is switched off, and can be switched on.
    public static let switchedOff = Mode(rawValue: "switchedOff")
    /// The watchdog has been stopped. Other watchdogs of the process might be running.
    public static let stopped = Mode(rawValue: "stopped")
    /// Nothing runs: the environment disabled the watchdog (`CULPRIT_ENABLED=no`), this is a child of the watched
    /// process, or Culprit does nothing on this platform (``Limitation/Code/platform``).
    public static let disabled = Mode(rawValue: "disabled")
  }

  /// A thing that cannot be observed, because the process or its sandbox lacks a capability.
  public struct Limitation: Hashable, Sendable, CustomStringConvertible {
    /// The kind of limitation. Newer versions might add values.
    public struct Code: ReportCode {
      /// The string, as in JSON.
      public var rawValue: String
      /// Accepts unknown values.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Stacks of blocked threads are missing, because the kernel does not report the system calls of threads.
      public static let blockedThreads = Code(rawValue: "blockedThreads")
      /// Timers on a thread's CPU time are refused. Computing threads receive the signal immediately, so a system call
      /// that the thread enters at that moment can return early.
      public static let signalsAtOnce = Code(rawValue: "signalsAtOnce")
      /// Timers on a thread's CPU time, which worked at the start, are refused: RLIMIT_SIGPENDING has been reached.
      /// Stacks of computing threads are missing until a timer is free.
      public static let computingThreads = Code(rawValue: "computingThreads")
      /// Memory is read through a pipe. Coroutine stacks and alternate signal stacks of computing threads are missing,
      /// because their bounds are unknown.
      public static let unknownStacks = Code(rawValue: "unknownStacks")
      /// The list of the process's threads cannot be read, so reports lack the other threads.
      public static let otherThreads = Code(rawValue: "otherThreads")
      /// Another handler has been installed for SIGPROF, so computing threads cannot be captured.
      public static let handlerReplaced = Code(rawValue: "handlerReplaced")
      /// The kernel blocks samplers. While all are blocked, no stacks are captured, but stalls are detected and acted
      /// on.
      public static let samplersHeldUp = Code(rawValue: "samplersHeldUp")
      /// Memory is read by process_vm_readv or /proc/self/mem, which can wait for a lock in the kernel. Stalls caused
      /// by an unanswered page fault might have no stacks.
      public static let readingWaits = Code(rawValue: "readingWaits")
      /// Culprit cannot detect which threads of Swift concurrency run tasks. If tasks wait because all threads are busy,
      /// the stall is attributed to the work of the threads at its declaration.
      public static let poolThreads = Code(rawValue: "poolThreads")
      /// Culprit cannot detect whether a computing thread of Swift concurrency is still in the same job. A job that
      /// computes for too long is detected only if all threads are busy.
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
