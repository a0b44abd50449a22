import Culprit
import Glibc
import Synchronization
import Testing

extension Trait where Self == StallLimit {
  /// Fails a test that takes longer than `limit`, while it hangs. The report names the function, its line, and the
  /// owner of an awaited lock.
  ///
  ///     @Test(.stallLimit(.seconds(1))) func transfersBetweenAccounts() async throws { … }
  ///
  /// For a suite, the limit applies to each test. Tests can run in parallel. Unlike with `.timeLimit`, the test
  /// continues: use both for tests that never end.
  ///
  /// - Parameter limit: The longest time of the test, at least 10 ms.
  /// - Returns: The trait.
  public static func stallLimit(_ limit: Duration) -> Self { Self(limit: limit) }
}

/// The longest time of a test, checked by a watchdog.
public struct StallLimit: TestTrait, SuiteTrait, TestScoping {
  let limit: Duration

  /// Whether the limit applies to each test of a suite: `true`.
  public var isRecursive: Bool { true }

  /// Runs `function` as a watched section. Records an issue once the section exceeds the limit.
  ///
  /// - Parameters:
  ///   - test: The test.
  ///   - testCase: The test case; `nil` for a suite, which is not watched.
  ///   - function: The test function.
  /// - Throws: The error thrown by `function`, and the errors of `Watchdog(_:)`.
  public func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing function: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await function() }
    let watchdog = try TestWatchdog.shared.get()
    let reports = AsyncStream.makeStream(of: String.self)
    // Inherits the current test, which owns the issues. Runs on the thread that yields the report, because all threads
    // of Swift concurrency might be stuck in tests.
    let issues = Task(executorPreference: CallingThread()) {
      for await report in reports.stream {
        Issue.record("exceeded its stall limit of \(limit)\n\(report)", sourceLocation: test.sourceLocation)
      }
    }
    let isDecided = Atomic(false)
    let outcome: Result<Void, any Error>
    do {
      try await watchdog.withRequest(
        name: "test",
        label: test.name,
        threshold: limit,
        onStall: { event in
          // A test that has ended meanwhile was in time.
          guard !isDecided.exchange(true, ordering: .acquiringAndReleasing) else { return }
          reports.continuation.yield(report(of: event)?.description ?? event.description)
          reports.continuation.finish()
        }
      ) { try await function() }
      outcome = .success(())
    } catch {
      outcome = .failure(error)
    }
    if !isDecided.exchange(true, ordering: .acquiringAndReleasing) { reports.continuation.finish() }
    await issues.value
    try outcome.get()
  }
}

/// Returns the report of a test that exceeds its limit. Waits up to 2 s for the stacks of lock owners, because the
/// sampler can lag when many tests start at once.
private func report(of event: StallEvent) -> StallReport? {
  var report = event.report()
  for _ in 0..<20 where report?.waitChains.contains(where: { $0.links.contains { $0.stack == nil } }) != false {
    usleep(100_000)
    report = event.report() ?? report
  }
  return report
}

/// The watchdog of all tests of the process.
private enum TestWatchdog {
  static let shared = Result<Watchdog, WatchdogError> { () throws(WatchdogError) in
    let watchdog = try Watchdog()
    // Test stalls are issues, not reports on standard error.
    watchdog.onStall { _ in }
    return watchdog
  }
}

/// Runs each job of a task on the thread that made the job ready.
private final class CallingThread: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) { UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor()) }
}
