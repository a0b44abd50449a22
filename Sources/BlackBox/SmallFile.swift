import Glibc

enum SmallFile {
  /// The default limit. Culprit's files are smaller.
  private static let bytesMax = 64 << 10

  /// Returns `nil` if the file cannot be read, or if it is a link and `followsLinks` is `false`.
  static func text(_ path: String, followsLinks: Bool = true) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW))
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return text(descriptor)
  }

  /// Reads from the start of the file.
  static func text(_ descriptor: Int32, max: Int = bytesMax) -> String? {
    bytes(descriptor, max: max).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Reads from the start of the file; `nil` on failure.
  static func bytes(_ descriptor: Int32, max: Int) -> [UInt8]? {
    var bytes: [UInt8] = []
    // A growing array temporarily takes up to twice its size.
    bytes.reserveCapacity(min(max, size(descriptor)))
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while bytes.count < max {
      let count = pread(descriptor, &chunk, min(chunk.count, max - bytes.count), off_t(bytes.count))
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return nil }
      if count == 0 { break }
      bytes += chunk[..<count]
    }
    return bytes
  }

  /// Reads from the end of the file; empty on failure.
  static func tail(_ descriptor: Int32, max: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: max)
    let size = lseek(descriptor, 0, SEEK_END)
    let count = pread(descriptor, &bytes, max, Swift.max(0, size - off_t(max)))
    return Array(bytes.prefix(Swift.max(0, count)))
  }

  /// Returns 0 for an unknown size.
  static func size(_ descriptor: Int32) -> Int {
    var information = stat()
    return fstat(descriptor, &information) == 0 ? Int(information.st_size) : 0
  }

  static func inode(_ path: String) -> UInt64? {
    var information = stat()
    return stat(path, &information) == 0 ? UInt64(information.st_ino) : nil
  }
}
