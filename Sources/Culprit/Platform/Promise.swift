import CCulpritLinux

/// A value that one thread sets once, and for which another thread waits with a deadline.
final class Promise<Value: Sendable>: Sendable {
  private let value = Mutex<Value?>(nil)
  private let word = WakeUp()

  func fulfill(_ value: Value) {
    self.value.withLock { $0 = value }
    word.stop()
  }

  /// Returns `nil` without a value at `deadline` on the observer's clock.
  func wait(until deadline: UInt64) -> Value? {
    while true {
      let seen = word.seen
      if word.isStopping { return value.withLock { $0 } }
      if clinux_clock_ns() >= deadline { return nil }
      word.wait(after: seen, until: deadline)
    }
  }
}
