import CulpritStallRecord

/// Who made watched work stall, and what that rests on.
///
/// A report is a value: it can be compared, encoded as JSON with any encoder (docs/report-json.md has the form) and
/// printed. ``text(width:)`` and ``metadata`` say what is in it and nothing else, so a report that was decoded again
/// reads the same.
public struct StallReport: Hashable, Sendable, Codable, Identifiable {
  /// The version of the JSON form: a reader of 1 can read every 1.
  public static let formatVersion = 1

  /// The version of the JSON form that this report has.
  public var version: Int
  /// Tells the stalls of all processes of a host apart: process id, start of the watch, number of the stall.
  public var id: String
  /// The process; `nil` where a damaged file has lost it.
  public var process: Process?
  /// What was watched.
  public var source: Source
  /// The thread that was stuck; its id is 0 where no single thread worked on it.
  public var thread: Thread
  /// When the work began.
  public var began: Timestamp
  package var thresholdSeconds: Seconds
  package var durationSeconds: Seconds
  /// Whether the work took at least ``duration``: its end was not seen, or its beginning was before that of the probe.
  public var isLowerBound: Bool
  /// Whether the end was seen. `false` for a stall that its process did not survive, or that still lasts.
  public var hasEnded: Bool
  package var hangSeconds: Seconds?

  /// Whether anybody is to blame.
  public var verdict: Verdict
  /// Why there are no stacks, where ``verdict`` is ``Verdict/noStacks``.
  public var verdictReason: String?
  /// The function that is to blame; `nil` when no single one is.
  public var culprit: Finding?
  /// The functions between which the culprit only divides its time, the heaviest first. None when it works itself.
  public var parts: [Finding]
  /// The application's functions that called the culprit, each with the culprit's time that it had, the heaviest first.
  public var callers: [Finding]
  /// Where ``callers`` is a single one with all of the culprit's time: the functions that called that one, the nearest first.
  public var outerCallers: [Finding]
  /// The culprit's callees and what they took, the heaviest first.
  public var callees: [Finding]
  package var ownSeconds: Seconds
  /// The function of a package, or the application's own that a library called back, which took most of the culprit's time.
  public var spentIn: Finding?
  /// The innermost function to which always the heaviest callee leads, where nobody is to blame.
  public var dominant: Finding?
  /// The application's functions beside the culprit, or instead of one, the heaviest first: the first few of
  /// ``contenderCount``.
  public var contenders: [Finding]
  /// How many contenders there are.
  public var contenderCount: Int

  /// How the thread spent its time; `nil` if unknown.
  public var processorUse: ProcessorUse?
  /// What the application had said of the work, and for how much of the stall.
  public var labels: [Label]
  /// Whether a queue took up waiting work; `nil` for what is no queue, or where that is not known.
  public var queueProgress: QueueProgress?
  /// What was noted beside the samples, in order of time.
  public var notes: [Note]
  /// Every sampled stack, merged; the heaviest first.
  public var tree: [Node]
  /// The last stack that was captured: what a watchdog with a single sample would have shown.
  public var lastStack: Stack?
  /// The application's innermost function on ``lastStack``: what such a watchdog would have blamed.
  public var lastStackBlames: Function?
  /// The samples, in order of time.
  public var samples: [Sample]
  /// How good the evidence is.
  public var evidence: Evidence
  /// The other threads when the stall was declared; `nil` when they were not captured.
  public var otherThreads: ThreadsReport?
  /// What observing the stall cost.
  public var cost: Cost
  /// How many stalls of the same source and culprit were counted, and not reported, since the one before.
  public var repeats: Int
  /// Why functions have no names, and what to do about it: a sentence each.
  public var missingNames: [String]

  /// What the report was made from; `nil` after decoding. No part of the value.
  package var origin = Origin()
  /// The length of a line of ``description``.
  package var width = Width()

  enum CodingKeys: String, CodingKey {
    case version, id, process, source, thread, began, thresholdSeconds, durationSeconds, isLowerBound, hasEnded
    case hangSeconds, verdict, verdictReason, culprit, parts, callers, outerCallers, callees, ownSeconds, spentIn
    case dominant, contenders, contenderCount, processorUse, labels, queueProgress, notes, tree, lastStack
    case lastStackBlames, samples, evidence, otherThreads, cost, repeats, missingNames
  }

