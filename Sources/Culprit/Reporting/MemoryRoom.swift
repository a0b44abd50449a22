import CCulpritLinux

/// Whether the process may take as much memory as a report needs.
///
/// Swift ends the process where memory is refused, and a service that lives at its limit (RLIMIT_DATA, RLIMIT_AS) must not be ended
/// by who reports that it was slow. Asked before a report is begun; what others take meanwhile is theirs.
enum MemoryRoom {
  /// What a report takes beside what its names may: stacks, samples and texts, about.
  private static let besideNames: UInt64 = 32 << 20
  /// What a file takes while it is read, in its own size: itself, what is in it, and as much again for what is made of that.
  private static let fileCopies: UInt64 = 3

  /// What is missing for a report whose names may take `bytes`, of a file of `fileBytes` that is read for it, where `left`
  /// is what the process may take, as a sentence; `nil` where nothing is.
  static func obstacle(
    names bytes: Int,
    file fileBytes: Int = 0,
    left: UInt64 = clinux_process_memory_left()
  ) -> String? {
    // All are less than half of what there are numbers for: also where the service sets no limit to its names.
    let needed = UInt64(bytes) + besideNames + UInt64(fileBytes) * fileCopies
    guard left < needed else { return nil }
    return "\(left) bytes are left of RLIMIT_DATA or RLIMIT_AS, and a report may take \(needed)"
  }
}
