import Culprit
import ServiceLifecycle

/// A watchdog as a service of a `ServiceGroup`.
///
///     let group = ServiceGroup(services: [WatchdogService(watchdog), server], logger: logger)
///
/// The service runs until graceful shutdown or cancellation. It then stops the watchdog, which takes up to two seconds
/// for pending reports. It never throws, so it never fails its group. A group shuts down in reverse order: as the first
/// service, the watchdog also watches the shutdown of other services.
public struct WatchdogService: Service {
  private let watchdog: Watchdog

  /// Creates a service that stops `watchdog` at its end.
  public init(_ watchdog: Watchdog) { self.watchdog = watchdog }

  /// Waits for graceful shutdown or cancellation, then stops the watchdog.
  public func run() async {
    // Cancellation throws, and ends the wait like graceful shutdown.
    try? await gracefulShutdown()
    await watchdog.stop()
  }
}
