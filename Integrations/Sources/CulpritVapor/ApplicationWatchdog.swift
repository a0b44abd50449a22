import Culprit
import CulpritLogging
import CulpritNIO
import Vapor

extension Application {
  /// The stall profiler of the application.
  ///
  ///     try app.culprit.use(directory: "/var/lib/shop/stalls")
  public var culprit: StallProfiler { StallProfiler(application: self) }

  /// The stall profiler of an application.
  public struct StallProfiler {
    private struct Key: StorageKey { typealias Value = Watchdog }

    let application: Application

    /// The watchdog; `nil` before `use`.
    public var watchdog: Watchdog? { application.storage[Key.self] }

    /// Starts a watchdog with the default configuration, except for the directory, and watches the application.
    ///
    /// - Parameters:
    ///   - directory: The directory for saved stalls; default (`nil`): nothing is saved.
    ///   - requests: The longest time a request can take; default: 2 s.
    ///   - routes: Different thresholds for routes, by the path of the route: `/orders/:id`.
    ///   - loops: The longest time an event loop can be stuck; default: 200 ms.
    /// - Returns: The watchdog.
    /// - Throws: The errors of `Watchdog(_:)`.
    @discardableResult
    public func use(
      directory: String? = nil,
      requests: Duration = .seconds(2),
      routes: [String: Duration] = [:],
      loops: Duration = .milliseconds(200)
    ) throws -> Watchdog {
      try use(Watchdog.Configuration(directory: directory), requests: requests, routes: routes, loops: loops)
    }

    /// Starts a watchdog and watches the application: its event loops, the threads of Swift concurrency, and each
    /// request. Reports go to the application's logger. The watchdog stops when the application shuts down.
    ///
    /// Call this once, before adding other middleware, because requests include only middleware that is added later.
    ///
    /// - Parameters:
    ///   - configuration: The configuration. Its threshold is the longest time a task can wait for a thread.
    ///   - requests: The longest time a request can take; default: 2 s.
    ///   - routes: Different thresholds for routes, by the path of the route: `/orders/:id`.
    ///   - loops: The longest time an event loop can be stuck; default: 200 ms.
    /// - Returns: The watchdog.
    /// - Throws: The errors of `Watchdog(_:)`.
    @discardableResult
    public func use(
      _ configuration: Watchdog.Configuration,
      requests: Duration = .seconds(2),
      routes: [String: Duration] = [:],
      loops: Duration = .milliseconds(200)
    ) throws -> Watchdog {
      let watchdog = try Watchdog(configuration, logger: application.logger)
      try watchdog.watchConcurrency()
      try watchdog.watch(application.eventLoopGroup, threshold: loops)
      application.storage[Key.self] = watchdog
      application.lifecycle.use(WatchdogEnd(watchdog: watchdog))
      application.middleware.use(
        StallMiddleware(watchdog: watchdog, threshold: requests, routes: routes),
        at: .beginning
      )
      return watchdog
    }
  }
}

/// Stops the watchdog when the application shuts down.
private struct WatchdogEnd: LifecycleHandler {
  let watchdog: Watchdog

  func shutdown(_ application: Application) { watchdog.stop() }

  func shutdownAsync(_ application: Application) async { await watchdog.stop() }
}

/// Runs each request within a watched section.
private struct StallMiddleware: AsyncMiddleware {
  let watchdog: Watchdog
  let threshold: Duration
  let routes: [String: Duration]

  func respond(to request: Request, chainingTo next: any AsyncResponder) async throws -> Response {
    try await watchdog.withRequest(
      label: "\(request.method.rawValue) \(request.url.path)",
      threshold: request.route.flatMap { routes["/\($0.path.string)"] } ?? threshold
    ) { try await next.respond(to: request) }
  }
}
