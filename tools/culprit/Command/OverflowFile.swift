import CulpritStallRecord
import Glibc
import Synchronization

/// An unnamed file for data that does not fit into memory. It is in TMPDIR or /var/tmp, because /tmp might be in
/// memory.
///
/// If the file cannot be created or the disk is full, data stays in memory.
final class OverflowFile: OverflowStore {
  private struct State {
    /// The descriptor; `nil` before the first use, negative if the file cannot be created.
    var descriptor: Int32?
    var end = 0
  }

  private let state = Mutex(State())

  deinit {
    if let descriptor = state.withLock({ $0.descriptor }), descriptor >= 0 { close(descriptor) }
  }

  func append(_ bytes: UnsafeRawBufferPointer) -> Int? {
    // SAFETY: the buffer is used only during the call.
    nonisolated(unsafe) let bytes = bytes
    return state.withLock { state in
      let descriptor = state.descriptor ?? Self.open()
      state.descriptor = descriptor
      var written = 0
      while written < bytes.count, descriptor >= 0 {
        let rest = UnsafeRawBufferPointer(rebasing: bytes[written...])
        let count = pwrite(descriptor, rest.baseAddress, rest.count, state.end + written)
        if count > 0 { written += count } else if errno != EINTR { break }
      }
      guard written == bytes.count else { return nil }
      defer { state.end += written }
      return state.end
    }
  }

  func read(_ place: Int, into bytes: UnsafeMutableRawBufferPointer) {
    let descriptor = state.withLock { $0.descriptor ?? -1 }
    var done = 0
    while done < bytes.count {
      let rest = UnsafeMutableRawBufferPointer(rebasing: bytes[done...])
      let count = pread(descriptor, rest.baseAddress, rest.count, place + done)
      if count > 0 {
        done += count
      } else if count == 0 || errno != EINTR {
        let why = count == 0 ? "it was truncated" : String(cString: strerror(errno))
        output.error("cannot read a temporary file: \(why)")
        exit(1)
      }
    }
  }

  static func open() -> Int32 {
    let directory = getenv("TMPDIR").map { String(cString: $0) } ?? "/var/tmp"
    var template = Array("\(directory)/culprit-XXXXXX".utf8CString)
    // Signals cannot end the process between creating and unlinking the file.
    return Interruption.withoutInterruption { _ in
      let descriptor = mkstemp(&template)
      guard descriptor >= 0 else { return descriptor }
      unlink(template)
      _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
      return descriptor
    }
  }
}
