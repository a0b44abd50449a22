// `Culprit` where nothing is watched. `tools/prove consumer` compares its interface with the one on Linux, whose pages say what
// everything does there.

import CulpritReports

#if os(Linux) && canImport(Glibc) && !BUILT_FOR_ELSEWHERE
  #error("Culprit would watch nothing here: build with BUILD_CULPRIT_FOR=linux in the environment")
#endif

/// A watchdog that watches nothing: Culprit watches on Linux with glibc.
///
/// Every method can be called. Work runs, no handler is called, and ``status`` says so
/// (``Limitation/Code/platform``).
public final class Watchdog: Sendable {
  /// The configuration in the code.
  public var configuration: Configuration { valid }

  private let valid: Configuration

  /// Checks `configuration`, and starts nothing.
  ///
  /// - Throws: ``WatchdogError/Code/invalidConfiguration``, as on Linux.
  public convenience init(_ configuration: Configuration) throws(WatchdogError) {
    try configuration.validate()
    self.init(valid: configuration)
  }

  /// Checks the default configuration, but for the given values, and starts nothing.
  ///
  /// - Parameters:
  ///   - threshold: The age at which a work item is a stall, on Linux.
  ///   - directory: The directory that stalls are saved in, on Linux.
  /// - Throws: As ``init(_:)``.
  public convenience init(threshold: Duration = .seconds(4), directory: String? = nil) throws(WatchdogError) {
    try self.init(Configuration(threshold: threshold, directory: directory))
  }

  private init(valid: Configuration) { self.valid = valid }

  /// Does nothing.
  public func stop() {}

  /// Does nothing.
  ///
  /// - Parameter patience: Not waited for.
  /// - Returns: `true`: nothing runs.
  @discardableResult
  public func stop(patience: Duration) -> Bool { true }

  /// Does nothing.
  public func pause() {}

  /// Does nothing.
  public func resume() {}

  /// Checks the change, and makes none: nothing runs that has a configuration. Each change is checked against the
  /// configuration in the code, so that one that needs an earlier change is refused: make both in one.
  ///
  /// - Parameter change: Changes a copy of the configuration.
  /// - Throws: ``WatchdogError/Code/fixedWhileRunning``, ``WatchdogError/Code/invalidConfiguration``, as on Linux.
  public func reconfigure(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    _ = try configuration.changed(change)
  }

  /// Captures nothing.
  ///
  /// - Parameter timeout: Not waited for.
  /// - Returns: Nothing, ever.
  /// - Throws: ``WatchdogError/Code/unsupported``, always.
  public func captureThreads(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ThreadsReport {
    throw .unsupported("Culprit watches on Linux with glibc only")
  }

  /// Captures nothing.
  ///
  /// - Parameter timeout: Not waited for.
  /// - Returns: Nothing, ever.
  /// - Throws: ``WatchdogError/Code/unsupported``, always.
  public func dump(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ProcessDump {
    throw .unsupported("Culprit watches on Linux with glibc only")
  }

  /// That of a watchdog of which nothing runs, with ``Limitation/Code/platform``.
  public var status: Status {
    var status = Status(.disabled, problems: [])
    status.limitations = [
      Limitation(.platform, "nothing is watched: Culprit supports only Linux with glibc")
    ]
    return status
  }

  /// None: nothing is counted.
  public var metrics: Metrics { Metrics(.disabled) }

  /// Does nothing.
  public func launched() {}

  /// Does nothing.
  public func shuttingDown() {}

  /// Does nothing.
  ///
  /// - Parameter status: Not sent.
  public func tellSystemd(status: String) {}
}

extension Watchdog.Configuration {
  /// `nil`: nothing is saved here.
  public static var standardDirectory: String? { nil }
}

/// Runs what blocks nothing.
enum BlockingCall {
  static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value { body() }
}
