import CulpritStallRecord

/// Who made watched work stall, and the evidence.
///
/// A report is a value: it can be compared, encoded as JSON with any encoder (docs/report-json.md has the form) and
/// printed. ``text(width:)`` and ``metadata`` are made of the value alone, so a decoded report reads the same.
public struct StallReport: Hashable, Sendable, Codable, Identifiable {
  /// The version of the JSON form: a reader of version 1 can read every report of version 1.
  public static let formatVersion = 1

  /// The version of the JSON form that this report has.
  public var version: Int
  /// Identifies the stall among those of a host: process id, start of the watch, number of the stall.
  public var id: String
  /// Tells the problem from others, and is the same in every stall with the same culprit, on every host and after a new build:
  /// twelve hexadecimal digits. `nil` in reports of earlier versions.
  public var signature: String?
  /// The process; `nil` where a damaged file lost it.
  public var process: Process?
  /// The source that stalled.
  public var source: Source
  /// The stuck thread; its id is 0 where no single thread worked on the source.
  public var thread: Thread
  /// When the work item began.
  public var began: Timestamp
  package var thresholdSeconds: Seconds
  package var durationSeconds: Seconds
  /// Whether ``duration`` is a lower bound: the end was not seen, or the work began before its probe did.
  public var isLowerBound: Bool
  /// Whether the end was seen; `false` for a stall that its process did not survive, or that still lasts.
  public var hasEnded: Bool
  package var hangSeconds: Seconds?

  /// Whether one function is to blame.
  public var verdict: Verdict
  /// Why there are no stacks, where ``verdict`` is ``Verdict/noStacks``.
  public var verdictReason: String?
  /// The function that is to blame; `nil` when no single one is.
  public var culprit: Finding?
  /// The functions between which the culprit only divides its time, the heaviest first; empty when it works itself.
  public var parts: [Finding]
  /// Where the task was suspended, with its part of the stall; `nil` unless ``verdict`` is ``Verdict/suspended``. ``callers`` has the
  /// innermost function of the application that awaited it, where that is another one.
  public var suspendedIn: Finding?
  /// The application's functions that called the culprit, each with its part of the culprit's time, the heaviest first.
  public var callers: [Finding]
  /// Where ``callers`` is a single function with all of the culprit's time: its callers, the nearest first.
  public var outerCallers: [Finding]
  /// The culprit's callees, the heaviest first.
  public var callees: [Finding]
  package var ownSeconds: Seconds
  /// The function of a dependency, or the callback of the application, that took most of the culprit's time.
  public var spentIn: Finding?
  /// Where nobody is to blame: the end of the heaviest path.
  public var dominant: Finding?
  /// The application's other functions with a share, the heaviest first: the first few of ``contenderCount``.
  public var contenders: [Finding]
  /// How many contenders there are.
  public var contenderCount: Int

