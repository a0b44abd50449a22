// `tools/prove consumer` compares this interface with the one on Linux.

import CulpritReports

#if os(Linux) && canImport(Glibc) && !BUILT_FOR_ELSEWHERE
  #error("Culprit would watch nothing here: build with BUILD_CULPRIT_FOR=linux in the environment")
#endif

/// A watchdog that watches nothing, because Culprit supports only Linux with glibc. Work runs, and no handler is
/// called. ``status`` shows a disabled watchdog, with ``Limitation/Code/platform``.
public final class Watchdog: Sendable {
  /// The configuration in the code.
  public var configuration: Configuration { valid }

  private let valid: Configuration

  /// Checks `configuration`.
  public convenience init(_ configuration: Configuration) throws(WatchdogError) {
    try configuration.validate()
    self.init(valid: configuration)
  }

  private init(valid: Configuration) { self.valid = valid }

  /// Does nothing.
  public func stop() {}

  /// Returns `true`: nothing runs.
  @discardableResult
  public func stop(patience: Duration) -> Bool { true }

  /// Does nothing.
  public func pause() {}

  /// Does nothing.
  public func resume() {}

  /// Checks the change to the configuration in the code.
  public func reconfigure(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    _ = try configuration.changed(change)
  }

  /// Throws ``WatchdogError/Code/unsupported``.
  public func captureThreads(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ThreadsReport {
    throw .unsupported("Culprit watches on Linux with glibc only")
  }

  /// Throws ``WatchdogError/Code/unsupported``.
  public func dump(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ProcessDump {
    throw .unsupported("Culprit watches on Linux with glibc only")
  }

  /// The status, with ``Limitation/Code/platform``.
  public var status: Status {
    var status = Status(.disabled, problems: [])
    status.limitations = [Limitation(.platform, "nothing is watched: Culprit supports only Linux with glibc")]
    return status
  }

  /// The metrics of a disabled watchdog.
  public var metrics: Metrics { Metrics(.disabled) }

  /// Does nothing.
  public func launched() {}

  /// Does nothing.
  public func shuttingDown() {}

  /// Does nothing.
  public func notifySystemd(status: String) {}
}

extension Watchdog.Configuration {
  /// `nil`: nothing is saved.
  public static var standardDirectory: String? { nil }
}

/// Nothing blocks on this platform.
enum BlockingCall {
  static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value { body() }
}
