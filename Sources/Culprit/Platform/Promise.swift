import CCulpritLinux
import Synchronization

/// A value that one thread waits for, with a deadline, and another thread sets once.
final class Promise<Value: Sendable>: Sendable {
  private let value = Mutex<Value?>(nil)
  private let word = WakeUp()

  func fulfill(_ value: Value) {
    self.value.withLock { $0 = value }
    word.stop()
  }

  /// Returns `nil` if there is no value by `deadline`, by the observer's clock.
  func wait(until deadline: UInt64) -> Value? {
    while true {
      let seen = word.seen
      if word.isStopping { return value.withLock { $0 } }
      if clinux_clock_ns() >= deadline { return nil }
      word.wait(after: seen, until: deadline)
    }
  }
}
