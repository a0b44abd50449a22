import CulpritStallRecord

/// A value that JSON represents as a string. Newer versions can have more values.
public protocol ReportCode: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible
where RawValue == String {}

extension ReportCode {
  /// The string used in JSON.
  public var description: String { rawValue }
}

/// A duration, in JSON a number of seconds. Rounded to nanoseconds, which encoding preserves.
package struct Seconds: Hashable, Sendable, Codable, Comparable {
  package var duration: Duration

  package init(_ duration: Duration) { self.duration = .nanoseconds(Int64(clamping: duration.wholeNanoseconds)) }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let seconds = try container.decode(Double.self)
    guard seconds >= 0, seconds < 1e10 else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(seconds) is no number of seconds")
    }
    duration = .nanoseconds(Int64((min(seconds, 9_223_372_036) * 1e9).rounded()))
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(Double(duration.wholeNanoseconds) / 1e9)
  }

  package static func < (left: Seconds, right: Seconds) -> Bool { left.duration < right.duration }
}

extension StallReport {
  /// A UTC time, in JSON an RFC 3339 string with nanoseconds.
  public struct Timestamp: Hashable, Sendable, Codable, Comparable, CustomStringConvertible {
    /// Nanoseconds since 1970-01-01T00:00:00Z, without leap seconds.
    public var nanosecondsSince1970: UInt64

    /// Creates a time.
    public init(nanosecondsSince1970: UInt64) { self.nanosecondsSince1970 = nanosecondsSince1970 }

    /// Decodes an RFC 3339 string.
    public init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      let text = try container.decode(String.self)
      guard let time = WallTime(text: text) else {
        let expected = "expected a time such as 2026-11-20T10:23:51.204000000Z, found \"\(printable(text, limit: 60))\""
        throw DecodingError.dataCorruptedError(in: container, debugDescription: expected)
      }
      nanosecondsSince1970 = time.nanosecondsSince1970
    }

    /// Encodes the time as an RFC 3339 string with nanoseconds.
    public func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      try container.encode(WallTime(nanosecondsSince1970: nanosecondsSince1970).text(decimals: 9))
    }

    /// Whether `left` is before `right`.
    public static func < (left: Timestamp, right: Timestamp) -> Bool {
      left.nanosecondsSince1970 < right.nanosecondsSince1970
    }

    /// The time with milliseconds, as in `2026-11-20T10:23:51.204Z`.
    public var description: String { WallTime(nanosecondsSince1970: nanosecondsSince1970).description }
  }

  /// A function on a stack.
  public struct Function: Hashable, Sendable, Codable {
    /// The short name, at most 100 characters, identical in every report.
    public var name: String
    /// The name to print. If another function in the report has an equal name, the closure's number, or the function's
    /// module, file or types are included. Unnamed functions of a library share one name.
    public var displayName: String
    /// The full demangled name; `nil` if there is none.
    public var fullName: String?
    /// The symbol name; `nil` if there is none.
    public var symbol: String?
    /// The path of the module; empty if no module contains the address.
    public var module: String
    /// The package of a dependency's function; `nil` for other functions.
    public var package: String?
    /// The source location; `nil` if unknown.
    public var location: Location?
    /// Whether the function is the application's own code.
    public var isOwn: Bool
    /// Whether the compiler inlined the function into its caller, the next function of the stack.
    public var isInlined: Bool
    /// Whether the function is an async caller that is not on the thread's stack and resumes at this location.
    public var isAwaiting: Bool
    /// The address of the code.
    public var address: Address
    /// The reason for a missing name; `nil` if there is a name.
    public var noName: String?
    /// The symbolized frame; `nil` after decoding.
    package var content = Aside<FrameContent?>(value: nil)

    enum CodingKeys: String, CodingKey {
      case name, displayName, fullName, symbol, module, package, location, isOwn, isInlined, isAwaiting, address, noName
    }

    package var frame: ResolvedFrame? { content.value?.resolved }
    /// The last component of ``module``.
    public var moduleName: String { module.lastComponent }

    package func isAddress(_ name: String) -> Bool { name.hasPrefix("\(printable(moduleName))+0x") }
  }

  /// A location in source code.
  public struct Location: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The path of the file as recorded by the compiler.
    public var file: String
    /// The line, from 1.
    public var line: Int
    /// The column, from 1; 0 if unknown.
    public var column: Int

    /// The last component of ``file``.
    public var fileName: String { file.split(separator: "/").last.map(String.init) ?? file }
    /// The location in the format of compiler messages, without the column.
    public var description: String { "\(file):\(line)" }
  }

  /// An address and its kind.
  public struct Address: Hashable, Sendable, Codable {
    /// The kind of address.
    public var kind: Kind
    /// The address.
    public var value: UInt64

    /// Kinds of addresses.
    public struct Kind: ReportCode {
      /// The string in JSON.
      public var rawValue: String
      /// Creates a value, known or unknown.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// An address in the module's file.
      public static let file = Kind(rawValue: "file")
      /// An address in the running process, outside of all modules.
      public static let runtime = Kind(rawValue: "runtime")
    }
  }

  /// A stack.
  public struct Stack: Hashable, Sendable, Codable {
    /// The functions, innermost first.
    public var functions: [Function]
    /// The reason why outermost callers are missing; `nil` if the stack is complete.
    public var missingCallers: Reason?
  }

  /// A stack and the age of the work when it was captured.
  public struct TimedStack: Hashable, Sendable, Codable {
    package var ageSeconds: Seconds
    /// The functions, innermost first; empty if there is no stack.
    public var functions: [Function]

    package init(ageSeconds: Seconds, functions: [Function]) {
      (self.ageSeconds, self.functions) = (ageSeconds, functions)
    }

    /// The age of the work.
    public var age: Duration { ageSeconds.duration }
  }

  /// The reason for missing data: a code for programs and a sentence for people.
  public struct Reason: Hashable, Sendable, Codable, CustomStringConvertible {
    /// A code for programs, such as `noAnswer`.
    public var code: String
    /// The reason in words.
    public var text: String

    /// The reason in words.
    public var description: String { text }
  }

  /// A thread's use of its time: on a CPU, ready to run without a CPU, and waiting for the rest.
  public struct CPUUse: Hashable, Sendable, Codable {
    /// The share of time on a CPU, from 0 to 1.
    public var share: Double
    /// The share of time ready to run without a CPU; `nil` if the kernel does not count it.
    public var runnableShare: Double?
  }

  /// How often a thread was found waiting for anything other than a CPU.
  public struct Waiting: Hashable, Sendable, Codable {
    /// The number of samples in which the thread waited.
    public var samples: Int
    /// The number of samples with a known state.
    public var of: Int
    /// The system call in most of the waiting samples; `nil` if there was none.
    public var systemCall: String?
    /// The object of the system call, as in "/srv/journal.db" or "a socket to 10.0.0.3:5432"; `nil` if there is none or
    /// it is unknown.
    public var target: String?
    /// The number of samples in which the task was suspended at an `await`.
    public var suspended = 0
  }

  /// The time of a stall in which no thread ran the task.
  public struct TaskTimes: Hashable, Sendable, Codable {
    package var suspendedSeconds: Seconds
    package var readySeconds: Seconds

    /// The time suspended at an `await`.
    public var suspended: Duration { suspendedSeconds.duration }
    /// The time ready to run, waiting for an actor or a thread. Its stacks show the work that ran meanwhile.
    public var ready: Duration { readySeconds.duration }
  }

  /// The activity of a sampled thread.
  public struct Activity: Hashable, Sendable, Codable {
    /// The kind of activity.
    public var kind: Kind
    /// The system call in which the thread was blocked; `nil` if there is none or it is unknown.
    public var systemCall: String?

    /// Kinds of activity.
    public struct Kind: ReportCode {
      /// The string in JSON.
      public var rawValue: String
      /// Creates a value, known or unknown.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// On a CPU, or ready to run.
      public static let computing = Kind(rawValue: "computing")
      /// Blocked in a system call.
      public static let inSystemCall = Kind(rawValue: "inSystemCall")
      /// Blocked in a system call that the kernel restarted after the process had been stopped.
      public static let inRestartedCall = Kind(rawValue: "inRestartedCall")
      /// Blocked outside a system call, for example in a page fault.
      public static let blocked = Kind(rawValue: "blocked")
      /// Without a thread: the task was suspended at an `await`.
      public static let suspended = Kind(rawValue: "suspended")
      /// Without a thread: the task was ready to run.
      public static let enqueued = Kind(rawValue: "enqueued")
      /// Unknown, because the kernel did not provide the state.
      public static let unknown = Kind(rawValue: "unknown")
    }
  }
}