  /// How the thread spent its time; `nil` if unknown.
  public var processorUse: ProcessorUse?
  /// The threads that worked on the source, where there are several; empty where there is one, or where they are not known.
  public var workers: [Worker] {
    get { severalWorkers ?? [] }
    set { severalWorkers = newValue.isEmpty ? nil : newValue }
  }
  /// Left out where there are none: earlier versions have no such key.
  package var severalWorkers: [Worker]?
  /// The labels that the application gave the work, each with its part of the stall.
  public var labels: [Label]
  /// Whether a queue took up waiting work; `nil` for other sources, or where it is not known.
  public var queueProgress: QueueProgress?
  /// How much work waited in a queue; `nil` for other sources, or where it is not known.
  public var waitingWork: WaitingWork?
  /// How long no thread ran the task that worked; `nil` where one always did.
  public var taskTimes: TaskTimes?
  /// What the work waited for that other threads held, and who that was, those first that took most of the time; empty where it
  /// waited for nothing of that kind, or it is not known.
  public var waitChains: [WaitChain] {
    get { knownWaitChains ?? [] }
    set { knownWaitChains = newValue.isEmpty ? nil : newValue }
  }
  /// Left out where there are none: earlier versions have no such key.
  package var knownWaitChains: [WaitChain]?
  /// Why the work did not go on, the heaviest first: the first is the primary cause, and all shares together make up the stall.
  /// Empty where there is no sample.
  public var causes: [Cause] {
    get { knownCauses ?? [] }
    set { knownCauses = newValue.isEmpty ? nil : newValue }
  }
  /// Left out where there are none: earlier versions have no such key.
  package var knownCauses: [Cause]?
  /// What the kernel counted while the stall was sampled; `nil` where it was not asked.
  public var counts: Counts?
  /// Which function held which stretch of the stall, in order of time; empty where one held all of it, or several threads worked.
  public var timeline: [Stretch] {
    get { knownTimeline ?? [] }
    set { knownTimeline = newValue.isEmpty ? nil : newValue }
  }
  /// Left out where there is none: earlier versions have no such key.
  package var knownTimeline: [Stretch]?
  /// The stalls that the report stands for; `nil` where it stands for one. Earlier versions have no such key.
  public var group: Group?
  /// Notes beside the samples, in order of time.
  public var notes: [Note]
  /// Every sampled stack, merged; the heaviest first.
  public var tree: [Node]
  /// The last stack: all that a watchdog with a single sample would have shown.
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
  /// How many stalls of the same source and culprit were counted, and not reported, since the previous report.
  public var repeats: Int
  /// Sentences about functions without names, and what to do about them.
  public var missingNames: [String]

  /// What the report was made from; `nil` after decoding. No part of the value.
  package var origin = Origin()
  /// The length of a line of ``description``.
  package var width = Width()

  enum CodingKeys: String, CodingKey {
    case version, id, signature, process, source, thread, began, thresholdSeconds, durationSeconds, isLowerBound
    case hasEnded, hangSeconds, verdict, verdictReason, culprit, parts, suspendedIn, callers, outerCallers, callees,
      ownSeconds,
      spentIn
    case dominant, contenders, contenderCount, processorUse, severalWorkers = "workers", labels, queueProgress,
      waitingWork,
      taskTimes, knownWaitChains = "waitChains", knownCauses = "causes", counts, knownTimeline = "timeline", group,
      notes, tree, lastStack
    case lastStackBlames, samples, evidence, otherThreads, cost, repeats, missingNames
  }

  /// The threshold of the work item.
  public var threshold: Duration { thresholdSeconds.duration }
  /// How long the work took; how long it was seen to run, when its end was not seen.
  public var duration: Duration { durationSeconds.duration }
  /// The age at which the stall became a hang; `nil` when it did not.
  public var hang: Duration? { hangSeconds?.duration }
  /// The time that the culprit spent in its own code.
  public var ownTime: Duration { ownSeconds.duration }
}

extension StallReport {
  /// Whether a function is to blame. A newer version may have more.
  public struct Verdict: ReportCode {
    /// The value as a string, as in JSON.
    public var rawValue: String
    /// The value with this string, known or not.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// One function of the application holds at least half of the stall.
    public static let culprit = Verdict(rawValue: "culprit")
    /// No function of the application does.
    public static let noSingleCulprit = Verdict(rawValue: "noSingleCulprit")
    /// No function does: the task was suspended, and its work went on elsewhere, in a callback, on a queue or in another library.
    public static let suspended = Verdict(rawValue: "suspended")
    /// Not one stack was captured.
    public static let noStacks = Verdict(rawValue: "noStacks")
  }

  /// The process of a stall.
  public struct Process: Hashable, Sendable, Codable {
    /// Its process id.
    public var id: Int32
    /// The path of its executable.
    public var executable: String
    /// The processor architecture, as `uname -m` prints it.
    public var architecture: String
    /// The version of Culprit that observed it.
    public var observerVersion: String
    /// When the watchdog was started.
    public var watchedSince: Timestamp
    /// The name of the host, which is the container's where it has one; `nil` if unknown.
    public var host: String?
    /// The build-id of ``executable``, in hexadecimal digits: which build ran. `nil` if unknown.
    public var buildID: String?

