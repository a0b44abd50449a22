import CulpritTesting
import Dispatch
import Foundation
import Testing

/// Expects one issue of each test case, with `words` in its text.
private struct ExpectedIssue: TestTrait, TestScoping {
  /// Signaled when the issue of the test case is recorded.
  @TaskLocal static var isRecorded = DispatchSemaphore(value: 0)

  let words: [String]

  func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing function: @Sendable () async throws -> Void
  ) async throws {
    let isRecorded = DispatchSemaphore(value: 0)
    try await Self.$isRecorded.withValue(isRecorded) {
      try await withKnownIssue {
        try await function()
      } matching: { issue in
        let text = issue.comments.map(\.rawValue).joined()
        isRecorded.signal()
        return words.allSatisfy { text.contains($0) }
      }
    }
  }
}

private let lock = NSLock()

/// Holds the lock until `isRecorded` is signaled. Signals `isHeld` first.
@inline(never) private func holdTheLock(_ isHeld: DispatchSemaphore, _ isRecorded: DispatchSemaphore) {
  lock.withLock {
    isHeld.signal()
    isRecorded.wait()
  }
}

@inline(never) private func waitForTheLock() { lock.withLock {} }

@Suite(.timeLimit(.minutes(1))) struct StallLimitTests {
  @Test(
    ExpectedIssue(words: ["stall limit of 1.0 seconds", "waitForTheLock()", "StallLimitTests.swift:", "holdTheLock("]),
    .stallLimit(.seconds(1))
  ) func namesTheOwnerOfALock() {
    let (isHeld, isRecorded) = (DispatchSemaphore(value: 0), ExpectedIssue.isRecorded)
    Thread.detachNewThread { holdTheLock(isHeld, isRecorded) }
    isHeld.wait()
    waitForTheLock()
  }

  @Test(
    ExpectedIssue(words: ["stall limit of 1.0 seconds", "blockOn(_:)"]),
    .stallLimit(.seconds(1)),
    arguments: 0..<4
  ) func testsCanHangInParallel(_: Int) { blockOn(ExpectedIssue.isRecorded) }

  @Test(.stallLimit(.seconds(60))) func passesInTime() async {}

  @Suite(.stallLimit(.seconds(60))) struct LimitedSuite {
    @Test func passesInTime() async {}
  }
}
