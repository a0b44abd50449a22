import CulpritReports

extension Watchdog {
  /// The state of a watchdog.
  public struct Status: Sendable {
    /// Whether it watches.
    public var mode: Mode
    /// How many ticks the monitor has had.
    public var wakeups: UInt64
    /// What hangs now: work items that are past their hang threshold and had not ended at the monitor's last tick.
    public var hanging: [Hang]
    /// How many stacks the signal handler has copied in this process, those that check the set-up included.
    public var captures: UInt64
    /// How many threads answered after their request had been given up.
    public var lateAnswers: UInt64
    /// How many samples were due and not taken, because Culprit's threads had used their processor time
    /// (``Configuration/Sampling/cpuBudget``).
    public var samplesSpared: UInt64
    /// How many calls of handlers were dropped, because naming or handlers could not keep up.
    public var reportsDropped: UInt64
    /// What was sent to systemd; `nil` when nothing is.
    public var systemd: SystemdState?
    /// Sentences about what is wrong: what could not be saved and why (the first sixteen), values in the environment
    /// and the configuration file that are invalid, settings in which a second watchdog differs from the first.
    public var problems: [String]
    /// What cannot be observed in this process; empty where everything can.
    public var limitations: [Limitation]

    /// That of a watchdog of which nothing runs.
    init(_ mode: Mode, problems: [String]) {
      (self.mode, wakeups, hanging, captures, lateAnswers, reportsDropped) = (mode, 0, [], 0, 0, 0)
      samplesSpared = 0
      (systemd, self.problems, limitations) = (nil, problems, [])
    }
  }

  /// What was sent to systemd.
  public struct SystemdState: Sendable, Hashable {
    /// How many pings (WATCHDOG=1) were sent.
    public var pings: UInt64
    /// How often the pings were stopped, because a source hung or the monitor did not tick.
    public var hangs: UInt64
    /// Why the last message could not be sent; `nil` when it could.
    public var problem: String?
  }

  /// A source whose work item hangs.
  public struct Hang: Hashable, Sendable {
    /// The source.
    public var source: StallReport.Source
    /// The age of its work item.
    public var age: Duration
    /// The thread that works on it; 0 if it is not known.
    public var threadID: Int32
  }

  /// Whether a watchdog watches. A newer version may have more.
  public struct Mode: ReportCode {
    /// The value as a string, as in JSON.
    public var rawValue: String
    /// The value with this string, known or not.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// It watches.
    public static let watching = Mode(rawValue: "watching")
    /// It is switched off, and can be switched on.
    public static let switchedOff = Mode(rawValue: "switchedOff")
    /// It has been stopped. Other watchdogs of the process may go on.
    public static let stopped = Mode(rawValue: "stopped")
    /// Nothing runs and nothing is watched: the environment switched it off at the start (`CULPRIT_ENABLED=no`), this
    /// is a child of the watched process, or Culprit does nothing on this platform (``Limitation/Code/platform``).
    public static let disabled = Mode(rawValue: "disabled")
  }

  /// Something that cannot be observed in this process, because it or its sandbox lacks something: a code for programs
  /// and a sentence for people.
  public struct Limitation: Hashable, Sendable, CustomStringConvertible {
    /// What is lost. A newer version may have more.
    public struct Code: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Stacks of blocked threads are missing: the kernel does not tell what threads do. Computing threads are
      /// captured all the same.
      public static let blockedThreads = Code(rawValue: "blockedThreads")
      /// Timers on a thread's processor time were refused when the watchdog started. Computing threads are sent the
      /// signal at once: a system call that the thread enters in just that moment can return early.
      public static let signalsAtOnce = Code(rawValue: "signalsAtOnce")
      /// Timers on a thread's processor time are refused by now, and were not when the watchdog started: all that the user's processes
      /// may have are in use (RLIMIT_SIGPENDING). Stacks of computing threads are missing until one is free.
      public static let computingThreads = Code(rawValue: "computingThreads")
      /// Memory is read through a pipe. For computing threads, stacks of coroutines and of handlers on alternate stacks
      /// are missing: their extent is not known.
      public static let unknownStacks = Code(rawValue: "unknownStacks")
      /// The list of the process's threads cannot be read: a stall's record has no other threads.
      public static let otherThreads = Code(rawValue: "otherThreads")
      /// libunwind could not be copied and is shared with the service: a thread of the service that is held up in it
      /// can hold up the sampler.
      public static let sharedUnwinder = Code(rawValue: "sharedUnwinder")
      /// libunwind is not installed: stacks are unwound by frame pointers and by what the code does, and end early in
      /// functions that have neither.
      public static let noUnwinder = Code(rawValue: "noUnwinder")
      /// Another handler has been installed for SIGPROF: computing threads cannot be captured.
      public static let handlerReplaced = Code(rawValue: "handlerReplaced")
      /// The kernel holds up samplers. While it holds up all of them, no stack is taken; stalls are noticed, timed and
      /// acted on all the same.
      public static let samplersHeldUp = Code(rawValue: "samplersHeldUp")
      /// Memory is read by process_vm_readv or /proc/self/mem, which can wait for a lock in the kernel: a stall in
      /// which a page fault is not answered may have no stacks.
      public static let readingWaits = Code(rawValue: "readingWaits")
      /// Which threads of Swift's pool run tasks is not known: a stall of the pool is blamed on what they do when it is declared.
      public static let poolThreads = Code(rawValue: "poolThreads")
      /// Whether a thread of Swift's pool that computes is still in the same job is not known: a job that computes for too long is
      /// noticed where all threads are taken, and one that waits is noticed everywhere.
      public static let computingJobs = Code(rawValue: "computingJobs")
      /// What Swift's runtime keeps of tasks is not known: stacks end where a task begins, and suspended tasks are not followed.
      public static let tasks = Code(rawValue: "tasks")
      /// Culprit does nothing on this platform.
      public static let platform = Code(rawValue: "platform")
    }

    /// What is lost.
    public var code: Code
    /// What is lost and why: a sentence without a full stop.
    public var description: String

    init(_ code: Code, _ description: String) {
      self.code = code
      self.description = description
    }
  }
}
