import CulpritStallRecord

/// One of several values, encoded as a string in JSON. A newer version may have more values.
public protocol ReportCode: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible
where RawValue == String {}

extension ReportCode {
  /// The word as it is in JSON.
  public var description: String { rawValue }
}

/// A duration as JSON has it: a number of seconds. Whole nanoseconds, so that it survives being encoded.
package struct Seconds: Hashable, Sendable, Codable, Comparable {
  package var duration: Duration

  package init(_ duration: Duration) { self.duration = .nanoseconds(Int64(clamping: duration.wholeNanoseconds)) }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    let seconds = try container.decode(Double.self)
    guard seconds >= 0, seconds < 1e10 else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(seconds) is no number of seconds")
    }
    // No duration is longer than 64 bits of nanoseconds.
    duration = .nanoseconds(Int64((min(seconds, 9_223_372_036) * 1e9).rounded()))
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(Double(duration.wholeNanoseconds) / 1e9)
  }

  package static func < (left: Seconds, right: Seconds) -> Bool { left.duration < right.duration }
}

extension StallReport {
  /// A moment, in UTC. In JSON as RFC 3339 has it, with nanoseconds.
  public struct Timestamp: Hashable, Sendable, Codable, Comparable, CustomStringConvertible {
    /// Nanoseconds since 1970-01-01T00:00:00Z, leap seconds left out as usual.
    public var nanosecondsSince1970: UInt64

    /// The moment `nanosecondsSince1970` after the beginning of 1970.
    public init(nanosecondsSince1970: UInt64) { self.nanosecondsSince1970 = nanosecondsSince1970 }

    /// Decodes a moment as RFC 3339 has it.
    public init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      let text = try container.decode(String.self)
      guard let time = WallTime(text: text) else {
        let expected = "expected a time such as 2026-11-20T10:23:51.204000000Z, found \"\(printable(text, limit: 60))\""
        throw DecodingError.dataCorruptedError(in: container, debugDescription: expected)
      }
      nanosecondsSince1970 = time.nanosecondsSince1970
    }

