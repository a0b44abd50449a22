import CCulpritLinux
import CCulpritObserver
import Synchronization

final class ControlBlock: @unchecked Sendable {
  // SAFETY: every field behind the pointer is atomic. The memory is freed with the last reference.
  let pointer: UnsafeMutablePointer<observer_control>
  let hasSources = Atomic<Bool>(false)

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: observer_control())
  }

  /// Makes the monitor tick. Returns whether the tick has ended by `deadline`.
  func waitForTick(until deadline: UInt64) -> Bool {
    // Two ticks, because one might be in progress.
    let ticks = observer_control_wakeups(pointer)
    while observer_control_wakeups(pointer) < ticks + 2 {
      guard clinux_clock_ns() < deadline else { return false }
      observer_control_wake(pointer)
      allowingFork { clinux_pause_ns(1_000_000) }
    }
    return true
  }

  deinit { pointer.deallocate() }
}
