import CulpritReports

extension Watchdog {
  /// An asynchronous sequence of the stall reports made from now on.
  ///
  ///     for await report in watchdog.stalls { logger.error("\(report.headline)") }
  ///
  /// Each iteration receives every report. Up to 64 pending reports are buffered; the oldest are dropped first. The
  /// sequence ends when the watchdog stops. While a task iterates, reports are not printed to standard error.
  public var stalls: Stalls { Stalls(watchdog: self) }

  /// An asynchronous sequence of stall reports.
  public struct Stalls: AsyncSequence, Sendable {
    let watchdog: Watchdog

    /// One iteration over the reports.
    public struct AsyncIterator: AsyncIteratorProtocol {
      private var reports: AsyncStream<StallReport>.Iterator

      init(_ reports: AsyncStream<StallReport>) { self.reports = reports.makeAsyncIterator() }

      /// The next report; `nil` when the watchdog has stopped or the task is cancelled.
      public mutating func next() async -> StallReport? { await reports.next() }

      /// Returns the next report, isolated to `actor`; `nil` when the watchdog has stopped or the task is cancelled.
      @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
      public mutating func next(isolation actor: isolated (any Actor)?) async -> StallReport? {
        await reports.next(isolation: actor)
      }
    }

    /// Starts to buffer reports for a new iterator.
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

/// Finishes a stream when the handler that feeds it is released.
private final class StreamEnd: Sendable {
  let continuation: AsyncStream<StallReport>.Continuation

  init(_ continuation: AsyncStream<StallReport>.Continuation) { self.continuation = continuation }

  deinit { continuation.finish() }
}
