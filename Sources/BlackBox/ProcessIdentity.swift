import Glibc

/// Which process it is, of all that ever were on this machine: process ids are used again.
package struct ProcessIdentity: Hashable, Sendable {
  /// The process id.
  package var process: Int32
  /// When it was started, in the kernel's ticks since the machine was (proc(5), /proc/PID/stat, field 22).
  package var start: UInt64
  /// Which start of the machine (`/proc/sys/kernel/random/boot_id`).
  package var boot: String
  /// The namespace that the process id belongs to (the inode of `/proc/self/ns/pid`).
  package var namespace: UInt64

  /// The process `process` of this boot and namespace.
  package init(process: Int32, start: UInt64, boot: String, namespace: UInt64) {
    self.process = process
    self.start = start
    self.boot = boot
    self.namespace = namespace
  }

  /// This process.
  package static func ofThisProcess() -> ProcessIdentity {
    ProcessIdentity(
      process: getpid(),
      start: state(of: getpid())?.start ?? 0,
      boot: SmallFile.text("/proc/sys/kernel/random/boot_id").map { String($0.prefix { $0 != "\n" }) } ?? "unknown",
      namespace: SmallFile.inode("/proc/self/ns/pid") ?? 0
    )
  }

  /// When `process` was started, and whether its main thread has ended; `nil` when there is no such process.
  static func state(of process: Int32) -> (start: UInt64, mainHasEnded: Bool)? {
    // The name of the executable, in parentheses, may have spaces and parentheses itself.
    guard let text = SmallFile.text("/proc/\(process)/stat"), let end = text.lastIndex(of: ")") else { return nil }
    let fields = text[end...].split(separator: " ")
    guard fields.count > 20, let start = UInt64(fields[20]) else { return nil }
    return (start, fields[1] == "Z" || fields[1] == "X")
  }

  /// Whether the process runs, as seen by the process `own`; `nil` when that cannot be told from there.
  func isRunning(seenBy own: ProcessIdentity) -> Bool? {
    guard boot == own.boot, namespace == own.namespace else { return nil }
    guard let state = Self.state(of: process), state.start == start else { return false }
    // It may be over, or have left its other threads to go on (pthread_exit(3)).
    return state.mainHasEnded ? nil : true
  }
}
