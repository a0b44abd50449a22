import Glibc

/// A directory of files, `day=2026-11-23/host=web-1/part-….jsonl`, that are there in full or not at all: they are written under other
/// names, which nobody reads, and get theirs when all have been written.
struct PartitionedOutput {
  /// So much is kept in memory before it is written: files are opened for it, and closed again, however many there are.
  private static let pendingBytesMax = 64 << 20

  private let directory: String
  private var pending: [String: [UInt8]] = [:]
  private var pendingBytes = 0
  /// The temporary name of what has been written, by partition.
  private var written: [String: String] = [:]

  /// Files below `directory`, which is made.
  ///
  /// - Throws: ``InputError`` when it cannot be used.
  init(directory: String) throws(InputError) {
    self.directory = directory
    try Self.make(directory)
  }

  /// Adds `text` to the file of `partition`.
  mutating func add(_ text: String, to partition: String) throws(InputError) {
    pending[partition, default: []] += text.utf8
    pendingBytes += text.utf8.count
    if pendingBytes > Self.pendingBytesMax { try flush() }
  }

  /// Gives each file its name: `name` of its partition.
  mutating func finish(_ name: (String) -> String) throws(InputError) {
    try flush()
    for (partition, temporary) in written {
      let path = "\(directory)/\(partition)/\(name(partition))"
      guard rename(temporary, path) == 0 else { throw Self.error(path) }
      written[partition] = nil
    }
  }

  /// Removes what has no name yet.
  func abandon() { for temporary in written.values { unlink(temporary) } }

  private mutating func flush() throws(InputError) {
    for (partition, bytes) in pending.sorted(by: { $0.key < $1.key }) {
      try append(bytes, partition)
      pending[partition] = nil
    }
    pendingBytes = 0
  }

  private mutating func append(_ bytes: [UInt8], _ partition: String) throws(InputError) {
    var path = directory
    for part in partition.split(separator: "/") {
      path += "/\(part)"
      try Self.make(path)
    }
    let isFirst = written[partition] == nil
    // Engines pass over files whose names begin with a point.
    let temporary = written[partition] ?? "\(path)/.part.\(getpid()).new"
    let descriptor = open(temporary, O_WRONLY | O_APPEND | O_CLOEXEC | (isFirst ? O_CREAT | O_EXCL : 0), 0o644)
    guard descriptor >= 0 else { throw Self.error(temporary) }
    written[partition] = temporary
    var failure: Int32 = 0
    var rest = bytes[...]
    while !rest.isEmpty, failure == 0 {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { failure = errno }
    }
    if close(descriptor) != 0, failure == 0 { failure = errno }
    guard failure == 0 else { throw InputError(description: "\(temporary): \(String(cString: strerror(failure)))") }
  }

  private static func make(_ path: String) throws(InputError) {
    guard mkdir(path, 0o755) != 0 else { return }
    guard errno == EEXIST else { throw error(path) }
    guard isDirectory(path) else { throw InputError(description: "\(path): it is no directory") }
  }

  private static func error(_ path: String) -> InputError {
    InputError(description: "\(path): \(String(cString: strerror(errno)))")
  }
}
