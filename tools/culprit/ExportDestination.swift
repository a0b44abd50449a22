import CCulpritLinux
import CulpritOptions
import CulpritStallRecord
import Glibc

/// OUT of an export. It never takes the place of a recording: what the samples say could not be had again.
struct ExportDestination {
  /// As it was given; "-" is standard output.
  let path: String
  /// What is looked at: links are followed, those to standard output too.
  private let place: String

  /// OUT at `path`; standard output where there is none.
  ///
  /// - Throws: ``UsageError`` where a recording is there, or its name is that of one.
  init(_ path: String?) throws(UsageError) {
    self.path = path ?? "-"
    place = path == nil || path == "-" ? "/proc/self/fd/\(STDOUT_FILENO)" : self.path
    guard !self.path.lowercased().hasSuffix(".stall") else {
      throw UsageError("\(shown) has the name of a recording, and an export is none")
    }
    guard !Self.isRecording(place) else {
      throw UsageError("\(shown) is a recording: an export would take its place")
    }
  }

  private var shown: String { path == "-" ? "standard output" : "--output=\(path)" }

  /// Refuses what is read as one of `files`, whatever it is called there.
  func requireNone(of files: Expansion) throws(UsageError) {
    guard let own = Self.identity(place) else { return }
    let inputs = files.paths.isEmpty ? ["-"] : files.paths
    for input in inputs where Self.identity(input == "-" ? "/proc/self/fd/\(STDIN_FILENO)" : input) == own {
      let name = input == "-" ? "standard input" : input
      throw UsageError("\(shown) is also read, as \(name): the export would take its place")
    }
  }

  /// What tells a file from all others, whatever its name.
  private struct Identity: Equatable {
    var device: dev_t
    var inode: ino_t
  }

  /// `nil` for what is no regular file: a terminal may be read and written.
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
