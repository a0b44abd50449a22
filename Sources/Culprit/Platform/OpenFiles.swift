import CCulpritLinux

/// The stall files that are open. Their number is bounded: a file that is opened closes the one used least recently,
/// which is opened again by its name when it is written.
///
/// Used by the disk thread. A file can be released by any thread.
final class OpenFiles: Sendable {
  /// The largest number of open files.
  static let limit = 16

  /// A file that might be closed at the moment.
  final class File: @unchecked Sendable {
    // SAFETY: the disk thread alone changes it while a stall refers to it; the last reference closes it.
    var descriptor: clinux_descriptor
    /// Whether it was closed in favour of another file; `descriptor` then has its identity.
    var isSetAside = false

    init(_ descriptor: clinux_descriptor) { self.descriptor = descriptor }
  }

  /// The open files, the least recently used first.
  private let files = Mutex<[File]>([])

  /// The number of open files.
  var count: Int { files.withLock { $0.count } }

  /// Closes files until another one can be opened.
  func makeRoom() {
    files.withLock { files in
      // A file whose identity cannot be read stays open.
      for file in files where files.count >= Self.limit && clinux_descriptor_set_aside(&file.descriptor) {
        file.isSetAside = true
        files.removeAll { $0 === file }
      }
    }
  }

  /// Records that the open file `file` is used now.
  func use(_ file: File) {
    files.withLock { files in
      guard files.last !== file else { return }
      files.removeAll { $0 === file }
      files.append(file)
    }
  }

  /// Closes `file` for good. The disk thread's own descriptors cannot be closed by another thread: such a file is closed when
  /// room is made.
  func close(_ file: File) {
    guard file.isSetAside || file.descriptor.table == clinux_descriptor_table() else { return }
    files.withLock { $0.removeAll { $0 === file } }
    if !file.isSetAside { clinux_descriptor_close(&file.descriptor) }
  }
}
