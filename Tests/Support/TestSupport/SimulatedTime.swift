import SimulatedClock
import Testing

/// Runs each test of a suite on the simulated clock, one at a time in its process.
package struct SimulatedTime: SuiteTrait, TestTrait, TestScoping {
  package var isRecursive: Bool { true }

  package func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing body: @Sendable () async throws -> Void
  ) async throws {
    try await ObserverLock().provideScope(for: test, testCase: testCase) {
      guard testCase != nil else { return try await body() }
      let clock = SimulatedClock()
      clock.begin()
      defer { clock.end() }
      try await body()
    }
  }
}

extension Trait where Self == SimulatedTime {
  /// The test uses the observer, on the simulated clock.
  package static var usesSimulatedClock: SimulatedTime { SimulatedTime() }
}
