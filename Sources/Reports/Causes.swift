import CulpritBlame
import CulpritStallRecord

extension StallReport {
  /// Why the work did not go on for a part of the stall.
  public struct Cause: Hashable, Sendable, Codable {
    /// What kind of reason.
    public var kind: Kind
    /// The part of the stall, from 0 to 1. Those of all causes make up the stall.
    public var share: Double
    package var seconds: Seconds
    /// How many samples say so, in whole or in part.
    public var sampleCount: Int
    /// Whether the evidence is thin.
    public var isLikely: Bool
    /// What it was about, the heaviest first; the first few. Empty where that is not known.
    public var subjects: [Subject]

    /// How much of the stall that was.
    public var time: Duration { seconds.duration }

    /// What a cause was about.
    public struct Subject: Hashable, Sendable, Codable {
      /// A code for programs: a kind of work (`json`), of what is waited for (`mutex`), or `descriptor`, `systemCall`, `package`,
      /// `library`; or why it is not known: `unobserved`, `noStack`, `noState`.
      public var code: String
      /// What it was, in words: "JSON", "a mutex", "/srv/journal.db".
      public var text: String
      /// The part of the stall, from 0 to 1.
      public var share: Double
      package var seconds: Seconds

      /// How much of the stall that was.
      public var time: Duration { seconds.duration }
    }

    /// Kinds of causes. A newer version may have more.
    public struct Kind: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Threads wait for each other, and nobody can go on.
      public static let deadlock = Kind(rawValue: "deadlock")
      /// Another thread held a lock.
      public static let lock = Kind(rawValue: "lock")
      /// Another thread initialised what is initialised once.
      public static let initialization = Kind(rawValue: "initialization")
      /// Another thread had a lock of the loader's.
      public static let loader = Kind(rawValue: "loader")
      /// A thread had not ended.
      public static let threadEnd = Kind(rawValue: "threadEnd")
      /// Nobody had signalled what belongs to nobody: a semaphore, a condition, a group.
      public static let signal = Kind(rawValue: "signal")
      /// What a task awaited was not done.
      public static let awaiting = Kind(rawValue: "awaiting")
      /// A child process had not ended.
      public static let childProcess = Kind(rawValue: "childProcess")
      /// Another process, or the other end of a pipe, had not read or written.
      public static let interProcess = Kind(rawValue: "interProcess")
      /// A peer had not answered.
      public static let network = Kind(rawValue: "network")
      /// Files were read, written or looked up.
      public static let file = Kind(rawValue: "file")
      /// Memory had to be found or read in.
      public static let memory = Kind(rawValue: "memory")
      /// More work was waiting than could be done.
      public static let congestion = Kind(rawValue: "congestion")
      /// It was ready to run, and had no processor.
      public static let noProcessor = Kind(rawValue: "noProcessor")
      /// It freed what is no longer used.
      public static let deallocation = Kind(rawValue: "deallocation")
      /// It computed.
      public static let computing = Kind(rawValue: "computing")
      /// It slept on purpose.
      public static let sleep = Kind(rawValue: "sleep")
      /// Nothing tells.
      public static let unknown = Kind(rawValue: "unknown")
    }
  }

  /// What the kernel counted while the stall was sampled.
  public struct Counts: Hashable, Sendable, Codable {
    /// How often the thread got a processor; `nil` if unknown.
    public var turns: UInt64?
    /// How often it gave up the processor to wait; `nil` if unknown, as all that follows about the thread.
    public var voluntarySwitches: UInt64?
    /// How often the processor was taken from it.
    public var involuntarySwitches: UInt64?
    /// Page faults that needed no reading.
    public var minorFaults: UInt64?
    /// Page faults that did.
    public var majorFaults: UInt64?
    package var userSeconds: Seconds?
    package var systemSeconds: Seconds?
    /// Bytes that it read by system calls.
    public var readBytes: UInt64?
    /// Bytes that it wrote by system calls.
    public var writtenBytes: UInt64?
    /// Bytes that a disk was needed for.
    public var diskReadBytes: UInt64?
    /// Bytes that are to reach a disk.
    public var diskWrittenBytes: UInt64?
    package var throttledSeconds: Seconds?
    package var memoryStalledSeconds: Seconds?
    package var diskStalledSeconds: Seconds?
    /// The most threads of the machine that wanted a processor at a time; `nil` if unknown.
    public var runnableThreads: UInt32?
    /// How many processors there are; `nil` if unknown.
    public var processors: UInt32?
    /// The kernel's functions that the thread was found asleep in most, the first few.
    public var kernelFunctions: [String]

    /// The thread's processor time in its own code; `nil` if unknown.
    public var userTime: Duration? { userSeconds?.duration }
    /// The thread's processor time in the kernel; `nil` if unknown.
    public var systemTime: Duration? { systemSeconds?.duration }
    /// How long the control group was kept from running by its quota; `nil` if unknown.
    public var throttled: Duration? { throttledSeconds?.duration }
    /// How long somebody in the control group, or on the machine, waited for memory (PSI); `nil` if unknown.
    public var memoryStalled: Duration? { memoryStalledSeconds?.duration }
    /// The same for a disk.
    public var diskStalled: Duration? { diskStalledSeconds?.duration }
  }
}

