import Glibc

/// Reads small files.
enum SmallFile {
  /// The most that is read: what is larger is none of ours.
  private static let bytesMax = 64 << 10

  /// The content of the file at `path`; `nil` when it cannot be read, or is a link and `followsLinks` is not set.
  static func text(_ path: String, followsLinks: Bool = true) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (followsLinks ? 0 : O_NOFOLLOW))
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return text(descriptor)
  }

  /// The content of the open file `descriptor` from its beginning, up to `max` bytes.
  static func text(_ descriptor: Int32, max: Int = bytesMax) -> String? {
    bytes(descriptor, max: max).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Up to `max` bytes of the open file `descriptor` from its beginning; `nil` when it cannot be read.
  static func bytes(_ descriptor: Int32, max: Int) -> [UInt8]? {
    var bytes: [UInt8] = []
    // An array that grows takes up to twice as much for a moment.
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

  /// The last bytes of the open file `descriptor`, up to `max` of them; none when they cannot be read.
  static func tail(_ descriptor: Int32, max: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: max)
    let size = lseek(descriptor, 0, SEEK_END)
    let count = pread(descriptor, &bytes, max, Swift.max(0, size - off_t(max)))
    return Array(bytes.prefix(Swift.max(0, count)))
  }

  /// The size of the open file `descriptor` in bytes, 0 when it is not known.
  static func size(_ descriptor: Int32) -> Int {
    var information = stat()
    return fstat(descriptor, &information) == 0 ? Int(information.st_size) : 0
  }

  /// The inode of the file at `path`.
  static func inode(_ path: String) -> UInt64? {
    var information = stat()
    return stat(path, &information) == 0 ? UInt64(information.st_ino) : nil
  }
}
