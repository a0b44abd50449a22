import CulpritStallRecord

/// An error of the watchdog.
///
///     do { loop = try watchdog.watchLoop(named: "accept") } catch where error.code == .alreadyWatched { … }
public struct WatchdogError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The kind of error. Newer versions might add values.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The code as a string.
    public var rawValue: String
    /// Accepts unknown codes.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A value in the configuration is invalid. ``WatchdogError/name`` is the setting or the source.
    public static let invalidConfiguration = Code(rawValue: "invalidConfiguration")
    /// The setting ``WatchdogError/name`` cannot be changed while a watchdog runs.
    public static let fixedWhileRunning = Code(rawValue: "fixedWhileRunning")
    /// The environment disables the watchdog (`CULPRIT_ENABLED=no`).
    public static let disabled = Code(rawValue: "disabled")
    /// The watchdog has been stopped.
    public static let stopped = Code(rawValue: "stopped")
    /// The watchdog was started in the parent of this process (fork(2)), whose process id is ``WatchdogError/limit``.
    public static let notInThisProcess = Code(rawValue: "notInThisProcess")
    /// A source with the name ``WatchdogError/name`` is already watched.
    public static let alreadyWatched = Code(rawValue: "alreadyWatched")
    /// The limit of watched sources, ``WatchdogError/limit``, has been reached.
    public static let tooManySources = Code(rawValue: "tooManySources")
    /// The limit of activities in progress, ``WatchdogError/limit``, has been reached.
    public static let tooManyActivities = Code(rawValue: "tooManyActivities")
    /// The process has no run loops, because it does not link Foundation.
    public static let noRunLoops = Code(rawValue: "noRunLoops")
    /// The call did not finish in time.
    public static let timedOut = Code(rawValue: "timedOut")
    /// The process or the machine lacks a requirement: threads, memory, a library, a supported CPU.
    public static let unsupported = Code(rawValue: "unsupported")

    /// The code as a string.
    public var description: String { rawValue }
  }

  /// The kind of error.
  public let code: Code
  /// The error as one sentence on one line. Names and paths are escaped as in reports.
  public let message: String
  /// The related setting or source, if any.
  public let name: String?
  /// The related number, if any.
  public let limit: Int?

  /// The error as a sentence.
  public var description: String { message }

  init(_ code: Code, _ message: String, name: String? = nil, limit: Int? = nil) {
    self.code = code
    self.message = printable(message)
    self.name = name
    self.limit = limit
  }

  static func invalidConfiguration(_ sentence: String, setting: String) -> WatchdogError {
    WatchdogError(.invalidConfiguration, sentence, name: setting)
  }

  static func fixedWhileRunning(_ setting: String) -> WatchdogError {
    WatchdogError(.fixedWhileRunning, "\(setting) cannot be changed while the watchdog runs", name: setting)
  }

  static var changedWithin: WatchdogError {
    WatchdogError(.invalidConfiguration, "the configuration cannot be changed from within a change")
  }

  static var disabled: WatchdogError {
    WatchdogError(.disabled, "the watchdog was not started, because CULPRIT_ENABLED is no")
  }

  static var stopped: WatchdogError { WatchdogError(.stopped, "the watchdog has been stopped") }

  static func notInThisProcess(watched: Int32) -> WatchdogError {
    WatchdogError(
      .notInThisProcess,
      "the watchdog belongs to the parent, process \(watched)",
      limit: Int(watched)
    )
  }

  static func alreadyWatched(_ name: String) -> WatchdogError {
    WatchdogError(.alreadyWatched, "\(quoted(name)) is watched already", name: name)
  }

  static func tooManySources(limit: Int) -> WatchdogError {
    WatchdogError(.tooManySources, "\(limit) sources are watched already, the maximum", limit: limit)
  }

  static func tooManyActivities(limit: Int) -> WatchdogError {
    WatchdogError(
      .tooManyActivities,
      "\(limit) activities are under way already, the maximum; an activity counts until its end",
      limit: limit
    )
  }

  static var noRunLoops: WatchdogError {
    WatchdogError(.noRunLoops, "this process has no run loops: it does not link Foundation")
  }

  static func timedOut(after timeout: Duration) -> WatchdogError {
    WatchdogError(.timedOut, "the threads were not captured within \(timeout.text)")
  }

  static var stillStopping: WatchdogError {
    WatchdogError(.timedOut, "the previous watchdog of this process did not stop within 10 s")
  }

  static func unsupported(_ why: String) -> WatchdogError {
    WatchdogError(.unsupported, "stacks cannot be captured here: \(why)")
  }
}

/// Limit of texts from outside, in characters.
let sentencePartMax = 200

/// Escapes and truncates `text` from outside.
func quoted(_ text: String) -> String { "\"\(printable(text, limit: sentencePartMax))\"" }
