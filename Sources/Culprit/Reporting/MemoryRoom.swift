import CCulpritLinux

/// Checks whether the process has enough memory left for a report.
///
/// Swift terminates the process if an allocation fails. Other threads can still use up the memory after the check.
enum MemoryRoom {
  private static let besideNames: UInt64 = 32 << 20
  private static let fileCopies: UInt64 = 3

  /// Returns a sentence if the `left` bytes of memory do not suffice for `bytes` of names and a file of `fileBytes`.
  static func obstacle(
    names bytes: Int,
    file fileBytes: Int = 0,
    left: UInt64 = clinux_process_memory_left()
  ) -> String? {
    // Cannot overflow, even if the application sets no limit for names.
    let needed = UInt64(bytes) + besideNames + UInt64(fileBytes) * fileCopies
    guard left < needed else { return nil }
    return "\(left) bytes are left of RLIMIT_DATA or RLIMIT_AS, and a report may take \(needed)"
  }
}