  /// What the work was allowed to take.
  public var threshold: Duration { thresholdSeconds.duration }
  /// How long the work took; as long as it was known to run, when it has not ended.
  public var duration: Duration { durationSeconds.duration }
  /// From when on the stall was a hang; `nil` when it was none.
  public var hang: Duration? { hangSeconds?.duration }
  /// The time that the culprit spent in its own code.
  public var ownTime: Duration { ownSeconds.duration }
}

extension StallReport {
  /// Whether a function is to blame. A newer version may have more.
  public struct Verdict: ReportCode {
    /// The word.
    public var rawValue: String
    /// What `rawValue` says, also where this version does not know it.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// One function of the application holds at least half of the stall.
    public static let culprit = Verdict(rawValue: "culprit")
    /// No function of the application does.
    public static let noSingleCulprit = Verdict(rawValue: "noSingleCulprit")
    /// Not one stack was captured.
    public static let noStacks = Verdict(rawValue: "noStacks")
  }

  /// The process that stalled.
  public struct Process: Hashable, Sendable, Codable {
    /// Its process id.
    public var id: Int32
    /// The path of its executable.
    public var executable: String
    /// The processor architecture as `uname -m` has it.
    public var architecture: String
    /// The version of Culprit that observed it.
    public var observerVersion: String
    /// When the watchdog was started.
    public var watchedSince: Timestamp

    /// The last component of ``executable``.
    public var name: String { executable.split(separator: "/").last.map(String.init) ?? executable }
  }

  /// What was watched.
  public struct Source: Hashable, Sendable, Codable, CustomStringConvertible {
    /// What kind of work it is.
    public var kind: Kind
    /// The name that the application gave it.
    public var name: String

    /// A source of `kind` called `name`.
    public init(kind: Kind, name: String) {
      self.kind = kind
      self.name = name
    }

    /// The source in a few words, fit for a log: `event loop "http"`.
    public var description: String { "\(kind) \"\(printable(name))\"" }
  }

  /// A thread of the process.
  public struct Thread: Hashable, Sendable, Codable {
    /// The kernel's id of the thread.
    public var id: Int32
    /// The thread's name, empty if unknown.
    public var name: String
  }

  /// A function and how much of the stall it took.
  public struct Finding: Hashable, Sendable, Codable {
    /// The function. Address and location are those of the place in it that took most.
    public var function: Function
    /// The part of the stall, from 0 to 1.
    public var share: Double
    /// The lower end of the interval that holds the true part with 95 % confidence.
    public var shareLow: Double
    /// The upper end of that interval.
    public var shareHigh: Double
    package var seconds: Seconds
    /// How many samples have the function on their stack.
    public var sampleCount: Int
    /// How the thread spent that time; `nil` if unknown.
    public var processorUse: ProcessorUse?
    /// How often the thread was found waiting; `nil` if unknown.
    public var waiting: Waiting?

    /// The time of the samples that have the function on their stack.
    public var time: Duration { seconds.duration }
  }

  /// A function in the merged tree of stacks.
  public struct Node: Hashable, Sendable, Codable {
    /// The function.
    public var function: Function
    /// The part of the stall, from 0 to 1.
    public var share: Double
    package var seconds: Seconds
    package var selfSeconds: Seconds
    /// How often the function, and what it calls before it comes again, followed itself at most: 1 when it did not.
    public var repetitions: Int
    /// The functions it called, the heaviest first.
    public var children: [Node]

    /// The time of the samples that go through this node.
    public var time: Duration { seconds.duration }
    /// The time of the samples that end here.
    public var selfTime: Duration { selfSeconds.duration }
  }

  /// A look at the stalled work.
  public struct Sample: Hashable, Sendable, Codable {
    package var ageSeconds: Seconds
    /// Why there is no stack; `nil` when there is one.
    public var noStack: Reason?
    /// Why the stack lacks its outermost callers; `nil` when it has all.
    public var missingCallers: Reason?
    /// What the thread was doing.
    public var activity: Activity
    /// What the application had said of the work by then; empty when nothing.
    public var label: String

