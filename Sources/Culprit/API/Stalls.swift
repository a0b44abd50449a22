import CulpritReports

extension Watchdog {
  /// The reports of stalls from now on, for tasks.
  ///
  ///     for await report in watchdog.stalls { logger.error("\(report.headline)") }
  ///
  /// Each iteration gets every report; of those that it has not taken the latest 64 are kept. It ends when the watchdog
  /// stops. While a task iterates, reports do not go to standard error.
  public var stalls: Stalls { Stalls(watchdog: self) }

  /// The reports of stalls, as they are made.
  public struct Stalls: AsyncSequence, Sendable {
    let watchdog: Watchdog

    /// One iteration over the reports.
    public struct AsyncIterator: AsyncIteratorProtocol {
      private var reports: AsyncStream<StallReport>.Iterator

      init(_ reports: AsyncStream<StallReport>) { self.reports = reports.makeAsyncIterator() }

      /// The next report; `nil` when the watchdog has stopped or the task is cancelled.
      public mutating func next() async -> StallReport? { await reports.next() }

      /// The same, called by an actor.
      ///
      /// - Parameter actor: The actor that iterates.
      /// - Returns: As ``next()``.
      @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
      public mutating func next(isolation actor: isolated (any Actor)?) async -> StallReport? {
        await reports.next(isolation: actor)
      }
    }

    /// Begins an iteration: reports are kept for it from now on.
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
