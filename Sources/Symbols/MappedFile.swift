import CCulpritLinux
import Glibc

struct ElfError: Error {
  var text: String
}

/// A memory-mapped file.
///
/// Reading beyond the end of a truncated file ends the process with SIGBUS, so readers check ``isIntact`` first.
/// Replacing the file, as package managers and linkers do, does not affect the mapping.
final class MappedFile {
  let bytes: Bytes
  let path: String
  private let device: dev_t
  private let inode: ino_t
  private let size: off_t

  /// - Throws: ``ElfError`` if the file cannot be opened or is not a regular file.
  init(path: String) throws(ElfError) {
    guard !path.utf8.contains(0) else { throw ElfError(text: "the path contains a NUL byte") }
    let descriptor = clinux_open_regular(path)
    guard descriptor >= 0 else {
      guard descriptor != -EINVAL else { throw ElfError(text: "\(path) is not a regular file") }
      let name = path.isEmpty ? "\"\"" : path
      throw ElfError(text: "cannot open \(name): \(String(cString: strerror(-descriptor)))")
    }
    // Closed below, because the service might close this descriptor and reuse its number.
    var file = clinux_descriptor_keep(descriptor)
    defer { clinux_descriptor_close(&file) }
    var information = stat()
    guard fstat(file.number, &information) == 0 else { throw ElfError(text: "cannot read the status of \(path)") }
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

  /// Whether the file still has all the mapped bytes.
  var isIntact: Bool {
    var information = stat()
    // A replacement has another inode and does not change the mapped file.
    guard stat(path, &information) == 0, information.st_dev == device, information.st_ino == inode else { return true }
    return information.st_size >= size
  }

  /// Informs the kernel that `part` is not needed in memory for now.
  func release(_ part: Bytes) {
    let page = 4096
    let first = (Int(bitPattern: part.base) + page - 1) / page * page
    let last = (Int(bitPattern: part.base) + part.count) / page * page
    guard first < last, let start = UnsafeMutableRawPointer(bitPattern: first) else { return }
    // SAFETY: whole pages inside a private, unmodified mapping of a file: they are read again on access.
    madvise(start, last - first, MADV_DONTNEED)
  }
}
