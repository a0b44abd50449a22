// The interface of `Culprit` without effect, for unsupported platforms. `tools/prove consumer` compares it with the
// interface on Linux, which documents the effects.

import CulpritReports

#if os(Linux) && canImport(Glibc) && !BUILT_FOR_ELSEWHERE
  #error("Culprit would watch nothing here: build with BUILD_CULPRIT_FOR=linux in the environment")
#endif

/// A watchdog without effect: this platform is not supported. Culprit watches on Linux with glibc.
///
/// Every method can be called. Work runs, no handler is called, and ``status`` has the limitation
/// ``Limitation/Code/platform``.
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

  /// Checks the default configuration with the given values, and starts nothing.
  ///
  /// - Parameters:
  ///   - threshold: The age at which a work item is a stall, on Linux.
  ///   - directory: The directory for stalls, on Linux.
  /// - Throws: As ``init(_:)``.
  public convenience init(threshold: Duration = .seconds(4), directory: String? = nil) throws(WatchdogError) {
    try self.init(Configuration(threshold: threshold, directory: directory))
  }

  private init(valid: Configuration) { self.valid = valid }

  /// Does nothing.
  public func stop() {}

  /// Does nothing.
  ///
  /// - Parameter patience: Ignored.
  /// - Returns: `true`, because nothing runs.
  @discardableResult
  public func stop(patience: Duration) -> Bool { true }

  /// Does nothing.
  public func pause() {}

  /// Does nothing.
  public func resume() {}

  /// Checks the change without applying it. Changes that are valid only together must be made in one call, because each
  /// call starts from the original configuration.
  ///
  /// - Parameter change: Changes a copy of the configuration.
  /// - Throws: ``WatchdogError/Code/fixedWhileRunning``, ``WatchdogError/Code/invalidConfiguration``, as on Linux.
  public func reconfigure(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    _ = try configuration.changed(change)
  }

  /// Captures nothing.
  ///
  /// - Parameter timeout: Ignored.
  /// - Returns: Never returns a value.
  /// - Throws: ``WatchdogError/Code/unsupported``, always.
  public func captureThreads(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ThreadsReport {
    throw .unsupported("Culprit watches on Linux with glibc only")
  }

  /// Captures nothing.
  ///
  /// - Parameter timeout: Ignored.
  /// - Returns: Never returns a value.
  /// - Throws: ``WatchdogError/Code/unsupported``, always.
  public func dump(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ProcessDump {
    throw .unsupported("Culprit watches on Linux with glibc only")
  }

  /// The status of a disabled watchdog, with the limitation ``Limitation/Code/platform``.
  public var status: Status {
    var status = Status(.disabled, problems: [])
    status.limitations = [
      Limitation(.platform, "nothing is watched: Culprit supports only Linux with glibc")
    ]
    return status
  }

  /// Empty metrics.
  public var metrics: Metrics { Metrics(.disabled) }

  /// Does nothing.
  public func launched() {}

  /// Does nothing.
  public func shuttingDown() {}

  /// Does nothing.
  ///
  /// - Parameter status: Ignored.
  public func tellSystemd(status: String) {}
}

extension Watchdog.Configuration {
  /// `nil`, because nothing is saved on this platform.
  public static var standardDirectory: String? { nil }
}

/// Runs calls on the calling thread: none of them blocks on this platform.
enum BlockingCall {
  static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value { body() }
}
