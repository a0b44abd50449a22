import CulpritReports
import Synchronization

extension Watchdog {
  /// A handler that has been added, for taking it away again. Letting go of it leaves the handler where it is.
  public final class Registration: Sendable {
    private let removal: Mutex<(@Sendable () -> Void)?>
    private let finish: @Sendable (UInt64) -> Bool

    /// One that `removal` takes away; one of nothing when it is `nil`.
    ///
    /// - Parameters:
    ///   - removal: Takes it away.
    ///   - finish: Waits until the last call has returned, until a time on the observer's clock; returns whether it has.
    init(_ removal: (@Sendable () -> Void)?, finish: @escaping @Sendable (UInt64) -> Bool = { _ in true }) {
      self.removal = Mutex(removal)
      self.finish = finish
    }

    /// Takes the handler away, and waits until it has returned, until `deadline` at most. Returns whether it has.
    func end(until deadline: UInt64) -> Bool {
      remove()
      return finish(deadline)
    }

    /// Whether it has been taken away.
    var isRemoved: Bool { removal.withLock { $0 == nil } }

    /// Takes the handler away: it is not called for anything new. A call that is under way goes on. Does nothing the second
    /// time.
    public func remove() {
      let removal = removal.withLock { removal in
        defer { removal = nil }
        return removal
      }
      removal?()
    }
  }

  /// Calls `handler` with a report after every stall.
  ///
  /// Each handler is called on a thread of its own, with one report at a time: one that blocks holds up nobody else. Reports
  /// that come while 64 wait for it are dropped, and ``Status/reportsDropped`` counts them. While there is no handler, reports
  /// go to standard error.
  @discardableResult
  public func onStall(_ handler: @escaping @Sendable (StallReport) -> Void) -> Registration {
    register(core?.reporter.ended, handler)
  }

  /// Calls `handler` when a stall begins: when a work item has passed its threshold and goes on. On a thread of its own, as
  /// for ``onStall(_:)``.
  @discardableResult
  public func onStallBegan(_ handler: @escaping @Sendable (StallEvent) -> Void) -> Registration {
    register(core?.reporter.begun, handler)
  }

  /// Calls `handler` when a stall becomes a hang (``Configuration/Sampling/hangThreshold``). On a thread of its own, as for
  /// ``onStall(_:)``.
  @discardableResult
  public func onHang(_ handler: @escaping @Sendable (StallEvent) -> Void) -> Registration {
    register(core?.reporter.hung, handler)
  }

  func register<Subject>(
    _ handlers: Handlers<Subject>?,
    _ handler: @escaping @Sendable (Subject) -> Void
  ) -> Registration {
    guard let handlers, !isStopped else { return Registration(nil) }
    let added = handlers.add(handler)
    return keep(Registration({ [weak handlers] in handlers?.remove(added) }, finish: { added.join(until: $0) }))
  }

  /// The reports of stalls from now on, for tasks.
  ///
  ///     for await report in watchdog.stalls { logger.error("\(report.headline)") }
  ///
  /// Each iteration gets every report; of those that it has not taken the latest 64 are kept. It ends when the watchdog
  /// stops. Reports do not go to standard error while somebody iterates.
  public var stalls: Stalls { Stalls(watchdog: self) }

  /// The reports of stalls as they come.
  public struct Stalls: AsyncSequence, Sendable {
    let watchdog: Watchdog

    /// What one task takes of them.
    public struct AsyncIterator: AsyncIteratorProtocol {
      private var reports: AsyncStream<StallReport>.Iterator

      init(_ reports: AsyncStream<StallReport>) { self.reports = reports.makeAsyncIterator() }

      /// The next report; `nil` when the watchdog has stopped or the task is cancelled.
      public mutating func next() async -> StallReport? { await reports.next() }
    }

    /// Begins to take reports.
    public func makeAsyncIterator() -> AsyncIterator {
      let (stream, continuation) = AsyncStream.makeStream(of: StallReport.self, bufferingPolicy: .bufferingNewest(64))
      let end = StreamEnd(continuation)
      let registration = watchdog.onStall { end.continuation.yield($0) }
      continuation.onTermination = { _ in registration.remove() }
      if registration.isRemoved { continuation.finish() }
      return AsyncIterator(stream)
    }
  }
}

/// Ends a stream when the handler that feeds it is forgotten.
private final class StreamEnd: Sendable {
  let continuation: AsyncStream<StallReport>.Continuation

  init(_ continuation: AsyncStream<StallReport>.Continuation) { self.continuation = continuation }

  deinit { continuation.finish() }
}