extension StallReport.Source {
  /// Kinds of sources.
  public struct Kind: ReportCode {
    /// The string in JSON.
    public var rawValue: String
    /// Creates a value, known or unknown.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The turns of an event loop.
    public static let loop = Kind(SourceKind.loop)
    /// The iterations of a run loop.
    public static let runLoop = Kind(SourceKind.runLoop)
    /// A critical section.
    public static let section = Kind(SourceKind.section)
    /// A dispatch queue, watched by probes.
    public static let queue = Kind(SourceKind.queue)
    /// The threads of Swift concurrency, watched by probes.
    public static let pool = Kind(SourceKind.pool)
    /// An executor of Swift concurrency, watched by probes.
    public static let executor = Kind(SourceKind.executor)
    /// An event loop of any library, watched by probes.
    public static let probedLoop = Kind(SourceKind.probedLoop)
    /// A phase of the process: its launch or shutdown.
    public static let phase = Kind(SourceKind.phase)
    /// A job that a Swift concurrency thread runs without suspension.
    public static let job = Kind(SourceKind.job)
    /// An activity. Only in a ``ProcessDump``.
    public static let activity = Kind(rawValue: "activity")
    /// A labelled task outside of other watched work. Only in a ``ProcessDump``.
    public static let task = Kind(rawValue: "task")

    /// The description of the kind.
    public var description: String {
      switch self {
      case .loop, .probedLoop: "event loop"
      case .runLoop: "run loop"
      case .section: "section"
      case .queue: "dispatch queue"
      case .pool: "thread pool"
      case .executor: "executor"
      case .phase: "phase"
      case .job: "job"
      case .activity: "activity"
      case .task: "task on"
      default: "source of the kind \(abridged(rawValue))"
      }
    }
  }
}

/// Data that accompanies a value but is not part of it. All instances compare as equal.
package struct Aside<Value: Sendable>: Hashable, Sendable {
  package var value: Value

  package init(value: Value) { self.value = value }

  package static func == (left: Aside, right: Aside) -> Bool { true }
  package func hash(into hasher: inout Hasher) {}
}
