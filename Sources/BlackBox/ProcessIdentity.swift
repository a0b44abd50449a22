import Glibc

/// Identifies a process across boots and PID namespaces. A process ID alone is reused.
package struct ProcessIdentity: Hashable, Sendable {
  package var process: Int32
  /// Clock ticks from boot to the start (proc(5), /proc/PID/stat, field 22).
  package var start: UInt64
  /// The boot ID (`/proc/sys/kernel/random/boot_id`).
  package var boot: String
  /// The PID namespace of the process ID (the inode of `/proc/self/ns/pid`).
  package var namespace: UInt64

  package init(process: Int32, start: UInt64, boot: String, namespace: UInt64) {
    self.process = process
    self.start = start
    self.boot = boot
    self.namespace = namespace
  }

  package static func ofThisProcess() -> ProcessIdentity {
    ProcessIdentity(
      process: getpid(),
      start: state(of: getpid())?.start ?? 0,
      boot: SmallFile.text("/proc/sys/kernel/random/boot_id").map { String($0.prefix { $0 != "\n" }) } ?? "unknown",
      namespace: SmallFile.inode("/proc/self/ns/pid") ?? 0
    )
  }

  /// `start` is in clock ticks since boot. Returns `nil` if the process does not exist.
  static func state(of process: Int32) -> (start: UInt64, mainHasEnded: Bool)? {
    // The name of the executable, in parentheses, can contain spaces and parentheses.
    guard let text = SmallFile.text("/proc/\(process)/stat"), let end = text.lastIndex(of: ")") else { return nil }
    let fields = text[end...].split(separator: " ")
    guard fields.count > 20, let start = UInt64(fields[20]) else { return nil }
    return (start, fields[1] == "Z" || fields[1] == "X")
  }

  /// Returns `nil` if the process `own` cannot determine the state.
  func isRunning(seenBy own: ProcessIdentity) -> Bool? {
    guard boot == own.boot, namespace == own.namespace else { return nil }
    guard let state = Self.state(of: process), state.start == start else { return false }
    // After the end of the main thread, other threads might continue (pthread_exit(3)).
    return state.mainHasEnded ? nil : true
  }
}
