import CCulpritLinux
import CCulpritObserver
import Synchronization

/// Locks into memory all code and tables that must work while no disk can be read: those of the monitor, the escalation
/// thread and the signal handler.
enum PageLocking {
  /// Bytes of code locked on either side of an anchor. The functions of a source file are within 6 KiB of its anchor in
  /// optimized builds, and several times as far in debug builds.
  #if DEBUG
    private static let reach: UInt64 = 24 << 10
  #else
    private static let reach: UInt64 = 8 << 10
  #endif

  /// Locks the code and the tables, within a quarter of RLIMIT_MEMLOCK. Code beyond the limit is only loaded once.
  static func keep(_ slots: UnsafeMutablePointer<observer_slot>, _ stalls: UnsafeMutablePointer<observer_stall>) {
    // The tables outlive every watchdog.
    isKept.withLock { isKept in
      if !isKept {
        // Never unlocked.
        _ = clinux_keep_resident(slots, residentTableBytes)
        _ = clinux_keep_resident(stalls, residentTableBytes)
        keepCode()
      }
      isKept = true
    }
  }

  private static let isKept = Mutex(false)

  /// Resets the state in a child of fork(2), before its first watchdog: memory locks are not inherited.
  static func startOver() {
    isKept.startOver(false)
    clinux_residency_start_over()
  }

  private static func keepCode() {
    observer_keep_own_code_resident()
    let anchors = [
      monitorCodeAnchor(), trackerCodeAnchor(), supervisorCodeAnchor(), escalationCodeAnchor(), terminationCodeAnchor(),
      plainTextCodeAnchor(), cpuHistoryCodeAnchor(),
    ]
    for anchor in anchors {
      let address = UInt64(UInt(bitPattern: unsafeBitCast(anchor, to: Int.self)))
      clinux_keep_code_resident(address &- reach, address &+ reach)
    }
  }
}