    /// The last component of ``executable``.
    public var name: String { executable.split(separator: "/").last.map(String.init) ?? executable }
  }

  /// Something that is watched.
  public struct Source: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The kind of source.
    public var kind: Kind
    /// The name that the application gave it.
    public var name: String

    /// A source of `kind` called `name`.
    public init(kind: Kind, name: String) {
      self.kind = kind
      self.name = name
    }

    /// The source in a few words, fit for a log: `event loop "http"`. Of a long name the middle is left out.
    public var description: String { "\(kind) \"\(abridged(name))\"" }
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
    /// The function, with the address and location of the place in it that took most.
    public var function: Function
    /// The part of the stall, from 0 to 1.
    public var share: Double
    /// The lower end of the interval that holds the true part with 95 % confidence.
    public var shareLow: Double
    /// The upper end of this interval.
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

  /// A stretch of the stall that one function held.
  public struct Stretch: Hashable, Sendable, Codable {
    package var beginSeconds: Seconds
    package var endSeconds: Seconds
    /// The function, with its part of the stretch; `nil` where it is none of the application's.
    public var culprit: Finding?

    /// The age of the work at its beginning.
    public var begin: Duration { beginSeconds.duration }
    /// The age of the work at its end.
    public var end: Duration { endSeconds.duration }
  }

  /// One of several threads that worked on a source.
  public struct Worker: Hashable, Sendable, Codable {
    /// The thread.
    public var thread: Thread
    /// The function that is to blame on this thread, with its part of the thread's time; `nil` when no single one is.
    public var culprit: Finding?
  }

  /// A function in the merged tree of stacks.
  public struct Node: Hashable, Sendable, Codable {
    /// The function.
    public var function: Function
    /// The part of the stall, from 0 to 1.
    public var share: Double
    package var seconds: Seconds
    package var selfSeconds: Seconds
    /// How often the function recurs in a row at most, directly or through others: 1 without recursion.
    public var repetitions: Int
    /// The callees, the heaviest first.
    public var children: [Node]

    /// The time of the samples that go through this node.
    public var time: Duration { seconds.duration }
    /// The time of the samples that end here.
    public var selfTime: Duration { selfSeconds.duration }
  }

  /// One sample of the stalled work.
  public struct Sample: Hashable, Sendable, Codable {
    package var ageSeconds: Seconds
    /// Why there is no stack; `nil` when there is one.
    public var noStack: Reason?
    /// Why the stack lacks its outermost callers; `nil` when it has all.
    public var missingCallers: Reason?
    /// What the thread was doing.
    public var activity: Activity
    /// The label of the work by then; empty when it had none.
    public var label: String
    /// The kernel's id of the thread, where several work on the source; `nil`: the report's ``StallReport/thread``.
    public var threadID: Int32?

    /// The age of the work item.
    public var age: Duration { ageSeconds.duration }
  }

  /// A label that the application gave the work.
  public struct Label: Hashable, Sendable, Codable {
    /// The text of the label.
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
    /// How many samples support ``stoodStill``.
    public var samples: Int
    /// How many samples tell either way.
    public var of: Int
  }

  /// How much work waited in a queue during its stall.
  public struct WaitingWork: Hashable, Sendable, Codable {
    /// The most that was found waiting at a time, beside the watchdog's probe.
    public var count: Int
    /// Whether there may have been more: so much is counted at most.
    public var isLowerBound: Bool
    package var oldestSeconds: Seconds?
    /// How long the oldest of it was seen to wait, at least; `nil` where that is not known.
    public var oldest: Duration? { oldestSeconds?.duration }
  }

  /// Stalls of one source that were late together, of which one report stands for several.
  public struct Group: Hashable, Sendable, Codable {
    /// When the first of them began.
    public var since: Timestamp
    /// The stalls of the source since then.
    public var count: Int
    /// Of these, the stalls that were suspended or blocked at the same place as the reported stall.
    public var atSamePlace: Int
    /// The stalls that only this report counts: they have no record of their own.
    public var unrecordedCount: Int
    package var unrecordedSeconds: Seconds
    /// The time that those took together.
    public var unrecordedTime: Duration { unrecordedSeconds.duration }
  }

