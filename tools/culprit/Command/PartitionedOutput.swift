import CulpritOptions
import Glibc

/// A directory of files, such as `day=2026-11-23/host=web-1/part-….jsonl`. Files are staged in a hidden directory and
/// renamed after all have been written.
///
/// An interrupted command removes its files. After SIGKILL, the next export removes them.
struct PartitionedOutput {
  /// Limit of buffered data. Files are open only while data is written, so their number is unlimited.
  private static let pendingBytesMax = 64 << 20
  private static let stagingPrefix = ".export-"

  private let directory: String
  private let isNew: Bool
  /// The staging directory. Engines ignore names that start with a dot.
  private let staging: String
  /// The staging directory's descriptor. Locked during use.
  private let lock: Int32
  private var pending: [String: [UInt8]] = [:]
  private var pendingBytes = 0
  private var written: [String: String] = [:]

  /// Creates `directory` if necessary, and the staging directory.
  ///
  /// - Throws: ``InputError`` if the directory cannot be used.
  init(directory: String) throws(InputError) {
    self.directory = directory
    let staging = "\(directory)/\(Self.stagingPrefix)\(getpid())"
    self.staging = staging
    (isNew, lock) = try Interruption.withoutInterruption { (kept) throws(InputError) in
      let isNew = try Self.make(directory)
      if isNew { kept[directory] = .emptyDirectory }
      Self.removeLeftovers(directory)
      guard mkdir(staging, 0o700) == 0 else { throw InputError(staging, errno) }
      kept[staging] = .directory
      let lock = open(staging, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      if lock >= 0 { flock(lock, LOCK_EX | LOCK_NB) }
      return (isNew, lock)
    }
  }

  /// Removes unlocked staging directories, which killed processes left.
  private static func removeLeftovers(_ directory: String) {
    var found = glob_t()
    defer { globfree(&found) }
    guard glob("\(escaped(directory))/\(stagingPrefix)*", GLOB_NOSORT, nil, &found) == 0 else { return }
    for place in 0..<Int(found.gl_pathc) {
      guard let path = found.gl_pathv[place].map({ String(cString: $0) }) else { continue }
      let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      guard descriptor >= 0 else { continue }
      if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { Interruption.remove(path, .directory) }
      close(descriptor)
    }
  }

  private static func escaped(_ path: String) -> String {
    path.map { "*?[\\".contains($0) ? "\\\($0)" : String($0) }.joined()
  }

  mutating func add(_ text: String, to partition: String) throws(InputError) {
    pending[partition, default: []] += text.utf8
    pendingBytes += text.utf8.count
    if pendingBytes > Self.pendingBytesMax { try flush() }
  }

  /// Moves the files to their final names. `name` returns the name for a partition.
  mutating func finish(_ name: (String) -> String) throws(InputError) {
    try flush()
    let names = written.mapValues { "\(staging)/\($0)" }
    try Interruption.withoutInterruption { (kept) throws(InputError) in
      for (partition, temporary) in names.sorted(by: { $0.key < $1.key }) {
        var path = directory
        for part in partition.split(separator: "/") {
          path += "/\(part)"
          try Self.make(path)
        }
        path += "/\(name(partition))"
        guard rename(temporary, path) == 0 else { throw InputError(path, errno) }
      }
      Interruption.remove(staging, .directory)
      (kept[staging], kept[directory]) = (nil, nil)
    }
    close(lock)
  }

  func abandon() {
    Interruption.withoutInterruption { kept in
      Interruption.remove(staging, .directory)
      if isNew { Interruption.remove(directory, .emptyDirectory) }
      (kept[staging], kept[directory]) = (nil, nil)
    }
    close(lock)
  }

  private mutating func flush() throws(InputError) {
    for (partition, bytes) in pending.sorted(by: { $0.key < $1.key }) {
      try append(bytes, partition)
      pending[partition] = nil
    }
    pendingBytes = 0
  }

  private mutating func append(_ bytes: [UInt8], _ partition: String) throws(InputError) {
    let known = written[partition]
    let file = known ?? "\(written.count)"
    let path = "\(staging)/\(file)"
    let descriptor = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | (known == nil ? O_CREAT | O_EXCL : 0), 0o644)
    guard descriptor >= 0 else { throw InputError(path, errno) }
    written[partition] = file
    var failure = writeAll(bytes, to: descriptor)
    if close(descriptor) != 0, failure == 0 { failure = errno }
    guard failure == 0 else {
      throw InputError("\(directory)/\(partition)", failure)
    }
    Progress.shared.didWrite(bytes.count)
  }

  /// Creates a directory. Returns whether it is new.
  @discardableResult private static func make(_ path: String) throws(InputError) -> Bool {
    guard mkdir(path, 0o755) != 0 else { return true }
    guard errno == EEXIST else { throw InputError(path, errno) }
    guard isDirectory(path) else { throw InputError(path, "not a directory") }
    return false
  }
}
