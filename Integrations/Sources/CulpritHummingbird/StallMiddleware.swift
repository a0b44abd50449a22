import Culprit
import Hummingbird

/// Watches each request of a Hummingbird router.
///
///     router.add(middleware: StallMiddleware(watchdog, threshold: .seconds(2), routes: ["/reports/{id}": .seconds(30)]))
///
/// Reports a request that exceeds its threshold, with the function that used the time. The label is the method and the
/// path. The request ends when the handler returns its response, before the body is written.
public struct StallMiddleware<Context: RequestContext>: RouterMiddleware {
  private let watchdog: Watchdog
  private let threshold: Duration
  private let routes: [String: Duration]

  /// Creates a middleware. Add it first, so requests include all other middleware.
  ///
  /// - Parameters:
  ///   - watchdog: The watchdog.
  ///   - threshold: The longest time a request can take; default: 2 s.
  ///   - routes: Different thresholds for routes, by the path of the route: `/orders/{id}`.
  public init(_ watchdog: Watchdog, threshold: Duration = .seconds(2), routes: [String: Duration] = [:]) {
    self.watchdog = watchdog
    self.threshold = threshold
    self.routes = routes
  }

  /// Handles the request within a watched section.
  public func handle(
    _ request: Request,
    context: Context,
    next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    try await watchdog.withRequest(
      label: "\(request.method.rawValue) \(request.uri.path)",
      threshold: context.endpointPath.flatMap { routes[$0] } ?? threshold
    ) { try await next(request, context) }
  }
}
