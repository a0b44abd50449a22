import Synchronization
import Testing

/// Lets one test at a time use the observer: there is one in a process, and captures are for one thread at a time. Who came
/// first is next.
///
/// Waits without holding a thread: the pool that tests run in is small.
package struct ObserverLock: SuiteTrait, TestTrait, TestScoping {
  package var isRecursive: Bool { true }

  package func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing body: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil else { return try await body() }
    await turns.take()
    defer { turns.pass() }
    try await body()
  }
}

extension Trait where Self == ObserverLock {
  /// The test uses the observer.
  package static var usesObserver: ObserverLock { ObserverLock() }
}

/// Whose turn it is.
private final class Turns: Sendable {
  private struct State {
    var isTaken = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }
  private let state = Mutex(State())

  /// Waits for the caller's turn, which lasts until it passes it on.
  func take() async {
    await withCheckedContinuation { caller in
      let isFree = state.withLock { state in
        guard state.isTaken else {
          state.isTaken = true
          return true
        }
        state.waiting.append(caller)
        return false
      }
      if isFree { caller.resume() }
    }
  }

  /// Ends the caller's turn: the next one's begins.
  func pass() {
    let next = state.withLock { state in
      guard state.waiting.isEmpty else { return Optional(state.waiting.removeFirst()) }
      state.isTaken = false
      return nil
    }
    next?.resume()
  }
}

private let turns = Turns()