    /// How old the work was.
    public var age: Duration { ageSeconds.duration }
  }

  /// What the application had said of the work.
  public struct Label: Hashable, Sendable, Codable {
    /// The label.
    public var text: String
    /// The part of the stall for which it held, from 0 to 1.
    public var share: Double
    package var seconds: Seconds
    /// The time for which it held.
    public var time: Duration { seconds.duration }
  }

  /// Whether a queue took up waiting work during its stall.
  public struct QueueProgress: Hashable, Sendable, Codable {
    /// Whether the same work waited first in most samples that tell.
    public var stoodStill: Bool
    /// So many samples say so: of one moment each where it stood still, between two of which work was taken up where it moved.
    public var samples: Int
    /// Of so many that tell.
    public var of: Int
  }

  /// Something that was noted beside the samples.
  public struct Note: Hashable, Sendable, Codable {
    /// What it is about.
    public var kind: Kind
    /// What or who it is about, in a few words; may be empty.
    public var title: String
    /// What is noted; may be empty.
    public var text: String
    package var seconds: Seconds
    /// A time that belongs to it; zero where none does.
    public var time: Duration { seconds.duration }

    /// What notes are about.
    public struct Kind: ReportCode {
      /// The word.
      public var rawValue: String
      /// What `rawValue` says, also where this version does not know it.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// What the application says of itself.
      public static let context = Kind(rawValue: "context")
      /// An activity that was going on, and for how long.
      public static let activity = Kind(rawValue: "activity")
      /// A debugger was attached.
      public static let debugger = Kind(rawValue: "debugger")
      /// The stall became a hang.
      public static let hang = Kind(rawValue: "hang")
      /// How much processor time was used.
      public static let processorTime = Kind(rawValue: "processorTime")
      /// The beginning of the work was not watched.
      public static let unwatched = Kind(rawValue: "unwatched")
    }
  }

  /// How good the evidence is.
  public struct Evidence: Hashable, Sendable, Codable {
    /// The samples with a stack.
    public var stackCount: Int
    /// The samples without one, and why.
    public var noStack: [Count]
    /// The stacks that lack their outermost callers, and why.
    public var missingCallers: [Count]
    /// Of those: counted with stacks near in time that went through the same functions.
    public var completedCount: Int
    /// The stacks whose outermost callers are those of an earlier one, which still lay at the same places.
    public var joinedCount: Int
    /// Samples that were taken and lost.
    public var lostCount: UInt64
    /// Whether the file was cut off or damaged.
    public var isDamaged: Bool
    package var unobservedSeconds: Seconds
    package var gapSeconds: Seconds

    /// The part of the stall of which there are no samples.
    public var unobserved: Duration { unobservedSeconds.duration }
    /// Time in which the process could not run (stopped, frozen, suspended): no part of the stall's duration.
    public var gap: Duration { gapSeconds.duration }

    /// How many samples have a reason in common.
    public struct Count: Hashable, Sendable, Codable {
      /// The reason.
      public var reason: Reason
      /// How many samples.
      public var count: Int
    }
  }

  /// What observing a stall cost the service.
  public struct Cost: Hashable, Sendable, Codable {
    /// Stacks that were read from outside, which their threads cannot notice.
    public var stacksFromOutside: Int
    /// Stacks that a signal handler copied.
    public var stacksBySignal: Int
    /// Attempts that gave no stack.
    public var withoutStack: Int
    package var longestHandlerSeconds: Seconds
    package var handlerSeconds: Seconds
    package var unwindSeconds: Seconds

    /// The longest time that a thread spent in the handler once.
    public var longestHandlerTime: Duration { longestHandlerSeconds.duration }
    /// The time that threads spent in the handler in all.
    public var handlerTime: Duration { handlerSeconds.duration }
    /// The time that unwinding took, on a thread of Culprit's own.
    public var unwindTime: Duration { unwindSeconds.duration }
  }
}
