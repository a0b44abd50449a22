import CCulpritLinux
import CulpritStallRecord
import Glibc

/// A file that grows by whole records. Used only by the disk thread, because the disk might hang.
struct AppendOnlyFile: ~Copyable {
  let path: String
  private let file: OpenFiles.File
  private let openFiles: OpenFiles
  private(set) var wasClosed = false
  /// The first failure. Later writes are still attempted, because the disk might have space again.
  private(set) var failure: String?
  private(set) var problems: [ProblemList.Kind: String] = [:]
  /// Size of the last failed write. A smaller write might fit on a full disk.
  private var failedBytes = 0
  /// The length of the whole records. The next record overwrites an incomplete one.
  private(set) var bytes: off_t = 0

  /// Fails if the file exists; does not follow a symbolic link.
  init(path: String, among openFiles: OpenFiles = OpenFiles()) throws(AppendOnlyFileError) {
    self.path = path
    self.openFiles = openFiles
    openFiles.makeRoom()
    file = OpenFiles.File(try DirectoryFiles.create(path, O_RDWR))
    openFiles.use(file)
  }

  deinit { openFiles.close(file) }

  /// Returns the open file's number, reopened if the service closed the file; `nil` on failure.
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

  /// Overwrites the record at `place` with a record of equal length, which needs no disk space.
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

  /// False once the file is closed and removed.
  var isReadable: Bool { mutating get { number() != nil } }

  /// Copies the contents to `other`, which must be empty. Returns `false` on failure.
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

  mutating func remove() { unlink(path) }

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

struct AppendOnlyFileError: Error {
  var text: String
}

enum DirectoryFiles {
  /// Fails if the file exists; does not follow a symbolic link.
  static func create(_ path: String, _ mode: Int32) throws(AppendOnlyFileError) -> clinux_descriptor {
    let number = open(path, mode | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    var error = errno
    if number >= 0 {
      let created = clinux_descriptor_keep_file(number, path)
      // Regardless of umask(2), because the next launch has to read the file.
      if created.number >= 0, fchmod(created.number, 0o600) == 0 { return created }
      // The service has closed the file, and might have reused the number.
      error = created.number < 0 ? errno : EBADF
      unlink(path)
    }
    throw AppendOnlyFileError(text: "cannot create \(path): \(String(cString: strerror(error)))")
  }

  /// Returns `nil` if the file at `path` is not the file of `descriptor`.
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

  /// Locks the whole file for this process (fcntl(2)). Returns whether no other process has locked it.
  static func lock(_ number: Int32) -> Bool {
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    return fcntl(number, F_SETLK, &lock) == 0
  }

  /// Syncs the names of the files in `directory`.
  static func flush(_ directory: String) {
    var opened = clinux_descriptor_keep(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    guard opened.number >= 0 else { return }
    _ = allowingFork { fsync(opened.number) }
    clinux_descriptor_close(&opened)
  }

  /// Creates `directory` if needed, and checks that files can be created in it.
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
        guard errno == EACCES || errno == EROFS else {
          throw DirectoryError(path: directory, reason: String(cString: strerror(errno)))
        }
        refusal = refusal ?? errno
      }
    }
    var information = stat()
    guard stat(directory, &information) == 0 else {
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

struct DirectoryError: Error, CustomStringConvertible {
  let path: String
  let reason: String

  var description: String {
    "stalls cannot be saved in \(printable(path, limit: sentencePartMax)): \(printable(reason))"
  }
}
