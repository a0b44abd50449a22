// Async overloads, which run blocking methods on a dedicated thread.

extension Watchdog {
  /// Ends the watch like the blocking overload.
  public func stop() async { await BlockingCall.run { self.stop() } }

  /// Ends the watch like the blocking overload, and returns whether everything has ended.
  @discardableResult
  public func stop(patience: Duration) async -> Bool {
    await BlockingCall.run { self.stop(patience: patience) }
  }

  /// Captures the stack of every thread like the blocking overload.
  public func captureThreads(timeout: Duration = .seconds(10)) async throws(WatchdogError) -> ThreadsReport {
    try await BlockingCall.run { () -> Result<ThreadsReport, WatchdogError> in
      do throws(WatchdogError) { return .success(try self.captureThreads(timeout: timeout)) } catch {
        return .failure(error)
      }
    }
    .get()
  }
}
