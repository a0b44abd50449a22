import CulpritTesting
import Dispatch
import Foundation
import Testing

/// Expects one issue of the test, whose text has these words.
private struct ExpectedIssue: TestTrait, TestScoping {
  let words: [String]
  /// Called when the issue is recorded.
  let recorded: @Sendable () -> Void

  func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing function: @Sendable () async throws -> Void
  ) async throws {
    try await withKnownIssue {
      try await function()
    } matching: { issue in
      let text = issue.comments.map(\.rawValue).joined()
      recorded()
      return words.allSatisfy { text.contains($0) }
    }
  }
}

/// A lock that is held until a stall has been reported.
private let lock = NSLock()
private let isHeld = DispatchSemaphore(value: 0)
private let canRelease = DispatchSemaphore(value: 0)
private let canReturn = DispatchSemaphore(value: 0)

@inline(never) private func holdTheLock() {
  lock.withLock {
    isHeld.signal()
    canRelease.wait()
  }
}

@inline(never) private func waitForTheLock() { lock.withLock {} }

@Suite(.timeLimit(.minutes(1))) struct StallLimitTests {
  @Test(
    ExpectedIssue(words: ["stall limit of 1.0 seconds", "waitForTheLock()", "StallLimitTests.swift:", "holdTheLock()"])
    {
      canRelease.signal()
    },
    .stallLimit(.seconds(1))
  ) func namesTheOwnerOfALock() {
    Thread.detachNewThread { holdTheLock() }
    isHeld.wait()
    waitForTheLock()
  }

  @Test(
    ExpectedIssue(words: ["stall limit of 1.0 seconds", "blockOn(_:)"]) { canReturn.signal() },
    .stallLimit(.seconds(1)),
    arguments: 0..<4
  ) func testsCanHangInParallel(_: Int) { blockOn(canReturn) }

  @Test(.stallLimit(.seconds(60))) func passesInTime() async {}

  @Suite(.stallLimit(.seconds(60))) struct LimitedSuite {
    @Test func passesInTime() async {}
  }
}
