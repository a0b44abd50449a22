import CCulpritLinux

/// Checks whether the process has enough memory left for a report.
///
/// Swift terminates the process if an allocation fails. A service close to its limit (RLIMIT_DATA, RLIMIT_AS) must not
/// be terminated because of a report. The check comes before each report; other threads can still use up the memory
/// afterwards.
enum MemoryRoom {
  /// Memory of a report without its names in bytes, approximately: stacks, samples and text.
  private static let besideNames: UInt64 = 32 << 20
  /// Memory for reading a file, as a multiple of its size: its bytes, its content, and data derived from it.
  private static let fileCopies: UInt64 = 3

  /// Checks whether the remaining memory suffices for a report.
  ///
  /// - Parameters:
  ///   - bytes: Memory for names, in bytes.
  ///   - fileBytes: Size of the file that is read for the report, in bytes.
  ///   - left: Memory that the process can still allocate, in bytes.
  /// - Returns: A sentence about insufficient memory; `nil` if there is enough.
  static func obstacle(
    names bytes: Int,
    file fileBytes: Int = 0,
    left: UInt64 = clinux_process_memory_left()
  ) -> String? {
    // The sum cannot overflow, even if the application sets no limit for names.
    let needed = UInt64(bytes) + besideNames + UInt64(fileBytes) * fileCopies
    guard left < needed else { return nil }
    return "\(left) bytes are left of RLIMIT_DATA or RLIMIT_AS, and a report may take \(needed)"
  }
}
