import CCulpritLinux
import CulpritStallRecord
import Glibc

/// A file that grows by whole records.
///
/// Used by the disk thread only: the disk may be what the service is stuck on, and nobody else may wait for it.
struct AppendOnlyFile: ~Copyable {
  /// Where the file is.
  let path: String
  private let file: OpenFiles.File
  private let openFiles: OpenFiles
  /// Whether the service has closed the file.
  private(set) var wasClosed = false
  /// The first error. What comes after it is tried all the same: the disk may have room again.
  private(set) var failure: String?
  /// How many bytes of whole records there are: the next one goes behind them, over what is left of one that was cut
  /// short.
  private(set) var bytes: off_t = 0

  /// Creates the file at `path`, open as one of `openFiles`. An existing file is not touched, and a link at the place
  /// is not followed.
  init(path: String, among openFiles: OpenFiles = OpenFiles()) throws(AppendOnlyFileError) {
    self.path = path
    self.openFiles = openFiles
    openFiles.makeRoom()
    file = OpenFiles.File(try DirectoryFiles.create(path, O_RDWR))
    openFiles.use(file)
  }

  deinit { openFiles.close(file) }

  /// The file's number, open for reading and writing; `nil` when the file is closed and has been removed.
  private mutating func number() -> Int32? {
    if clinux_descriptor_is_ours(&file.descriptor) {
      openFiles.use(file)
      return file.descriptor.number
    }
    if !file.isSetAside { wasClosed = true }
    openFiles.makeRoom()
    guard let opened = DirectoryFiles.reopen(path, file.descriptor, O_RDWR) else {
      fail("\(path) was closed, and cannot be opened again")
      return nil
    }
    clinux_descriptor_replace(&file.descriptor, opened)
    file.isSetAside = false
    openFiles.use(file)
    return opened.number
  }

  /// Appends `records`. Returns whether the file has them; if not, it has nothing of them.
  @discardableResult
  mutating func append(_ records: [UInt8]) -> Bool {
    guard write(records, at: bytes) else {
      // What is left of it is no record, and a reader would say so.
      if let number = number() { ftruncate(number, bytes) }
      return false
    }
    bytes += off_t(records.count)
    return true
  }

  /// Writes `record` over one of the same length at `place`: that takes no room.
  @discardableResult
  mutating func replace(_ record: [UInt8], at place: off_t) -> Bool { write(record, at: place) }

  private mutating func write(_ record: [UInt8], at offset: off_t) -> Bool {
    var written = 0
    while written < record.count {
      guard let number = number() else { return false }
      let count = record.withUnsafeBytes { buffer in
        // SAFETY: the rebased slice lies inside `record` and is used inside the closure only.
        let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
        return resting { pwrite(number, rest.baseAddress, rest.count, offset + off_t(written)) }
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        fail("cannot write to \(path): \(String(cString: strerror(errno)))")
        return false
      }
      written += count
    }
    return true
  }

  private mutating func fail(_ sentence: String) { if failure == nil { failure = sentence } }

  /// Whether it is gone from its place: somebody has removed it, or its directory.
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

  /// Whether what it has can be read: not once it is closed and removed.
  var isReadable: Bool { mutating get { number() != nil } }

  /// Copies everything that it has to `other`, which must be empty. Returns whether that was possible.
  mutating func copy(to other: inout AppendOnlyFile) -> Bool {
    guard let number = number() else { return false }
    var content = [UInt8](repeating: 0, count: Int(bytes))
    var read = 0
    while read < content.count {
      let count = content.withUnsafeMutableBytes { buffer in
        // SAFETY: as in write(_:at:).
        let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[read...])
        return pread(number, rest.baseAddress, rest.count, off_t(read))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return false }
      read += count
    }
    return other.append(content)
  }

  /// Removes the file; what is written from now on is written nowhere.
  mutating func remove() { unlink(path) }

  /// Brings what was written to the disk.
  mutating func flush() {
    // EINVAL: there is nothing behind this file that could be synced.
    guard let number = number(), resting({ fsync(number) }) != 0, errno != EINVAL else { return }
    fail("cannot bring \(path) to the disk: \(String(cString: strerror(errno)))")
  }
}

/// A file could not be created.
struct AppendOnlyFileError: Error {
  var text: String
}

/// What is done with directories as such.
enum DirectoryFiles {
  /// Creates the file at `path` and opens it with `mode`. An existing one is not touched, and a link at the place not
  /// followed.
  static func create(_ path: String, _ mode: Int32) throws(AppendOnlyFileError) -> clinux_descriptor {
    let number = open(path, mode | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    var error = errno
    if number >= 0 {
      let created = clinux_descriptor_keep_file(number, path)
      // The mode that is meant, whatever the process's mask takes away (umask(2)): the next launch has to read it.
      if created.number >= 0, fchmod(created.number, 0o600) == 0 { return created }
      // The service has closed it already, and the number may be that of a file of its own.
      error = created.number < 0 ? errno : EBADF
      unlink(path)
    }
    throw AppendOnlyFileError(text: "cannot create \(path): \(String(cString: strerror(error)))")
  }

  /// Opens the file at `path` once more, if it is the one that `descriptor` stood for before the service closed it;
  /// `nil` if not.
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

  /// Brings the names of the files in `directory` to the disk.
  static func flush(_ directory: String) {
    var opened = clinux_descriptor_keep(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
    guard opened.number >= 0 else { return }
    _ = resting { fsync(opened.number) }
    clinux_descriptor_close(&opened)
  }

  /// Makes `directory`, with its parents, if it does not exist, and checks that files can be made in it.
  static func prepare(_ directory: String) throws(DirectoryError) {
    // Before any of it is made.
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
        // A parent that exists but cannot be written to is no problem; whether it is one shows below.
        guard errno == EACCES || errno == EROFS else {
          throw DirectoryError(path: directory, reason: String(cString: strerror(errno)))
        }
        refusal = refusal ?? errno
      }
    }
    var information = stat()
    guard stat(directory, &information) == 0 else {
      // It is not there because it could not be made.
      let error = errno == ENOENT ? refusal ?? errno : errno
      throw DirectoryError(path: directory, reason: String(cString: strerror(error)))
    }
    guard information.st_mode & S_IFMT == S_IFDIR else {
      throw DirectoryError(path: directory, reason: "it is not a directory")
    }
    // By the effective user, which is who makes files.
    guard faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0 else {
      throw DirectoryError(path: directory, reason: String(cString: strerror(errno)))
    }
  }
}

/// Why stalls cannot be saved in a directory.
struct DirectoryError: Error, CustomStringConvertible {
  let path: String
  let reason: String

  /// The problem in one sentence, on one line.
  var description: String {
    "stalls cannot be saved in \(printable(path, limit: sentencePartMax)): \(printable(reason))"
  }
}
