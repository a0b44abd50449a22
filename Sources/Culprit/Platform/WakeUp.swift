import CCulpritLinux

/// What a thread of the watchdog's waits for: to be woken because there is something to do, or to be stopped.
///
///     while true {
///       let seen = wakeUp.seen
///       if wakeUp.isStopping { return }
///       if let work = next() { work() } else { wakeUp.wait(after: seen, until: .max) }
///     }
///
/// What is put down before ``notify()`` is seen by who is woken: it reads ``seen`` before it looks for work.
final class WakeUp: @unchecked Sendable {
  // SAFETY: both words behind the pointer are atomic; the memory is static, or freed when the last reference goes.
  private let pointer: UnsafeMutablePointer<clinux_wakeup>
  private let isOwned: Bool

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: clinux_wakeup())
    isOwned = true
  }

  /// Waits on `pointer`, which is never freed.
  init(static pointer: UnsafeMutablePointer<clinux_wakeup>) {
    self.pointer = pointer
    isOwned = false
  }

  deinit { if isOwned { pointer.deallocate() } }

  /// How often it has been woken so far, for ``wait(after:until:)``.
  var seen: UInt32 { clinux_wakeup_seen(pointer) }

  /// Whether it is to end.
  var isStopping: Bool { clinux_wakeup_stopping(pointer) }

  /// Wakes it.
  func notify() { clinux_wakeup_notify(pointer) }

  /// Makes it end.
  func stop() { clinux_wakeup_stop(pointer) }

  /// Waits until it is woken again, if it has not been since `seen`, or until `deadline` on the observer's clock; may return
  /// sooner.
  func wait(after seen: UInt32, until deadline: UInt64) { resting { clinux_wakeup_wait(pointer, seen, deadline) } }
}
