import CCulpritObserver
import Synchronization

/// State shared by the monitor and the rest of the watchdog. Reference counted.
final class ControlBlock: @unchecked Sendable {
  // SAFETY: every field behind the pointer is atomic. The memory is freed with the last reference.
  let pointer: UnsafeMutablePointer<observer_control>
  /// Whether a source has been registered with the monitor.
  let hasSources = Atomic<Bool>(false)

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: observer_control())
  }

  deinit { pointer.deallocate() }
}
