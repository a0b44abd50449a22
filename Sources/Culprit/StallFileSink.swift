import Glibc
import StallRecord

/// A `.stall` file that grows while its stall lasts.
///
/// Used by the recorder thread only: the disk may be what the service is stuck on, and nobody else may wait for it.
struct StallFileSink: ~Copyable {
  /// Where the file is.
  let path: String
  private let descriptor: Int32
  /// The first error. What comes after it is tried all the same: the disk may have room again.
  private(set) var failure: String?
  /// How many bytes of whole records there are: the next one goes behind them, over what is left of one that was cut short.
  private var bytes: off_t = 0
  /// Where the record is that is written over and over.
  private var place: off_t?

  /// Creates a file for the stall `id` in `directory`.
  ///
  /// The name sorts by time. An existing file is not touched, and a link at the place not followed.
  init(directory: String, process: ObservedProcess, stall: Stall) throws(StallFileSinkError) {
    path = "\(directory)/culprit-\(stall.began.fileNamePart)-\(process.id)-\(stall.id).stall"
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw StallFileSinkError(text: "cannot create \(path): \(String(cString: strerror(errno)))")
    }
  }

  deinit { close(descriptor) }

  /// Appends `record`. Returns whether the file has it; if not, it has nothing of it.
  @discardableResult
  mutating func append(_ record: [UInt8]) -> Bool {
    guard write(record, at: bytes) else {
      // What is left of it is no record, and a reader would say so.
      ftruncate(descriptor, bytes)
      return false
    }
    bytes += record.count
    return true
  }

  /// Writes `record`, which always has the same length, to where it was written before: the first time it is appended. The
  /// file stays bounded however often that is, and a disk that is full by then has room for it.
  mutating func replace(_ record: [UInt8]) {
    if let place {
      _ = write(record, at: place)
    } else {
      let end = bytes
      if append(record) { place = end }
    }
  }

  private mutating func write(_ record: [UInt8], at offset: off_t) -> Bool {
    var written = 0
    while written < record.count {
      let count = record.withUnsafeBytes { buffer in
        // SAFETY: the rebased slice lies inside `record` and is used inside the closure only.
        let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
        return pwrite(descriptor, rest.baseAddress, rest.count, offset + written)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        if failure == nil { failure = "cannot write to \(path): \(String(cString: strerror(errno)))" }
        return false
      }
      written += count
    }
    return true
  }

  /// Removes the file; what is written from now on is written nowhere.
  mutating func remove() { unlink(path) }

  /// Brings what was appended to the disk.
  mutating func flush() {
    guard fsync(descriptor) != 0, failure == nil else { return }
    failure = "cannot bring \(path) to the disk: \(String(cString: strerror(errno)))"
  }

  /// Makes `directory`, with its parents, if it does not exist, and checks that files can be made in it.
  static func prepare(directory: String) throws(WatchdogError) {
    var path = directory.hasPrefix("/") ? "" : "."
    for component in directory.split(separator: "/") {
      path += "/" + component
      if mkdir(path, 0o700) != 0, errno != EEXIST, errno != EISDIR {
        // A parent that exists but cannot be written to is no problem; whether it is one shows below.
        guard errno == EACCES || errno == EROFS else {
          throw .unusableDirectory(path: directory, reason: String(cString: strerror(errno)))
        }
      }
    }
    var information = stat()
    guard stat(directory, &information) == 0 else {
      throw .unusableDirectory(path: directory, reason: String(cString: strerror(errno)))
    }
    guard information.st_mode & S_IFMT == S_IFDIR else {
      throw .unusableDirectory(path: directory, reason: "it is not a directory")
    }
    guard access(directory, W_OK | X_OK) == 0 else {
      throw .unusableDirectory(path: directory, reason: String(cString: strerror(errno)))
    }
  }
}

/// A file could not be created.
struct StallFileSinkError: Error {
  var text: String
}
