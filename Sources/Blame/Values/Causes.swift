extension StallReport {
  /// A reason why work did not continue for a part of the stall.
  public struct Cause: Hashable, Sendable, Codable {
    /// The kind of the cause.
    public var kind: Kind
    /// The share of the stall, from 0 to 1. The shares of all causes add up to the stall.
    public var share: Double
    package var seconds: Seconds
    /// The number of samples that support the cause, at least in part.
    public var sampleCount: Int
    /// Whether the evidence is weak.
    public var isLikely: Bool
    /// The subjects of the cause, heaviest first, limited in number. Empty if unknown.
    public var subjects: [Subject]

    /// The time of the cause.
    public var time: Duration { seconds.duration }

    /// A subject of a cause.
    public struct Subject: Hashable, Sendable, Codable {
      /// A code for programs: a kind of work (`json`), the kind of an awaited object (`mutex`), or one of `descriptor`,
      /// `systemCall`, `package`, `library`. If the subject is unknown, the reason: `unobserved`, `noStack`, `noState`.
      public var code: String
      /// The description: "JSON", "a mutex", "/srv/journal.db".
      public var text: String
      /// The share of the stall, from 0 to 1.
      public var share: Double
      package var seconds: Seconds

      /// The time of the subject.
      public var time: Duration { seconds.duration }
    }

    /// Kinds of causes.
    public struct Kind: ReportCode {
      /// The string in JSON.
      public var rawValue: String
      /// Creates a value, known or unknown.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Threads wait for each other and cannot continue.
      public static let deadlock = Kind(rawValue: "deadlock")
      /// Another thread held a lock.
      public static let lock = Kind(rawValue: "lock")
      /// Another thread ran a one-time initialization.
      public static let initialization = Kind(rawValue: "initialization")
      /// Another thread held a lock of the dynamic loader.
      public static let loader = Kind(rawValue: "loader")
      /// The work waited for a thread to end.
      public static let threadEnd = Kind(rawValue: "threadEnd")
      /// The work waited for a signal from an object without an owner: a semaphore, a condition, a group.
      public static let signal = Kind(rawValue: "signal")
      /// An awaited operation had not finished.
      public static let awaiting = Kind(rawValue: "awaiting")
      /// A child process had not ended.
      public static let childProcess = Kind(rawValue: "childProcess")
      /// Another process, or the other end of a pipe, had not read or written.
      public static let interProcess = Kind(rawValue: "interProcess")
      /// A peer had not answered.
      public static let network = Kind(rawValue: "network")
      /// Files were read, written or looked up.
      public static let file = Kind(rawValue: "file")
      /// Memory was reclaimed or read in.
      public static let memory = Kind(rawValue: "memory")
      /// More work was waiting than the threads could do.
      public static let congestion = Kind(rawValue: "congestion")
      /// The thread was ready to run without a CPU.
      public static let noCPU = Kind(rawValue: "noCPU")
      /// The thread deallocated objects.
      public static let deallocation = Kind(rawValue: "deallocation")
      /// The thread computed.
      public static let computing = Kind(rawValue: "computing")
      /// The thread slept on purpose.
      public static let sleep = Kind(rawValue: "sleep")
      /// The cause is unknown.
      public static let unknown = Kind(rawValue: "unknown")
      /// All known kinds. Causes with equal shares are sorted in this order: fixable ones first.
      package static let all: [Kind] = [
        .deadlock, .lock, .initialization, .loader, .threadEnd, .signal, .awaiting, .childProcess, .interProcess,
        .network,
        .file, .memory, .congestion, .noCPU, .deallocation, .computing, .sleep, .unknown,
      ]
    }
  }

  /// The kernel's counts during the stall.
  public struct Counts: Hashable, Sendable, Codable {
    /// How often the thread was scheduled; `nil` if unknown.
    public var timeslices: UInt64?
    /// How often the thread gave up the CPU to wait. `nil` if unknown, like all counts of the thread.
    public var voluntarySwitches: UInt64?
    /// How often the thread was preempted.
    public var involuntarySwitches: UInt64?
    /// Page faults without reads from disk.
    public var minorFaults: UInt64?
    /// Page faults with reads from disk.
    public var majorFaults: UInt64?
    package var userSeconds: Seconds?
    package var systemSeconds: Seconds?
    /// Bytes that the thread read by system calls.
    public var readBytes: UInt64?
    /// Bytes that the thread wrote by system calls.
    public var writtenBytes: UInt64?
    /// Bytes that were read from disk.
    public var diskReadBytes: UInt64?
    /// Bytes to be written to disk.
    public var diskWrittenBytes: UInt64?
    package var throttledSeconds: Seconds?
    package var memoryStalledSeconds: Seconds?
    package var diskStalledSeconds: Seconds?
    package var refaultedBytes: UInt64?
    package var memoryLimitHits: UInt64?
    /// The maximum number of runnable threads of the machine; `nil` if unknown.
    public var runnableThreads: UInt32?
    /// The number of CPUs; `nil` if unknown.
    public var cpuCount: UInt32?
    /// The kernel functions in which the thread was found asleep most, limited in number.
    public var kernelFunctions: [String]

    /// The thread's CPU time in user mode; `nil` if unknown.
    public var userTime: Duration? { userSeconds?.duration }
    /// The thread's CPU time in the kernel; `nil` if unknown.
    public var systemTime: Duration? { systemSeconds?.duration }
    /// The time for which the control group was throttled by its quota; `nil` if unknown.
    public var throttled: Duration? { throttledSeconds?.duration }
    /// The time for which any thread of the control group, or of the machine, waited for memory (PSI); `nil` if
    /// unknown.
    public var memoryStalled: Duration? { memoryStalledSeconds?.duration }
    /// The time for which any thread of the control group, or of the machine, waited for a disk (PSI); `nil` if
    /// unknown.
    public var diskStalled: Duration? { diskStalledSeconds?.duration }
  }
}
