import CulpritStallRecord

/// The culprit of a stall, and the evidence.
///
/// A report is a value: it can be compared, encoded as JSON with any encoder (docs/internals/report-json.md) and
/// printed. ``text(width:explains:)`` and ``metadata`` depend only on the value, so a decoded report has the same text.
public struct StallReport: Hashable, Sendable, Codable, Identifiable {
  /// The version of the JSON format. A reader of version 1 can read every report of version 1.
  public static let formatVersion = 1

  /// The JSON format version of this report.
  public var version: Int
  /// The identifier of the stall, unique on its host: process ID, start of the watch, and number of the stall.
  public var id: String
  /// The signature of the problem, twelve hexadecimal digits. Equal for all stalls with the same culprit, across hosts
  /// and builds.
  public var signature: String
  /// The process; `nil` if a damaged file lost its record.
  public var process: Process?
  /// The source that stalled.
  public var source: Source
  /// The stalled thread; its ID is 0 if no single thread worked on the source.
  public var thread: Thread
  /// The start of the work item.
  public var began: Timestamp
  package var thresholdSeconds: Seconds
  package var durationSeconds: Seconds
  /// Whether ``duration`` is a lower bound, because the end was not observed or the work began before its probe.
  public var isLowerBound: Bool
  /// Whether the end was observed; `false` for an ongoing stall, or if the process did not survive the stall.
  public var hasEnded: Bool
  package var hangSeconds: Seconds?

  /// Whether one function is to blame.
  public var verdict: Verdict
  /// The reason for missing stacks, if ``verdict`` is ``Verdict/noStacks``.
  public var verdictReason: String?
  /// The culprit function; `nil` if no single function is to blame.
  public var culprit: Finding?
  /// The functions among which the culprit divides its time, heaviest first; empty if the culprit itself works.
  public var parts: [Finding]
  /// The function in which the task was suspended, with its share of the stall; `nil` unless ``verdict`` is
  /// ``Verdict/suspended``. ``callers`` contains the innermost other application function that awaited it.
  public var suspendedIn: Finding?
  /// The application functions that called the culprit, heaviest first. Their times include only calls of the culprit.
  public var callers: [Finding]
  /// If ``callers`` is a single function with all of the culprit's time, the callers of that function, nearest first.
  public var outerCallers: [Finding]
  /// The culprit's callees, heaviest first, at most eight. Their times include only calls from the culprit.
  public var callees: [Finding]
  package var ownSeconds: Seconds
  /// The function of a dependency, or the application's callback, that took most of the culprit's time.
  public var spentIn: Finding?
  /// The function at the end of the heaviest path, if no function is to blame.
  public var dominant: Finding?
  /// Other application functions with a share, heaviest first. ``contenderCount`` includes omitted ones.
  public var contenders: [Finding]
  /// The number of contenders.
  public var contenderCount: Int

  /// The thread's use of its time; `nil` if unknown.
  public var cpuUse: CPUUse?
  /// The threads that worked on the source, if there are several; empty for one thread or unknown threads.
  public var workers: [Worker]
  /// The application's labels of the work, with their shares of the stall.
  public var labels: [Label]
  /// Whether a queue took up waiting work; `nil` for other sources or if unknown.
  public var queueProgress: QueueProgress?
  /// The work that waited in a queue; `nil` for other sources or if unknown.
  public var waitingWork: WaitingWork?
  /// The times in which no thread ran the task; `nil` if there are none.
  public var taskTimes: TaskTimes?
  /// The chains of lock waits with the locks' owners, heaviest first; empty without known lock waits.
  public var waitChains: [WaitChain]
  /// The causes of the stall, heaviest first. The first one is the primary cause. The shares add up to the stall. Empty
  /// if there is no sample.
  public var causes: [Cause]
  /// The kernel's counts during the stall; `nil` if they were not read.
  public var counts: Counts?
  /// The phases of the stall in order of time; empty if there is only one, or if several threads worked.
  public var timeline: [Stretch]
  /// The stalls that the report represents; `nil` for a single stall.
  public var group: Group?
  /// Notes about the stall, in order of time.
  public var notes: [Note]
  /// The call tree of all sampled stacks, heaviest first.
  public var tree: [Node]
  /// The last stack.
  public var lastStack: Stack?
  /// The innermost application function on ``lastStack``.
  public var lastStackBlames: Function?
  /// The samples, in order of time.
  public var samples: [Sample]
  /// The quality of the evidence.
  public var evidence: Evidence
  /// The other threads when the stall was declared; `nil` if they were not captured.
  public var otherThreads: ThreadsReport?
  /// The cost of observing the stall.
  public var cost: Cost
  /// The number of equal stalls that were not reported since the previous report.
  public var repeats: Int
  /// Sentences about functions without names, and the remedy.
  public var missingNames: [String]

