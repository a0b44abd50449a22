// Async forms of methods that wait: they wait on a thread of their own, and the task's thread goes on with other work.

extension Watchdog {
  /// Ends the watch, as the form that blocks its thread does, without blocking a thread of the pool.
  public func stop() async { await BlockingCall.run { self.stop() } }

  /// Ends the watch, and waits for no longer than `patience`, as the form that blocks its thread does.
  ///
  /// - Parameter patience: How long to wait at most.
  /// - Returns: Whether everything has ended.
  @discardableResult
  public func stop(patience: Duration) async -> Bool {
    await BlockingCall.run { self.stop(patience: patience) }
  }

  /// Captures the stack of every thread of the process, as the form that blocks its thread does.
  ///
  /// - Parameter timeout: How long to wait at most; default: 10 s.
  /// - Returns: The threads with their stacks, without the watchdog's own.
  /// - Throws: As the form that blocks its thread.
  public func captureThreads(timeout: Duration = .seconds(10)) async throws(WatchdogError) -> ThreadsReport {
    try await BlockingCall.run { () -> Result<ThreadsReport, WatchdogError> in
      do throws(WatchdogError) { return .success(try self.captureThreads(timeout: timeout)) } catch {
        return .failure(error)
      }
    }
    .get()
  }
}
