import CCulpritLinux
import CCulpritObserver
import CulpritBlackBox
import Glibc

/// Where what a stall's evidence has of the process's control group and the machine is counted.
enum Surroundings {
  /// Tells the observer where, once: found out when a thread is sampled for the first time, because an idle watchdog needs no memory for
  /// that.
  static let areKnown: Void = tellObserver()

  private static func tellObserver() {
    let groups = ControlGroups.directories(of: "cpu").prefix(Int(OBSERVER_GROUPS_MAX)).map { $0 + "/cpu.stat" }
    let own = ControlGroups.directories(of: "memory").first
    let names = groups.map { strdup($0) }
    defer { for name in names { free(name) } }
    let pointers = names.map { UnsafePointer<CChar>($0) }
    // SAFETY: the observer copies the names while `pointers` and what they point to are there.
    pointers.withUnsafeBufferPointer { names in
      observer_evidence_know(
        names.baseAddress,
        UInt32(names.count),
        pressure("memory", own),
        pressure("io", own),
        clinux_process_processors()
      )
    }
  }

  /// Where waiting for `resource` is counted: for the control group at `group`, else for the machine (PSI).
  private static func pressure(_ resource: String, _ group: String?) -> String {
    let own = group.map { "\($0)/\(resource).pressure" }
    if let own, access(own, R_OK) == 0 { return own }
    return "/proc/pressure/\(resource)"
  }
}