  /// The data from which the report was made; `nil` after decoding.
  package var origin = Aside<Made?>(value: nil)
  package var width = Aside(value: 100)

  enum CodingKeys: String, CodingKey {
    case version, id, signature, process, source, thread, began, thresholdSeconds, durationSeconds, isLowerBound,
      hasEnded, hangSeconds, verdict, verdictReason, culprit, parts, suspendedIn, callers, outerCallers, callees,
      ownSeconds, spentIn, dominant, contenders, contenderCount, cpuUse, workers, labels, queueProgress,
      waitingWork, taskTimes, waitChains, causes, counts, timeline, group, notes, tree, lastStack, lastStackBlames,
      samples, evidence, otherThreads, cost, repeats, missingNames
  }

  /// The threshold of the work item.
  public var threshold: Duration { thresholdSeconds.duration }
  /// The duration of the work, or without an observed end, the time for which the work is known to have run.
  public var duration: Duration { durationSeconds.duration }
  /// The age at which the stall became a hang; `nil` for other stalls.
  public var hang: Duration? { hangSeconds?.duration }
  /// The culprit's self time.
  public var ownTime: Duration { ownSeconds.duration }
}

extension StallReport {
  package struct Made: Sendable {
    package var recording: Recording
    package var stall: Stall
  }

  /// The data for exports of raw samples, which a decoded report lacks.
  package var raw: Made {
    guard let made = origin.value else { preconditionFailure("a report that was decoded has no recording") }
    return made
  }
}

extension StallReport {
  /// Whether a function is to blame. Newer versions can have more values.
  public struct Verdict: ReportCode {
    /// The string in JSON.
    public var rawValue: String
    /// Creates a value, known or unknown.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// One application function holds at least half of the stall.
    public static let culprit = Verdict(rawValue: "culprit")
    /// No application function holds half of the stall.
    public static let noSingleCulprit = Verdict(rawValue: "noSingleCulprit")
    /// No function is to blame. The task was suspended while its work continued elsewhere: in a callback, on a queue or
    /// in another library.
    public static let suspended = Verdict(rawValue: "suspended")
    /// No stack was captured.
    public static let noStacks = Verdict(rawValue: "noStacks")
  }

  /// The process of a stall.
  public struct Process: Hashable, Sendable, Codable {
    /// The process ID.
    public var id: Int32
    /// The path of the executable.
    public var executable: String
    /// The CPU architecture, as printed by `uname -m`.
    public var architecture: String
    /// The version of Culprit that observed the process.
    public var observerVersion: String
    /// The start of the watchdog.
    public var watchedSince: Timestamp
    /// The name of the host; in a container, the container's host name. `nil` if unknown.
    public var host: String?
    /// The build ID of ``executable`` in hexadecimal digits, which identifies the build. `nil` if unknown.
    public var buildID: String?

    /// The last component of ``executable``.
    public var name: String { executable.split(separator: "/").last.map(String.init) ?? executable }
  }

  /// A watched source.
  public struct Source: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The kind of source.
    public var kind: Kind
    /// The name given by the application.
    public var name: String

    /// Creates a source.
    public init(kind: Kind, name: String) {
      self.kind = kind
      self.name = name
    }

