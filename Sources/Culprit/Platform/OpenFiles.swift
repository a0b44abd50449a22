import CCulpritLinux

/// The open stall files. Opening a file beyond ``limit`` closes the least recently used one, which is reopened by name
/// for its next write. Only the disk thread opens and writes; any thread can release a file.
final class OpenFiles: Sendable {
  static let limit = 16

  final class File: @unchecked Sendable {
    // SAFETY: only the disk thread changes the file while a stall refers to it. The last reference closes it.
    var descriptor: clinux_descriptor
    /// Whether the file was closed in favor of another file; `descriptor` then holds the file's identity.
    var isSetAside = false

    init(_ descriptor: clinux_descriptor) { self.descriptor = descriptor }
  }

  /// Ordered by use, the least recent first.
  private let files = Mutex<[File]>([])

  var count: Int { files.withLock { $0.count } }

  func makeRoom() {
    files.withLock { files in
      // A file whose identity cannot be read stays open.
      for file in files where files.count >= Self.limit && clinux_descriptor_set_aside(&file.descriptor) {
        file.isSetAside = true
        files.removeAll { $0 === file }
      }
    }
  }

  func use(_ file: File) {
    files.withLock { files in
      guard files.last !== file else { return }
      files.removeAll { $0 === file }
      files.append(file)
    }
  }

  /// Closes `file` permanently. On threads other than the disk thread, the next ``makeRoom()`` does this.
  func close(_ file: File) {
    guard file.isSetAside || file.descriptor.table == clinux_descriptor_table() else { return }
    files.withLock { $0.removeAll { $0 === file } }
    if !file.isSetAside { clinux_descriptor_close(&file.descriptor) }
  }
}
