import SimulatedClock
import Testing

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
  package static var usesSimulatedClock: SimulatedTime { SimulatedTime() }
}
