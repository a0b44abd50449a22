import CCulpritLinux
import CCulpritObserver
import Synchronization

/// Keeps in memory what must work when nothing can be read from a disk: the code of the monitor, of the escalation
/// thread and of the handler, and their tables.
enum Residency {
  /// How much code on either side of an anchor is kept, in bytes: a source file's functions lie together. They are within 6 KiB of it
  /// where the compiler optimises, and several times as long where it does not.
  #if DEBUG
    private static let reach = 24 << 10
  #else
    private static let reach = 8 << 10
  #endif

  /// Keeps them there, as far as the process may (a quarter of RLIMIT_MEMLOCK). Code that may not be kept is brought
  /// into memory once.
  static func keep(_ slots: UnsafeMutablePointer<observer_slot>, _ stalls: UnsafeMutablePointer<observer_stall>) {
    // The tables outlive every watchdog.
    isKept.withLock { isKept in
      if !isKept {
        // Never let go.
        _ = clinux_keep_resident(slots, residentTableBytes)
        _ = clinux_keep_resident(stalls, residentTableBytes)
        keepCode()
      }
      isKept = true
    }
  }

  private static let isKept = Mutex(false)

  /// In a child of fork(2), before its first watchdog: what its parent keeps in memory it does not.
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
      clinux_keep_code_resident(UInt64(UInt(bitPattern: unsafeBitCast(anchor, to: Int.self))), reach)
    }
  }
}
