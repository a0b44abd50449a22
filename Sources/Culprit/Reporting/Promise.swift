import CCulpritLinux
import CCulpritObserver
import Synchronization

/// What one thread waits for and another gives, once. Waiting has a bound.
final class Promise<Value: Sendable>: Sendable {
  private let value = Mutex<Value?>(nil)
  private let word = ControlBlock()

  /// Fulfils the promise.
  func fulfill(_ value: Value) {
    self.value.withLock { $0 = value }
    observer_control_stop(word.pointer)
  }

  /// Waits for it until `deadline`, on the observer's clock; `nil` when there is none by then.
  func wait(until deadline: UInt64) -> Value? {
    while true {
      let seen = observer_control_wake_word(word.pointer)
      if observer_control_stopping(word.pointer) { return value.withLock { $0 } }
      if clinux_clock_ns() >= deadline { return nil }
      clinux_wait(observer_control_wake_address(word.pointer), seen, deadline)
    }
  }
}
