import Synchronization

/// A semaphore that suspends tasks and serves them in order of arrival.
final class Turns: Sendable {
  private struct State {
    var free: Int
    var waiting: [CheckedContinuation<Void, Never>] = []
  }
  private let state: Mutex<State>

  /// Creates a semaphore that `count` tasks can hold at once.
  init(count: Int) { state = Mutex(State(free: count)) }

  /// Waits for a turn, which lasts until `pass()`.
  func take() async {
    await withCheckedContinuation { caller in
      let isFree = state.withLock { state in
        guard state.free > 0 else {
          state.waiting.append(caller)
          return false
        }
        state.free -= 1
        return true
      }
      if isFree { caller.resume() }
    }
  }

  /// Ends a turn, and starts that of the next waiting task.
  func pass() {
    let next = state.withLock { state in
      guard state.waiting.isEmpty else { return Optional(state.waiting.removeFirst()) }
      state.free += 1
      return nil
    }
    next?.resume()
  }
}
