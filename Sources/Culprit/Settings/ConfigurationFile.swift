import CCulpritLinux
import Glibc

/// A file with `name = value` lines, which can change while the watchdog runs. Empty lines and lines that begin with
/// `#` are ignored.
struct ConfigurationFile {
  struct Line: Equatable {
    var number: Int
    var name: String
    var value: String
  }

  enum Content: Equatable {
    /// The value is the reason.
    case unreadable(String)
    /// The settings, and the numbers of malformed lines.
    case lines([Line], malformed: [Int])
  }

  /// Limit of the file in bytes.
  private static let longest = 64 << 10

  let path: String
  /// File attributes that reveal a change or a replacement.
  private var identity: [Int]?

  init(path: String) { self.path = path }

  /// Returns the contents at the first call and after each change; otherwise `nil`.
  mutating func readIfChanged() -> Content? {
    // Read before the contents, so the next call detects a change during the reading.
    let now = readIdentity()
    guard now != identity else { return nil }
    identity = now
    return read()
  }

  private func readIdentity() -> [Int] {
    var found = stat()
    guard allowingFork({ stat(path, &found) }) == 0 else { return [Int(errno)] }
    let (modified, changed) = (found.st_mtim, found.st_ctim)
    return [Int(bitPattern: found.st_dev), Int(bitPattern: found.st_ino), found.st_size]
      + [modified.tv_sec, modified.tv_nsec, changed.tv_sec, changed.tv_nsec]
  }

  private func read() -> Content {
    // Keeps the descriptor at once: leaving `allowingFork` might wait for a forking thread.
    let (opened, kept) = allowingFork {
      let opened = clinux_open_regular(path)
      return (opened, clinux_descriptor_keep(opened))
    }
    guard opened >= 0 else {
      return .unreadable(opened == -EINVAL ? "it is not a file" : String(cString: strerror(-opened)))
    }
    var file = kept
    defer { clinux_descriptor_close(&file) }
    var found = stat()
    guard fstat(file.number, &found) == 0 else { return .unreadable(String(cString: strerror(errno))) }
    guard found.st_size <= Self.longest else {
      return .unreadable("it has \(found.st_size) bytes, more than \(Self.longest)")
    }
    var bytes = [UInt8](repeating: 0, count: Self.longest)
    var count = 0
    while count < bytes.count {
      guard clinux_descriptor_is_ours(&file) else { return .unreadable(String(cString: strerror(EBADF))) }
      let number = file.number
      let got = bytes.withUnsafeMutableBytes { buffer in
        // SAFETY: the rebased slice lies inside `bytes` and does not leave the closure.
        let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[count...])
        return allowingFork { Glibc.read(number, rest.baseAddress, rest.count) }
      }
      if got < 0, errno == EINTR { continue }
      guard got >= 0 else { return .unreadable(String(cString: strerror(errno))) }
      if got == 0 { break }
      count += got
    }
    return Self.parse(String(decoding: bytes[..<count], as: UTF8.self))
  }

  static func parse(_ text: String) -> Content {
    var lines: [Line] = []
    var malformed: [Int] = []
    let all = text.split(omittingEmptySubsequences: false) { $0.isNewline }
    for (index, line) in all.enumerated() {
      let line = trimmed(line)
      if line.isEmpty || line.hasPrefix("#") { continue }
      guard let equals = line.firstIndex(of: "="), !trimmed(line[..<equals]).isEmpty else {
        malformed.append(index + 1)
        continue
      }
      let name = String(trimmed(line[..<equals])).lowercased()
      lines.append(Line(number: index + 1, name: name, value: String(trimmed(line[line.index(after: equals)...]))))
    }
    return .lines(lines, malformed: malformed)
  }

  private static func trimmed(_ text: Substring) -> Substring {
    let head = text.drop { $0.isWhitespace }
    guard let last = head.lastIndex(where: { !$0.isWhitespace }) else { return "" }
    return head[...last]
  }
}

/// Checks a configuration file once a second. Needs a dedicated thread, because the file system might hang.
final class ConfigurationFileWatcher: Sendable {
  private static let interval: UInt64 = 1_000_000_000

  private let wake = WakeUp()

  /// Calls `changed` at the beginning and after each change.
  func run(_ file: ConfigurationFile, changed: (ConfigurationFile.Content) -> Void) {
    var file = file
    while true {
      let seen = wake.seen
      if wake.isStopping { return }
      if let content = file.readIfChanged() { changed(content) }
      wake.wait(after: seen, until: clinux_clock_ns() &+ Self.interval)
    }
  }

  func stop() { wake.stop() }
}
