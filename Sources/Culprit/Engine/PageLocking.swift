import CCulpritLinux
import CCulpritObserver

/// Locks into memory the code and the tables that must work while no disk can be read.
enum PageLocking {
  /// Bytes locked on either side of an anchor. A source file's functions are within 6 KiB of the anchor, or several
  /// times as far in debug builds.
  #if DEBUG
    private static let reach: UInt64 = 24 << 10
  #else
    private static let reach: UInt64 = 8 << 10
  #endif

  /// Locks code and tables within a quarter of RLIMIT_MEMLOCK. Code beyond the limit is only loaded once.
  static func keep(_ slots: UnsafeMutablePointer<observer_slot>, _ stalls: UnsafeMutablePointer<observer_stall>) {
    isKept.withLock { isKept in
      if !isKept {
        // Never unlocked: the tables outlive every watchdog.
        _ = clinux_keep_resident(slots, residentTableBytes)
        _ = clinux_keep_resident(stalls, residentTableBytes)
        keepCode()
      }
      isKept = true
    }
  }

  private static let isKept = Mutex(false)

  /// Resets the state in a child of fork(2), which inherits no memory locks.
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
