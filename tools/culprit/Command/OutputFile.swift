import CCulpritLinux
import CulpritOptions
import CulpritSymbols
import Glibc

/// A file that is replaced atomically. The new file stays unnamed until it replaces the old file.
///
/// On file systems without unnamed files, the new file has a temporary name, and the command removes the file at its
/// end, except after SIGKILL.
final class OutputFile {
  private let path: String
  private let temporary: String
  private var descriptor: Int32?
  private var hasName = false
  private let isStandardOutput: Bool

  /// Creates the file; standard output if `path` is "-" or an equivalent path.
  init(_ path: String) throws(InputError) {
    isStandardOutput = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].contains(path)
    // For a link, the target is replaced.
    let place = isStandardOutput ? path : realPath(path)
    self.path = place
    temporary = "\(place).\(getpid()).new"
    guard !isStandardOutput else { return }
    // A temporary file for an empty path could never be renamed.
    guard !path.isEmpty else { throw InputError(path, ENOENT) }
    var information = stat()
    let isThere = stat(place, &information) == 0
    // Renaming would replace any type of file.
    guard !isThere || information.st_mode & S_IFMT == S_IFREG else {
      throw InputError(
        path,
        information.st_mode & S_IFMT == S_IFDIR ? "it is a directory" : "not a regular file"
      )
    }
    let end = place.lastIndex(of: "/")
    let directory = end.map { $0 == place.startIndex ? "/" : String(place[..<$0]) } ?? "."
    var opened = clinux_open_unnamed(directory, 0o644)
    if opened < 0 {
      opened = Interruption.withoutInterruption { kept in
        let opened = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
        if opened >= 0 { kept[temporary] = .file }
        return opened
      }
      guard opened >= 0 else { throw InputError(path, errno) }
      hasName = true
    }
    // The new file keeps the permissions of the old one.
    if isThere { fchmod(opened, information.st_mode & 0o777) }
    descriptor = opened
  }

  var isTerminal: Bool { isStandardOutput && isatty(STDOUT_FILENO) == 1 }

  /// Discards an uncommitted file.
  deinit {
    guard let descriptor else { return }
    close(descriptor)
    guard hasName else { return }
    Interruption.withoutInterruption { kept in
      unlink(temporary)
      kept[temporary] = nil
    }
  }

  func write(_ bytes: [UInt8]) throws(InputError) {
    guard let descriptor else { return output.print(bytes: bytes) }
    let error = writeAll(bytes, to: descriptor)
    guard error == 0 else { throw InputError(path, error) }
    Progress.shared.didWrite(bytes.count)
  }

  func commit() throws(InputError) {
    guard let descriptor else { return }
    self.descriptor = nil
    let error = Interruption.withoutInterruption { kept -> Int32 in
      defer { close(descriptor) }
      if !hasName {
        let error = -clinux_link_unnamed(descriptor, path)
        guard error == EEXIST else { return error }
        // Renaming can replace a file, but linking cannot.
        let second = -clinux_link_unnamed(descriptor, temporary)
        guard second == 0 else { return second }
      }
      kept[temporary] = nil
      guard rename(temporary, path) != 0 else { return 0 }
      let error = errno
      unlink(temporary)
      return error
    }
    guard error == 0 else { throw InputError(path, error) }
  }
}