    /// A short description for logs: `event loop "http"`. Long names are shortened in the middle.
    public var description: String { "\(kind) \"\(abridged(name))\"" }
  }

  /// A thread of the process.
  public struct Thread: Hashable, Sendable, Codable {
    /// The kernel's thread ID.
    public var id: Int32
    /// The name of the thread; empty if unknown.
    public var name: String
  }

  /// A function and its share of the stall.
  public struct Finding: Hashable, Sendable, Codable {
    /// The function, with its heaviest address and location.
    public var function: Function
    /// The share of the stall, from 0 to 1.
    public var share: Double
    /// The lower bound of the 95 % confidence interval of the share.
    public var shareLow: Double
    /// The upper bound of the 95 % confidence interval of the share.
    public var shareHigh: Double
    package var seconds: Seconds
    /// The number of samples with the function on their stack.
    public var sampleCount: Int
    /// The thread's use of this time; `nil` if unknown.
    public var cpuUse: CPUUse?
    /// How often the thread was found waiting; `nil` if unknown.
    public var waiting: Waiting?

    /// The time of the samples with the function on their stack.
    public var time: Duration { seconds.duration }
  }

  /// A phase of the stall, dominated by one function.
  public struct Stretch: Hashable, Sendable, Codable {
    package var beginSeconds: Seconds
    package var endSeconds: Seconds
    /// The function with its share of the phase; `nil` if no application function dominates.
    public var culprit: Finding?

    /// The age of the work at the start.
    public var begin: Duration { beginSeconds.duration }
    /// The age of the work at the end.
    public var end: Duration { endSeconds.duration }
  }

  /// One of several threads that worked on a source.
  public struct Worker: Hashable, Sendable, Codable {
    /// The thread.
    public var thread: Thread
    /// The culprit function of this thread, with its share of the thread's time; `nil` if no single function is to
    /// blame.
    public var culprit: Finding?
  }

  /// A function in the call tree.
  public struct Node: Hashable, Sendable, Codable {
    /// The function.
    public var function: Function
    /// The share of the stall, from 0 to 1.
    public var share: Double
    package var seconds: Seconds
    package var selfSeconds: Seconds
    /// The maximum number of consecutive repetitions in recursion, direct or indirect; 1 without recursion.
    public var repetitions: Int
    /// The callees, heaviest first.
    public var children: [Node]

    /// The inclusive time.
    public var time: Duration { seconds.duration }
    /// The self time.
    public var selfTime: Duration { selfSeconds.duration }
  }

  /// A sample of the stalled work.
  public struct Sample: Hashable, Sendable, Codable {
    package var ageSeconds: Seconds
    /// The reason for a missing stack; `nil` if there is a stack.
    public var noStack: Reason?
    /// The reason why outermost callers are missing; `nil` if the stack is complete.
    public var missingCallers: Reason?
    /// The activity of the thread.
    public var activity: Activity
    /// The current label of the work; empty if there is none.
    public var label: String
    /// The kernel's thread ID if several threads work on the source; `nil` for ``StallReport/thread``.
    public var threadID: Int32?

    /// The age of the work item.
    public var age: Duration { ageSeconds.duration }
  }

  /// An application's label of the work.
  public struct Label: Hashable, Sendable, Codable {
    /// The text of the label.
    public var text: String
    /// The share of the stall with the label, from 0 to 1.
    public var share: Double
    package var seconds: Seconds
    /// The time with the label.
    public var time: Duration { seconds.duration }
  }

  /// Whether a queue took up waiting work during its stall.
  public struct QueueProgress: Hashable, Sendable, Codable {
    /// Whether the first waiting item was unchanged in most samples.
    public var stoodStill: Bool
    /// If ``stoodStill``, the number of consecutive samples with an unchanged first item. Otherwise, the number of
    /// neighbouring samples between which the queue took up work.
    public var samples: Int
    /// The number of samples with a known state.
    public var of: Int
  }

  /// The work that waited in a queue during its stall.
  public struct WaitingWork: Hashable, Sendable, Codable {
    /// The maximum number of waiting items, without the watchdog's probe.
    public var count: Int
    /// Whether ``count`` is a lower bound, because counting is limited.
    public var isLowerBound: Bool
    package var oldestSeconds: Seconds?
    /// The longest observed wait of an item; `nil` if unknown.
    public var oldest: Duration? { oldestSeconds?.duration }
  }

  /// Simultaneous stalls of one source that share a report.
  public struct Group: Hashable, Sendable, Codable {
    /// The start of the first stall.
    public var since: Timestamp
    /// The number of the source's stalls from ``since`` on.
    public var count: Int
    /// The number of stalls of the group suspended or blocked at the place of the reported stall.
    public var atSamePlace: Int
    /// The number of unrecorded stalls counted only by this report; -1 if another report counts this stall.
    public var unrecordedCount: Int
    package var unrecordedSeconds: Seconds
    /// The total time of the stalls without a record.
    public var unrecordedTime: Duration { unrecordedSeconds.duration }
  }

  /// A note about a stall.
  public struct Note: Hashable, Sendable, Codable {
    /// The kind of note.
    public var kind: Kind
    /// The subject in a few words; can be empty.
    public var title: String
    /// The text of the note; can be empty.
    public var text: String
    package var seconds: Seconds
    /// The time of the note; zero if it has none.
    public var time: Duration { seconds.duration }

    /// Kinds of notes.
    public struct Kind: ReportCode {
      /// The string in JSON.
      public var rawValue: String
      /// Creates a value, known or unknown.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Context added by the application.
      public static let context = Kind(rawValue: "context")
      /// A concurrent activity; the time is its duration so far.
      public static let activity = Kind(rawValue: "activity")
      /// A debugger was attached.
      public static let debugger = Kind(rawValue: "debugger")
      /// The stall became a hang.
      public static let hang = Kind(rawValue: "hang")
      /// CPU time used.
      public static let cpuTime = Kind(rawValue: "cpuTime")
      /// The start of the work was not watched.
      public static let unwatched = Kind(rawValue: "unwatched")
      /// Other work of the same thread or task stalled simultaneously. The title is its source, the text its report ID.
      public static let overlap = Kind(rawValue: "overlap")
      /// The work waited for a file lock. The title is the lock's owner, the text the file.
      public static let fileLock = Kind(rawValue: "fileLock")
      /// Other work with the same label stalled simultaneously. The title is its source, the text its report ID.
      public static let sharedLabel = Kind(rawValue: "sharedLabel")
      /// The work might have been several jobs of a task: the system calls that would show its pauses were refused.
      public static let likely = Kind(rawValue: "likely")
      /// Other work ran while this work was suspended, and might have held the awaited resource. The title is its label,
      /// the text its report ID if it stalled.
      public static let meanwhile = Kind(rawValue: "meanwhile")
    }
  }

  /// The quality of the evidence.
  public struct Evidence: Hashable, Sendable, Codable {
    /// The number of samples with a stack.
    public var stackCount: Int
    /// The numbers of samples without a stack, by reason.
    public var noStack: [Count]
    /// The numbers of stacks without outermost callers, by reason.
    public var missingCallers: [Count]
    /// The number of stacks completed from a stack near in time with equal functions.
    public var completedCount: Int
    /// The number of stacks with outermost callers from an earlier stack at equal stack addresses.
    public var joinedCount: Int
    /// The number of stacks with unnamed async callers, which are omitted.
    public var unknownCallersCount: Int
    /// The number of samples that were taken but lost.
    public var lostCount: UInt64
    /// The number of samples skipped because Culprit's threads had used up their CPU time.
    public var skippedCount: Int
    /// The number of recorded samples omitted, evenly, because there are very many.
    public var omittedCount: Int
    /// Whether the file was truncated or damaged.
    public var isDamaged: Bool
    package var unobservedSeconds: Seconds
    package var gapSeconds: Seconds

    /// The part of the stall without samples.
    public var unobserved: Duration { unobservedSeconds.duration }
    /// The time in which the process could not run (stopped, frozen, suspended). Not part of the stall's duration.
    public var gap: Duration { gapSeconds.duration }

    /// A reason and the number of samples with this reason.
    public struct Count: Hashable, Sendable, Codable {
      /// The reason.
      public var reason: Reason
      /// The number of samples.
      public var count: Int
    }
  }

  /// The cost of observing a stall for the service.
  public struct Cost: Hashable, Sendable, Codable {
    /// The number of stacks read from outside, unnoticed by their threads.
    public var stacksFromOutside: Int
    /// The number of stacks copied by a signal handler.
    public var stacksBySignal: Int
    /// The number of attempts without a stack.
    public var withoutStack: Int
    package var longestHandlerSeconds: Seconds
    package var handlerSeconds: Seconds
    package var unwindSeconds: Seconds

    /// The longest single time of a thread in the signal handler.
    public var longestHandlerTime: Duration { longestHandlerSeconds.duration }
    /// The total time of threads in the signal handler.
    public var handlerTime: Duration { handlerSeconds.duration }
    /// The time for unwinding, on one of Culprit's threads.
    public var unwindTime: Duration { unwindSeconds.duration }
  }
}
