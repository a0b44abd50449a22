import CCulpritLinux
import Glibc

/// A file of `name = value` lines with settings, which may change while the watchdog runs.
///
/// Empty lines are left out, and so is what follows a `#` at the beginning of a line.
struct ConfigurationFile {
  /// A line.
  struct Line: Equatable {
    var number: Int
    var name: String
    var value: String
  }

  /// What is in the file.
  enum Content: Equatable {
    /// It cannot be read, for this reason.
    case unreadable(String)
    /// Its lines, and the numbers of those that are none.
    case lines([Line], malformed: [Int])
  }

  /// What tells that the file has changed, or has been replaced.
  private struct Identity: Equatable {
    var device: UInt
    var inode: UInt
    var size: Int
    var modified: [Int]
    var changed: [Int]
    var error: Int32
  }

  /// Longer files are refused: no list of settings is that long.
  private static let longest = 64 << 10

  let path: String
  private var identity: Identity?

  init(path: String) { self.path = path }

  /// What is in the file, if it has changed since the last time, or if this is the first.
  mutating func readIfChanged() -> Content? {
    // Looked at first: a change after that is seen the next time.
    let now = readIdentity()
    guard now != identity else { return nil }
    identity = now
    return read()
  }

  private func readIdentity() -> Identity {
    var found = stat()
    guard resting({ stat(path, &found) }) == 0 else {
      return Identity(device: 0, inode: 0, size: 0, modified: [], changed: [], error: errno)
    }
    return Identity(
      device: found.st_dev,
      inode: found.st_ino,
      size: found.st_size,
      modified: [found.st_mtim.tv_sec, found.st_mtim.tv_nsec],
      changed: [found.st_ctim.tv_sec, found.st_ctim.tv_nsec],
      error: 0
    )
  }

  private func read() -> Content {
    // Kept at once: going on with the work may wait for a process that forks.
    let (opened, kept) = resting {
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
        // SAFETY: the rebased slice lies inside `bytes` and is used inside the closure only.
        let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[count...])
        return resting { Glibc.read(number, rest.baseAddress, rest.count) }
      }
      if got < 0, errno == EINTR { continue }
      guard got >= 0 else { return .unreadable(String(cString: strerror(errno))) }
      if got == 0 { break }
      count += got
    }
    return Self.parse(String(decoding: bytes[..<count], as: UTF8.self))
  }

  /// The lines of `text`.
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

/// Looks at a configuration file once a second, on a thread of its own: the file system may be what hangs.
final class ConfigurationFileWatcher: Sendable {
  /// How often the file is looked at.
  private static let interval: UInt64 = 1_000_000_000

  private let wake = WakeUp()

  /// Looks until it is stopped; `changed` gets what is in the file whenever it has changed.
  func run(_ file: ConfigurationFile, changed: (ConfigurationFile.Content) -> Void) {
    var file = file
    while true {
      let seen = wake.seen
      if wake.isStopping { return }
      if let content = file.readIfChanged() { changed(content) }
      wake.wait(after: seen, until: clinux_clock_ns() &+ Self.interval)
    }
  }

  /// Makes ``run(_:changed:)`` return.
  func stop() { wake.stop() }
}
