import Glibc

/// A file that is there in full or as it was: it is written beside its place, and put there at the end.
///
/// What names standard output is that.
final class OutputFile {
  private let path: String
  private let temporary: String
  /// Of the temporary file; `nil` for standard output, and when that has been closed.
  private var descriptor: Int32?
  private let isStandardOutput: Bool

  /// The file at `path`; standard output when that is "-", or another name of it.
  init(_ path: String) throws(InputError) {
    self.path = path
    temporary = "\(path).\(getpid()).new"
    isStandardOutput = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].contains(path)
    guard !isStandardOutput else { return }
    // Renaming puts a file in the place of whatever is there.
    var information = stat()
    guard stat(path, &information) != 0 || information.st_mode & S_IFMT == S_IFREG else {
      throw InputError(description: "\(path): it is no regular file")
    }
    let opened = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
    guard opened >= 0 else { throw InputError(description: "\(path): \(String(cString: strerror(errno)))") }
    descriptor = opened
  }

  /// Whether somebody looks at it as it is.
  var isTerminal: Bool { isStandardOutput && isatty(STDOUT_FILENO) == 1 }

  /// Whatever has not been put in its place is gone.
  deinit { discard() }

  /// Writes `bytes`.
  func write(_ bytes: [UInt8]) throws(InputError) {
    guard let descriptor else { return output.print(bytes: bytes) }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { throw failure() }
    }
  }

  /// Puts the file in its place.
  func commit() throws(InputError) {
    guard let descriptor else { return }
    self.descriptor = nil
    guard close(descriptor) == 0, rename(temporary, path) == 0 else {
      let error = failure()
      unlink(temporary)
      throw error
    }
  }

  private func failure() -> InputError { InputError(description: "\(path): \(String(cString: strerror(errno)))") }

  private func discard() {
    guard let descriptor else { return }
    close(descriptor)
    unlink(temporary)
    self.descriptor = nil
  }
}
