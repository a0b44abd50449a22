import CCulpritLinux
import CulpritStallRecord
import Glibc

/// A file that grows by whole records.
///
/// Used only by the disk thread. The service might be stuck on the disk, so no other thread can wait for it.
struct AppendOnlyFile: ~Copyable {
  /// The path of the file.
  let path: String
  private let file: OpenFiles.File
  private let openFiles: OpenFiles
  /// Whether the service closed the file.
  private(set) var wasClosed = false
  /// The first error. Later writes are still attempted, because the disk might have room again.
  private(set) var failure: String?
  /// The present problems by their kinds.
  private(set) var problems: [ProblemList.Kind: String] = [:]
  /// Size of the last write that failed. A full disk might have room for a smaller one.
  private var failedBytes = 0
  /// The length of the whole records in bytes. The next record is written here, over the rest of an incomplete one.
  private(set) var bytes: off_t = 0

  /// Creates the file at `path`, registered in `openFiles`. Fails if the file exists; does not follow a symbolic link.
  init(path: String, among openFiles: OpenFiles = OpenFiles()) throws(AppendOnlyFileError) {
    self.path = path
    self.openFiles = openFiles
    openFiles.makeRoom()
    file = OpenFiles.File(try DirectoryFiles.create(path, O_RDWR))
    openFiles.use(file)
  }

  deinit { openFiles.close(file) }

  /// Returns the file descriptor, open for reading and writing; `nil` if the file was closed and has been removed.
  private mutating func number() -> Int32? {
    if clinux_descriptor_is_ours(&file.descriptor) {
      openFiles.use(file)
      return file.descriptor.number
    }
    if !file.isSetAside { wasClosed = true }
    openFiles.makeRoom()
    guard let opened = DirectoryFiles.reopen(path, file.descriptor, O_RDWR) else {
      fail(.writing, "\(path) was closed, and cannot be opened again")
      return nil
    }
    clinux_descriptor_replace(&file.descriptor, opened)
    file.isSetAside = false
    openFiles.use(file)
    return opened.number
  }

  /// Appends `records` completely or not at all. Returns whether they were written.
  @discardableResult
  mutating func append(_ records: [UInt8]) -> Bool {
    guard write(records, at: bytes) else {
      // An incomplete record would make readers report an error.
      if let number = number() { ftruncate(number, bytes) }
      return false
    }
    bytes += off_t(records.count)
    return true
  }

  /// Overwrites the record at `place` with one of the same length, which needs no disk space.
  @discardableResult
  mutating func replace(_ record: [UInt8], at place: off_t) -> Bool { write(record, at: place) }

  private mutating func write(_ record: [UInt8], at offset: off_t) -> Bool {
    var written = 0
    while written < record.count {
      guard let number = number() else { return false }
      let count = record.withUnsafeBytes { buffer in
        // SAFETY: the rebased slice lies inside `record` and does not leave the closure.
        let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
        return allowingFork { pwrite(number, rest.baseAddress, rest.count, offset + off_t(written)) }
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        fail(.writing, "cannot write to \(path): \(String(cString: strerror(errno)))")
        failedBytes = record.count
        return false
      }
      written += count
    }
    if record.count >= failedBytes { problems[.writing] = nil }
    return true
  }

  private mutating func fail(_ kind: ProblemList.Kind, _ sentence: String) {
    if failure == nil { failure = sentence }
    problems[kind] = sentence
  }

  /// Whether the file has been unlinked, directly or with its directory.
  var isGone: Bool {
    mutating get {
      guard let number = number() else { return true }
      var own = stat()
      var present = stat()
      guard fstat(number, &own) == 0 else { return false }
      guard lstat(path, &present) == 0 else { return errno == ENOENT || errno == ENOTDIR }
      return present.st_ino != own.st_ino || present.st_dev != own.st_dev
    }
  }

  /// Whether the contents can be read. False once the file is closed and removed.
  var isReadable: Bool { mutating get { number() != nil } }

  /// Copies the contents to `other`, which must be empty. Returns whether that succeeded.
  mutating func copy(to other: inout AppendOnlyFile) -> Bool {
    guard let number = number() else { return false }
    var content = [UInt8](repeating: 0, count: Int(bytes))
    var read = 0
    while read < content.count {
      let count = content.withUnsafeMutableBytes { buffer in
        // SAFETY: the rebased slice lies inside `content` and does not leave the closure.
        let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[read...])
        return pread(number, rest.baseAddress, rest.count, off_t(read))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      read += count
    }
    return other.append(content)
  }