    /// Encodes the moment as RFC 3339 has it, with nanoseconds.
    public func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      try container.encode(WallTime(nanosecondsSince1970: nanosecondsSince1970).text(decimals: 9))
    }

    /// Whether `left` is before `right`.
    public static func < (left: Timestamp, right: Timestamp) -> Bool {
      left.nanosecondsSince1970 < right.nanosecondsSince1970
    }

    /// The time to the millisecond, `2026-11-20T10:23:51.204Z`.
    public var description: String { WallTime(nanosecondsSince1970: nanosecondsSince1970).description }
  }

  /// A function on a stack.
  public struct Function: Hashable, Sendable, Codable {
    /// The name: short and readable, at most 100 characters, and the same in every report.
    public var name: String
    /// The name to print: unique in the report, as far as anything that is known tells functions apart. A closure has its number, and
    /// a namesake its module, its file or its types, only beside another one. Functions of a library that have no name share one.
    public var displayName: String
    /// The name with everything that the demangler prints; `nil` when there is none.
    public var fullName: String?
    /// The name in the symbol table; `nil` when it has none.
    public var symbol: String?
    /// The path of the module, empty when the address is in none.
    public var module: String
    /// The package of the function, where it is a dependency; `nil` otherwise.
    public var package: String?
    /// The place in the source; `nil` if unknown.
    public var location: Location?
    /// Whether it is own code of the application.
    public var isOwn: Bool
    /// Whether the compiler inlined it into its caller, the next function of the stack.
    public var isInlined: Bool
    /// Whether it is an async function that is not on the thread's stack: it goes on at this place when what it awaits is done.
    public var isAwaiting: Bool {
      get { awaits ?? false }
      set { awaits = newValue ? true : nil }
    }
    /// Left out where it does not: earlier versions have no such key.
    package var awaits: Bool?
    /// The address.
    public var address: Address
    /// Why there is no name; `nil` when there is one.
    public var noName: String?

    enum CodingKeys: String, CodingKey {
      case name, displayName, fullName, symbol, module, package, location, isOwn, isInlined
      case awaits = "isAwaiting"
      case address, noName
    }

    /// The last component of ``module``.
    public var moduleName: String {
      guard let slash = module.utf8.lastIndex(of: UInt8(ascii: "/")) else { return module }
      return String(module[module.index(after: slash)...])
    }

    /// Whether `name` is an address in the function's module, so that it says where the function is: "libc.so.6+0x10d030".
    package func isAddress(_ name: String) -> Bool { name.hasPrefix("\(printable(moduleName))+0x") }
  }

  /// A place in source code.
  public struct Location: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The file's path as the compiler recorded it.
    public var file: String
    /// The line, from 1.
    public var line: Int
    /// The column, from 1; 0 when it is not known.
    public var column: Int

    /// The last component of ``file``.
    public var fileName: String { file.split(separator: "/").last.map(String.init) ?? file }
    /// The place as compilers print it, without the column.
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
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// An address in the module's file.
      public static let file = Kind(rawValue: "file")
      /// An address in the running process, outside of all modules.
      public static let runtime = Kind(rawValue: "runtime")
    }
  }

  /// A stack.
  public struct Stack: Hashable, Sendable, Codable {
    /// The functions, the innermost first.
    public var functions: [Function]
    /// Why callers are missing at its end; `nil` when it is complete.
    public var missingCallers: Reason?
  }

  /// A stack and the age of the work when it was taken.
  public struct TimedStack: Hashable, Sendable, Codable {
    package var ageSeconds: Seconds
    /// The functions, the innermost first; none when there is no stack.
    public var functions: [Function]

    /// The age of the work.
    public var age: Duration { ageSeconds.duration }
  }

  /// Why something is missing: a code for programs and a sentence for people.
  public struct Reason: Hashable, Sendable, Codable, CustomStringConvertible {
    /// A code for programs, such as `noAnswer`.
    public var code: String
    /// The reason in words.
    public var text: String

    /// The reason in words.
    public var description: String { text }
  }

  /// How a thread spent its time: on a processor, ready without one, and the rest waiting for something else.
  public struct ProcessorUse: Hashable, Sendable, Codable {
    /// The part of the time on a processor, from 0 to 1.
    public var share: Double
    /// The part in which it was ready to run without a processor; `nil` where the kernel does not tell.
    public var delay: Double?
  }

  /// How often a thread was found waiting for something other than a processor.
  public struct Waiting: Hashable, Sendable, Codable {
    /// How many samples found it waiting.
    public var samples: Int
    /// How many samples tell either way.
    public var of: Int
    /// The system call in which most of them found it; `nil` if none.
    public var systemCall: String?
    /// What that system call was on, as the kernel tells it: "/srv/journal.db", "a socket to 10.0.0.3:5432"; `nil` if nothing, or
    /// where it is not known.
    public var target: String?
    /// How many of them found that no thread ran the task, which was at an `await`.
    public var suspended: Int {
      get { suspendedSamples ?? 0 }
      set { suspendedSamples = newValue == 0 ? nil : newValue }
    }
    /// Left out where there are none: earlier versions have no such key.
    package var suspendedSamples: Int?

    enum CodingKeys: String, CodingKey {
      case samples, of, systemCall, target
      case suspendedSamples = "suspended"
    }
  }

  /// What a task did of a stall in which no thread ran it; the rest it was run.
  public struct TaskTimes: Hashable, Sendable, Codable {
    package var suspendedSeconds: Seconds
    package var readySeconds: Seconds

    /// It was at an `await`.
    public var suspended: Duration { suspendedSeconds.duration }
    /// It was ready, and waited for a thread: the stacks of that time are those of what ran meanwhile.
    public var ready: Duration { readySeconds.duration }
  }

  /// What a thread was doing when it was sampled.
  public struct Activity: Hashable, Sendable, Codable {
    /// What it was doing.
    public var kind: Kind
    /// The system call in which it was blocked; `nil` if none, or if it is not known.
    public var systemCall: String?

    /// Kinds of activity. A newer version may have more.
    public struct Kind: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// On a processor, or waiting for one.
      public static let computing = Kind(rawValue: "computing")
      /// Blocked in a system call.
      public static let inSystemCall = Kind(rawValue: "inSystemCall")
      /// Blocked in a system call that the kernel restarted after the process had been stopped.
      public static let inRestartedCall = Kind(rawValue: "inRestartedCall")
      /// Blocked outside a system call: in a page fault, for one.
      public static let blocked = Kind(rawValue: "blocked")
      /// No thread: the task was at an `await`.
      public static let suspended = Kind(rawValue: "suspended")
      /// No thread: the task was ready to run.
      public static let enqueued = Kind(rawValue: "enqueued")
      /// Not known: the kernel did not tell.
      public static let unknown = Kind(rawValue: "unknown")
    }
  }
}

extension StallReport.Source {
  /// Kinds of sources. A newer version may have more.
  public struct Kind: ReportCode {
    /// The value as a string, as in JSON.
    public var rawValue: String
    /// The value with this string, known or not.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The turns of an event loop.
    public static let loop = Kind(SourceKind.loop)
    /// The iterations of a run loop.
    public static let runLoop = Kind(SourceKind.runLoop)
    /// A critical section.
    public static let section = Kind(SourceKind.section)
    /// A dispatch queue, by probes.
    public static let queue = Kind(SourceKind.queue)
    /// The threads of Swift concurrency, by probes.
    public static let pool = Kind(SourceKind.pool)
    /// An executor of Swift concurrency, by probes.
    public static let executor = Kind(SourceKind.executor)
    /// An event loop of any library, by probes.
    public static let probedLoop = Kind(SourceKind.pinged)
    /// A phase of the process: its launch, or its shutdown.
    public static let phase = Kind(SourceKind.phase)
    /// What one of Swift concurrency's threads runs without a pause.
    public static let job = Kind(SourceKind.job)

    /// The kind in words.
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
      default: "source of the kind \(abridged(rawValue))"
      }
    }
  }
}

extension StallReport {
  /// What a report was made from. All are equal: it is no part of a report's value.
  package struct Origin: Hashable, Sendable {
    /// Recording, stall and blame; `nil` after decoding.
    package var made: Made?

    package static func == (left: Origin, right: Origin) -> Bool { true }
    package func hash(into hasher: inout Hasher) {}
  }

  /// The length of a line. All are equal.
  package struct Width: Hashable, Sendable {
    package var characters = 100

    package static func == (left: Width, right: Width) -> Bool { true }
    package func hash(into hasher: inout Hasher) {}
  }
}
