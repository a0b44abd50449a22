import Glibc
import StallRecord

/// A `.stall` file that grows while its stall lasts.
///
/// Used by the recorder thread only: the disk may be what the service is stuck on, and nobody else may wait for it.
struct StallFileSink: ~Copyable {
  /// Where the file is.
  let path: String
  private let descriptor: Int32
  /// The first error; nothing is written after it, so that the file ends with a whole record or a cut one, never with
  /// records missing in between.
  private(set) var failure: String?

  /// Creates a file for the stall `id` in `directory`.
  ///
  /// The name sorts by time. An existing file is not touched, and a link at the place not followed.
  init(directory: String, process: ObservedProcess, stall: Stall) throws(StallFileSinkError) {
    let time = stall.began.description.filter { $0 != "-" && $0 != ":" }
    path = "\(directory)/culprit-\(time)-\(process.id)-\(stall.id).stall"
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw StallFileSinkError(text: "cannot create \(path): \(String(cString: strerror(errno)))")
    }
  }

  deinit { close(descriptor) }

  /// Appends `bytes`.
  mutating func append(_ bytes: [UInt8]) {
    guard failure == nil else { return }
    var written = 0
    while written < bytes.count {
      let count = bytes.withUnsafeBytes { buffer in
        // SAFETY: the rebased slice lies inside `bytes` and is used inside the closure only.
        let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
        return write(descriptor, rest.baseAddress, rest.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        failure = "cannot write to \(path): \(String(cString: strerror(errno)))"
        return
      }
      written += count
    }
  }

  /// Brings what was appended to the disk.
  mutating func flush() {
    guard failure == nil, fsync(descriptor) != 0 else { return }
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