  /// Unlinks the file. Later records are lost.
  mutating func remove() { unlink(path) }

  /// Syncs the file to the disk.
  mutating func flush() {
    // EINVAL: the file does not support syncing.
    guard let number = number() else { return }
    guard allowingFork({ fsync(number) }) != 0, errno != EINVAL else {
      problems[.syncing] = nil
      return
    }
    fail(.syncing, "cannot sync \(path): \(String(cString: strerror(errno)))")
  }
}

/// A failure to create a file.
struct AppendOnlyFileError: Error {
  var text: String
}

/// Operations on directories.
enum DirectoryFiles {
  /// Creates the file at `path` and opens it with `mode`. Fails if the file exists; does not follow a symbolic link.
  static func create(_ path: String, _ mode: Int32) throws(AppendOnlyFileError) -> clinux_descriptor {
    let number = open(path, mode | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    var error = errno
    if number >= 0 {
      let created = clinux_descriptor_keep_file(number, path)
      // Sets the mode regardless of umask(2), because the next launch has to read the file.
      if created.number >= 0, fchmod(created.number, 0o600) == 0 { return created }
      // The service has already closed the file, and might have reused the number.
      error = created.number < 0 ? errno : EBADF
      unlink(path)
    }
    throw AppendOnlyFileError(text: "cannot create \(path): \(String(cString: strerror(error)))")
  }

  /// Opens the file at `path` again after the service closed it. Returns `nil` if it is not the file of `descriptor`.
  static func reopen(_ path: String, _ descriptor: clinux_descriptor, _ mode: Int32) -> clinux_descriptor? {
    var former = descriptor
    let number = open(path, mode | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard number >= 0 else { return nil }
    guard clinux_descriptor_is_same(&former, number) else {
      close(number)
      return nil
    }
    return clinux_descriptor_keep(number)
  }

  /// Syncs the names of the files in `directory` to the disk.
  static func flush(_ directory: String) {
    var opened = clinux_descriptor_keep(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    guard opened.number >= 0 else { return }
    _ = allowingFork { fsync(opened.number) }
    clinux_descriptor_close(&opened)
  }

  /// Creates `directory` and its parents if needed, and checks that files can be created in it.
  static func prepare(_ directory: String) throws(DirectoryError) {
    // Checked before any part of the path is created.
    guard directory.utf8.count < Int(PATH_MAX),
      directory.utf8.split(separator: UInt8(ascii: "/")).allSatisfy({ $0.count <= Int(NAME_MAX) })
    else { throw DirectoryError(path: directory, reason: String(cString: strerror(ENAMETOOLONG))) }
    var path = directory.hasPrefix("/") ? "" : "."
    var refusal: Int32?
    for component in directory.split(separator: "/") {
      path += "/" + component
      if mkdir(path, 0o700) == 0 {
        chmod(path, 0o700)
      } else if errno != EEXIST, errno != EISDIR {
        // A parent that exists but is not writable might suffice. The checks below decide.
        guard errno == EACCES || errno == EROFS else {
          throw DirectoryError(path: directory, reason: String(cString: strerror(errno)))
        }
        refusal = refusal ?? errno
      }
    }
    var information = stat()
    guard stat(directory, &information) == 0 else {
      // The directory is missing because it could not be created.
      let error = errno == ENOENT ? refusal ?? errno : errno
      throw DirectoryError(path: directory, reason: String(cString: strerror(error)))
    }
    guard information.st_mode & S_IFMT == S_IFDIR else {
      throw DirectoryError(path: directory, reason: "it is not a directory")
    }
    // Checked for the effective user, which creates the files.
    guard faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0 else {
      throw DirectoryError(path: directory, reason: String(cString: strerror(errno)))
    }
  }
}

/// The reason why stalls cannot be saved in a directory.
struct DirectoryError: Error, CustomStringConvertible {
  let path: String
  let reason: String

  /// The problem as one sentence on one line.
  var description: String {
    "stalls cannot be saved in \(printable(path, limit: sentencePartMax)): \(printable(reason))"
  }
}
