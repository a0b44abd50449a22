import Glibc

/// Identifies a process among all processes that ever ran on this machine. Process IDs alone are reused.
package struct ProcessIdentity: Hashable, Sendable {
  /// The process ID.
  package var process: Int32
  /// The start time of the process in clock ticks since boot (proc(5), /proc/PID/stat, field 22).
  package var start: UInt64
  /// The boot ID (`/proc/sys/kernel/random/boot_id`).
  package var boot: String
  /// The PID namespace of the process ID (the inode of `/proc/self/ns/pid`).
  package var namespace: UInt64

  /// Creates the identity of `process`.
  package init(process: Int32, start: UInt64, boot: String, namespace: UInt64) {
    self.process = process
    self.start = start
    self.boot = boot
    self.namespace = namespace
  }

  /// Returns the identity of this process.
  package static func ofThisProcess() -> ProcessIdentity {
    ProcessIdentity(
      process: getpid(),
      start: state(of: getpid())?.start ?? 0,
      boot: SmallFile.text("/proc/sys/kernel/random/boot_id").map { String($0.prefix { $0 != "\n" }) } ?? "unknown",
      namespace: SmallFile.inode("/proc/self/ns/pid") ?? 0
    )
  }

  /// Returns the start time of `process` in clock ticks since boot, and whether its main thread has ended; `nil` if the
  /// process does not exist.
  static func state(of process: Int32) -> (start: UInt64, mainHasEnded: Bool)? {
    // The name of the executable, in parentheses, can contain spaces and parentheses.
    guard let text = SmallFile.text("/proc/\(process)/stat"), let end = text.lastIndex(of: ")") else { return nil }
    let fields = text[end...].split(separator: " ")
    guard fields.count > 20, let start = UInt64(fields[20]) else { return nil }
    return (start, fields[1] == "Z" || fields[1] == "X")
  }

  /// Whether the process runs, as seen by the process `own`; `nil` if `own` cannot determine this.
  func isRunning(seenBy own: ProcessIdentity) -> Bool? {
    guard boot == own.boot, namespace == own.namespace else { return nil }
    guard let state = Self.state(of: process), state.start == start else { return false }
    // The process might have ended, or its other threads might continue (pthread_exit(3)).
    return state.mainHasEnded ? nil : true
  }
}
