import Testing

/// Lets one test at a time use the observer, in order of arrival. A process has one observer, which captures one thread
/// at a time.
///
/// A waiting test is suspended and blocks no thread.
package struct ObserverLock: SuiteTrait, TestTrait, TestScoping {
  package var isRecursive: Bool { true }

  package func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing body: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await body() }
    precondition(!OwnThread.isCurrent, "put .usesObserver before .ownThread: \(test.name)")
    await observer.take()
    defer { observer.pass() }
    try await body()
  }
}

extension Trait where Self == ObserverLock {
  package static var usesObserver: ObserverLock { ObserverLock() }
}

private let observer = Turns(count: 1)
