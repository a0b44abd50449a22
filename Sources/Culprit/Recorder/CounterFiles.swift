import CCulpritLinux
import CCulpritObserver
import CulpritBlackBox
import Glibc

/// The kernel's counters of the process's control group and of the machine.
enum CounterFiles {
  /// Passes the counters' paths to the observer, once. Initialized at the first sample, to save memory.
  static let areKnown: Void = informObserver()

  private static func informObserver() {
    let groups = ControlGroups.directories(of: "cpu").prefix(Int(OBSERVER_GROUPS_MAX)).map { $0 + "/cpu.stat" }
    let own = ControlGroups.directories(of: "memory").first
    let (memoryStat, memoryLimit) = (own.map { "\($0)/memory.stat" }, own.map(limitHits))
    let names = groups.map { strdup($0) }
    defer { for name in names { free(name) } }
    let pointers = names.map { UnsafePointer<CChar>($0) }
    // SAFETY: the observer copies the names during the call, while `pointers` and the strings are alive.
    pointers.withUnsafeBufferPointer { names in
      observer_evidence_know(
        names.baseAddress,
        UInt32(names.count),
        pressure("memory", own),
        pressure("io", own),
        memoryStat,
        memoryLimit,
        clinux_process_cpus()
      )
    }
  }

  private static func limitHits(_ path: String) -> String {
    let events = "\(path)/memory.events"
    return access(events, R_OK) == 0 ? events : "\(path)/memory.failcnt"
  }

  /// Returns the control group's pressure file (PSI), or the machine's if the group's is unreadable.
  private static func pressure(_ resource: String, _ group: String?) -> String {
    let own = group.map { "\($0)/\(resource).pressure" }
    if let own, access(own, R_OK) == 0 { return own }
    return "/proc/pressure/\(resource)"
  }
}
