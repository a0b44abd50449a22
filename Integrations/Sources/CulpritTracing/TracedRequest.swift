import Culprit
import Synchronization
import Tracing

extension Watchdog {
  /// Runs `body` as a request. Adds an event to the active span if the request exceeds `threshold`.
  ///
  ///     try await withSpan("GET /orders/{id}") { _ in
  ///       try await watchdog.withTracedRequest(threshold: .seconds(2)) { try await handle(request) }
  ///     }
  ///
  /// The event `culprit.stall` has the attributes of ``StallReport/metadata``: the function, file and line that used
  /// the time so far. If the request ends before its samples are analyzed, the event contains only the source. The
  /// stall is also reported.
  ///
  /// - Parameters:
  ///   - name: The name of the kind of request in reports.
  ///   - label: The request in reports; default (`nil`): the operation name of the span.
  ///   - threshold: The longest time the request can take, at least 10 ms.
  ///   - span: The span; default (`nil`): the span of the current service context. Some tracers cannot find the span
  ///     and need this argument.
  ///   - isolation: The actor that `body` runs on; default: the caller's.
  ///   - body: The work.
  /// - Returns: The result of `body`.
  /// - Throws: The error thrown by `body`.
  public func withTracedRequest<Result, Failure: Error>(
    name: String = "request",
    label: String? = nil,
    threshold: Duration,
    span: (any Span)? = nil,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result {
    let active = span ?? ServiceContext.current.flatMap { InstrumentationSystem.tracer.activeSpan(identifiedBy: $0) }
    let label = label ?? active?.operationName ?? ""
    guard let active else { return try await withRequest(name: name, label: label, threshold: threshold, body) }
    let event = StallSpanEvent(active)
    defer { event.finish() }
    return try await withRequest(
      name: name,
      label: label,
      threshold: threshold,
      onStall: { event.add($0) },
      body
    )
  }
}

/// The event of one request in its span, added at most once.
private final class StallSpanEvent: Sendable {
  private enum State {
    case inTime
    case late(StallEvent)
    case added
  }

  private let span: any Span
  private let state = Mutex(State.inTime)

  init(_ span: any Span) { self.span = span }

  /// Adds the event, with the report so far. Called by the watchdog.
  func add(_ stall: StallEvent) {
    state.withLock { $0 = .late(stall) }
    let report = stall.report()
    guard take() != nil else { return }
    span.addEvent(SpanEvent(stall, report))
  }

  /// Adds the event of a stall that is still being analyzed. Called before the span ends.
  func finish() { if let stall = take() { span.addEvent(SpanEvent(stall, nil)) } }

  /// Returns the stall if its event has not been added yet, and marks the event as added.
  private func take() -> StallEvent? {
    state.withLock { state in
      guard case .late(let stall) = state else { return nil }
      state = .added
      return stall
    }
  }
}

extension SpanEvent {
  fileprivate init(_ stall: StallEvent, _ report: StallReport?) {
    var attributes: SpanAttributes = [
      "culprit.source.kind": .string(stall.source.kind.rawValue), "culprit.source.name": .string(stall.source.name),
      "culprit.headline": .string(report?.headline ?? stall.description),
    ]
    for (key, value) in report?.metadata ?? [:] { attributes[key] = value }
    self.init(name: "culprit.stall", attributes: attributes)
  }
}
