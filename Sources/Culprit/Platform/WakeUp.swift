import CCulpritLinux

/// Wakes or stops a thread of the watchdog that waits for work.
///
///     while true {
///       let seen = wakeUp.seen
///       if wakeUp.isStopping { return }
///       if let work = next() { work() } else { wakeUp.wait(after: seen, until: .max) }
///     }
///
/// The thread must read ``seen`` before it looks for work.
final class WakeUp: @unchecked Sendable {
  // SAFETY: both words behind the pointer are atomic. The memory is static, or freed with the last reference.
  private let pointer: UnsafeMutablePointer<clinux_wakeup>
  private let isOwned: Bool

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: clinux_wakeup())
    isOwned = true
  }

  /// Uses the words at `pointer`, which must never be freed.
  init(static pointer: UnsafeMutablePointer<clinux_wakeup>) {
    self.pointer = pointer
    isOwned = false
  }

  deinit { if isOwned { pointer.deallocate() } }

  var seen: UInt32 { clinux_wakeup_seen(pointer) }

  var isStopping: Bool { clinux_wakeup_stopping(pointer) }

  func notify() { clinux_wakeup_notify(pointer) }

  func stop() { clinux_wakeup_stop(pointer) }

  /// Waits until the next wake-up after `seen`, or until `deadline`. Can return early.
  func wait(after seen: UInt32, until deadline: UInt64) { allowingFork { clinux_wakeup_wait(pointer, seen, deadline) } }
}
