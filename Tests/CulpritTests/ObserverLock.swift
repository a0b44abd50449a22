import TestWorkloads
import Testing

/// Lets one test at a time use the observer: there is one in a process, and captures are for one thread at a time.
///
/// Waits without holding a thread: the pool that tests run in is small.
struct ObserverLock: SuiteTrait, TestTrait, TestScoping {
  var isRecursive: Bool { true }

  func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing body: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await body() }
    while !workload_try_lock() { try await Task.sleep(for: .milliseconds(5)) }
    defer { workload_unlock() }
    try await body()
  }
}

extension Trait where Self == ObserverLock {
  /// The test uses the observer.
  static var usesObserver: ObserverLock { ObserverLock() }
}