extension ReportMaker {
  /// `cause` as readers see it.
  func cause(_ cause: Cause) -> StallReport.Cause {
    StallReport.Cause(
      kind: StallReport.Cause.Kind(rawValue: cause.kind.rawValue),
      share: cause.share.fraction,
      seconds: Seconds(cause.share.time),
      sampleCount: cause.sampleCount,
      isLikely: cause.isLikely,
      subjects: cause.parts.reduce(into: []) { subjects, part in
        let (code, text) = subject(part.subject)
        // A path and the descriptor that it became are the same to a reader.
        if let place = subjects.firstIndex(where: { $0.text == text }) {
          subjects[place].share += part.share.fraction
          subjects[place].seconds = Seconds(subjects[place].time + part.share.time)
          return
        }
        subjects.append(
          StallReport.Cause.Subject(
            code: code,
            text: text,
            share: part.share.fraction,
            seconds: Seconds(part.share.time)
          )
        )
      }
    )
  }

  private func subject(_ subject: Cause.Subject) -> (code: String, text: String) {
    switch subject {
    case .work(.ownCode): ("ownCode", "its own code")
    case .work(.kind(let kind)): (kind.rawValue, CauseText.work(kind))
    case .work(.package(let name)): ("package", "the package \(printable(name))")
    case .work(.library(let name)): ("library", printable(name))
    case .object(let object): (object.rawValue, CauseText.object(object))
    case .descriptor(let descriptor):
      ("descriptor", DescriptorText.of(descriptor).map { printable($0) } ?? "descriptor \(descriptor.number)")
    case .unobserved: ("unobserved", "no samples of that time")
    case .noStack: ("noStack", "no stack")
    case .noState: ("noState", "no state of the thread")
    case .call(let number): ("systemCall", SystemCallText.name(of: number, architecture: architecture))
    }
  }

  /// `counts` as readers see them; `nil` where nothing was counted.
  func counts(_ counts: StallCounts) -> StallReport.Counts? {
    guard !counts.isEmpty else { return nil }
    let thread = counts.thread
    func ticks(_ count: UInt64?) -> Seconds? { count.map { Seconds(.milliseconds(10) * Double($0)) } }
    return StallReport.Counts(
      turns: counts.turns,
      voluntarySwitches: thread?.voluntarySwitches,
      involuntarySwitches: thread?.involuntarySwitches,
      minorFaults: thread?.minorFaults,
      majorFaults: thread?.majorFaults,
      userSeconds: ticks(thread?.userTicks),
      systemSeconds: ticks(thread?.systemTicks),
      readBytes: thread?.readBytes,
      writtenBytes: thread?.writtenBytes,
      diskReadBytes: thread?.diskReadBytes,
      diskWrittenBytes: thread?.diskWrittenBytes,
      throttledSeconds: counts.throttled.map(Seconds.init),
      memoryStalledSeconds: counts.memoryStalled.map(Seconds.init),
      diskStalledSeconds: counts.diskStalled.map(Seconds.init),
      runnableThreads: counts.runnableThreads,
      processors: counts.processors,
      kernelFunctions: counts.kernelFunctions.map(\.name)
    )
  }
}