  /// A note beside the samples.
  public struct Note: Hashable, Sendable, Codable {
    /// The kind of note.
    public var kind: Kind
    /// The subject in a few words; may be empty.
    public var title: String
    /// The note; may be empty.
    public var text: String
    package var seconds: Seconds
    /// A time that belongs to it; zero where none does.
    public var time: Duration { seconds.duration }

    /// Kinds of notes. A newer version may have more.
    public struct Kind: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// A context that the application added.
      public static let context = Kind(rawValue: "context")
      /// An activity that was going on, and for how long.
      public static let activity = Kind(rawValue: "activity")
      /// A debugger was attached.
      public static let debugger = Kind(rawValue: "debugger")
      /// The stall became a hang.
      public static let hang = Kind(rawValue: "hang")
      /// Processor time that was used.
      public static let processorTime = Kind(rawValue: "processorTime")
      /// The beginning of the work was not watched.
      public static let unwatched = Kind(rawValue: "unwatched")
      /// Other work of the same thread or task was stuck at the same time: its source is the title, the id of its report the text.
      public static let overlap = Kind(rawValue: "overlap")
      /// The lock of a file was waited for: who had it is the title, the file the text.
      public static let fileLock = Kind(rawValue: "fileLock")
      /// Other work with the same label was stuck at the same time: its source is the title, the id of its report the text.
      public static let sharedLabel = Kind(rawValue: "sharedLabel")
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
    /// Of those, the ones counted with a stack near in time that went through the same functions.
    public var completedCount: Int
    /// The stacks whose outermost callers were taken from an earlier stack and still lay at the same places.
    public var joinedCount: Int
    /// The stacks with async callers that have no name, and are left out.
    public var unknownCallersCount: Int {
      get { unknownCallers ?? 0 }
      set { unknownCallers = newValue == 0 ? nil : newValue }
    }
    /// Left out where there are none: earlier versions have no such key.
    package var unknownCallers: Int?
    /// Samples that were taken and lost.
    public var lostCount: UInt64
    /// Samples that were due and not taken, because Culprit's threads had used their processor time.
    public var sparedCount: Int {
      get { spared ?? 0 }
      set { spared = newValue == 0 ? nil : newValue }
    }
    /// Left out where there are none: earlier versions have no such key.
    package var spared: Int?
    /// Samples that are there and were left out, evenly, because there are very many.
    public var leftOutCount: Int {
      get { leftOut ?? 0 }
      set { leftOut = newValue == 0 ? nil : newValue }
    }
    /// Left out where there are none: earlier versions have no such key.
    package var leftOut: Int?
    /// Whether the file was cut off or damaged.
    public var isDamaged: Bool
    package var unobservedSeconds: Seconds
    package var gapSeconds: Seconds

    enum CodingKeys: String, CodingKey {
      case stackCount, noStack, missingCallers, completedCount, joinedCount
      case unknownCallers = "unknownCallersCount"
      case lostCount
      case spared = "sparedCount"
      case leftOut = "leftOutCount"
      case isDamaged, unobservedSeconds, gapSeconds
    }

    /// The part of the stall without samples.
    public var unobserved: Duration { unobservedSeconds.duration }
    /// Time in which the process could not run (stopped, frozen, suspended); no part of the stall's duration.
    public var gap: Duration { gapSeconds.duration }

    /// A reason, and how many samples have it.
    public struct Count: Hashable, Sendable, Codable {
      /// The reason.
      public var reason: Reason
      /// How many samples.
      public var count: Int
    }
  }

  /// What observing a stall cost the service.
  public struct Cost: Hashable, Sendable, Codable {
    /// Stacks that were read from outside: their threads cannot notice.
    public var stacksFromOutside: Int
    /// Stacks that a signal handler copied.
    public var stacksBySignal: Int
    /// Attempts without a stack.
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
