import CCulpritLinux
import Synchronization

/// What one thread waits for and another gives, once. Waiting has a bound.
final class Promise<Value: Sendable>: Sendable {
  private let value = Mutex<Value?>(nil)
  private let word = WakeUp()

  /// Fulfils the promise.
  func fulfill(_ value: Value) {
    self.value.withLock { $0 = value }
    word.stop()
  }

  /// Waits for it until `deadline`, on the observer's clock; `nil` when there is none by then.
  func wait(until deadline: UInt64) -> Value? {
    while true {
      let seen = word.seen
      if word.isStopping { return value.withLock { $0 } }
      if clinux_clock_ns() >= deadline { return nil }
      word.wait(after: seen, until: deadline)
    }
  }
}
