import CCulpritLinux
import CulpritOptions
import CulpritStallRecord
import Glibc

/// The output of an export. Recordings are never overwritten, because their samples cannot be reproduced.
struct ExportDestination {
  /// The operand; "-" for standard output.
  let path: String
  /// The path for checks, which follow links. Also defined for standard output.
  private let place: String

  /// Creates the destination; standard output if `path` is `nil`.
  ///
  /// - Throws: ``UsageError`` if the destination is a recording or has the suffix of one.
  init(_ path: String?) throws(UsageError) {
    self.path = path ?? "-"
    place = path == nil || path == "-" ? "/proc/self/fd/\(STDOUT_FILENO)" : self.path
    guard !self.path.lowercased().hasSuffix(".stall") else {
      throw UsageError("\(shown) has the suffix of a recording: choose another name for the export")
    }
    guard !Self.isRecording(place) else {
      throw UsageError("refusing to overwrite the recording \(shown)")
    }
  }

  private var shown: String { path == "-" ? "standard output" : path }

  /// Throws a ``UsageError`` if the destination is one of `files`, under any name.
  func requireNone(of files: Expansion) throws(UsageError) {
    guard let own = Self.identity(place) else { return }
    let inputs = files.paths.isEmpty ? ["-"] : files.paths
    for input in inputs where Self.identity(input == "-" ? "/proc/self/fd/\(STDIN_FILENO)" : input) == own {
      let name = input == "-" ? "standard input" : input
      throw UsageError("refusing to overwrite \(shown), which is also an input (\(name))")
    }
  }

  private struct Identity: Equatable {
    var device: dev_t
    var inode: ino_t
  }

  /// Returns `nil` except for regular files, because a terminal can be both input and output.
  private static func identity(_ path: String) -> Identity? {
    var information = stat()
    guard stat(path, &information) == 0, information.st_mode & S_IFMT == S_IFREG else { return nil }
    return Identity(device: information.st_dev, inode: information.st_ino)
  }

  private static func isRecording(_ path: String) -> Bool {
    let descriptor = clinux_open_regular(path)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    let beginning = [UInt8](unsafeUninitializedCapacity: StallFile.beginning.count) { buffer, count in
      count = max(0, read(descriptor, buffer.baseAddress, buffer.count))
    }
    return beginning == StallFile.beginning
  }
}
