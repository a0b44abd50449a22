// Async overloads of blocking methods. The blocking call runs on a dedicated thread, so no pool thread waits.

extension Watchdog {
  /// Ends the watch like the blocking overload, without blocking a thread of the pool.
  public func stop() async { await BlockingCall.run { self.stop() } }

  /// Ends the watch like the blocking overload and waits at most `patience`.
  ///
  /// - Parameter patience: The longest time to wait.
  /// - Returns: Whether everything has ended.
  @discardableResult
  public func stop(patience: Duration) async -> Bool {
    await BlockingCall.run { self.stop(patience: patience) }
  }

  /// Captures the stack of every thread of the process like the blocking overload.
  ///
  /// - Parameter timeout: The longest time to wait; default: 10 s.
  /// - Returns: The threads with their stacks, without the watchdog's own.
  /// - Throws: The errors of the blocking overload.
  public func captureThreads(timeout: Duration = .seconds(10)) async throws(WatchdogError) -> ThreadsReport {
    try await BlockingCall.run { () -> Result<ThreadsReport, WatchdogError> in
      do throws(WatchdogError) { return .success(try self.captureThreads(timeout: timeout)) } catch {
        return .failure(error)
      }
    }
    .get()
  }
}
