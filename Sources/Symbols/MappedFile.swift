import CCulpritLinux
import Glibc

/// A sentence about a file that could not be used.
struct ElfError: Error {
  var text: String
}

/// A file in memory, page by page as it is looked at.
///
/// A page of a file that has been cut since ends the process with SIGBUS; so whoever reads asks ``isIntact`` first.
/// Package managers and linkers put a new file in the place of an old one, which does not touch this mapping.
final class MappedFile {
  /// The content.
  let bytes: Bytes
  /// The path that it was opened by.
  let path: String
  private let device: dev_t
  private let inode: ino_t
  private let size: off_t

  /// Maps the file at `path`.
  ///
  /// - Throws: ``ElfError`` when it cannot be opened or is not a regular file.
  init(path: String) throws(ElfError) {
    guard !path.utf8.contains(0) else { throw ElfError(text: "the path has a NUL in it") }
    let descriptor = clinux_open_regular(path)
    guard descriptor >= 0 else {
      guard descriptor != -EINVAL else { throw ElfError(text: "\(path) is not a regular file") }
      let name = path.isEmpty ? "\"\"" : path
      throw ElfError(text: "cannot open \(name): \(String(cString: strerror(-descriptor)))")
    }
    // Not kept for longer: the service may close it, and have a file of its own under the number.
    var file = clinux_descriptor_keep(descriptor)
    defer { clinux_descriptor_close(&file) }
    var information = stat()
    guard fstat(file.number, &information) == 0 else { throw ElfError(text: "cannot look at \(path)") }
    guard information.st_size > 0 else { throw ElfError(text: "\(path) is empty") }
    let count = Int(information.st_size)
    guard let base = mmap(nil, count, PROT_READ, MAP_PRIVATE, file.number, 0), base != MAP_FAILED else {
      throw ElfError(text: "cannot map \(path): \(String(cString: strerror(errno)))")
    }
    self.path = path
    device = information.st_dev
    inode = information.st_ino
    size = information.st_size
    bytes = Bytes(base: UnsafeRawPointer(base), count: count)
  }

  deinit {
    // SAFETY: the mapping was made in `init`, and `bytes` are not used after their file.
    munmap(UnsafeMutableRawPointer(mutating: bytes.base), bytes.count)
  }

  /// Whether the file still has all the bytes that were mapped.
  var isIntact: Bool {
    var information = stat()
    // A file that was put in its place has another inode: the one that is mapped stays what it is.
    guard stat(path, &information) == 0, information.st_dev == device, information.st_ino == inode else { return true }
    return information.st_size >= size
  }

  /// Tells the kernel that `part` is not needed in memory for now.
  func release(_ part: Bytes) {
    let page = 4096
    let first = (Int(bitPattern: part.base) + page - 1) / page * page
    let last = (Int(bitPattern: part.base) + part.count) / page * page
    guard first < last, let start = UnsafeMutableRawPointer(bitPattern: first) else { return }
    // SAFETY: whole pages inside a private mapping of a file that nobody writes to: they come back when looked at.
    madvise(start, last - first, MADV_DONTNEED)
  }
}
