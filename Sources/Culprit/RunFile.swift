import BlackBox
import CObserver
import Glibc
import StallRecord
import Synchronization

/// The file in which this run of the service says who it is, and that it has ended.
///
/// It is locked (fcntl(2), which no child inherits) from before it has its name until the process is over.
final class RunFile: Sendable {
  /// Its name in the directory.
  let name: String
  private let descriptor: Int32
  private let process: pid_t
  private let hasEnded = Mutex(false)

  /// The file of the watchdog that runs, for when the process exits without having stopped it.
  private static let current = Mutex<RunFile?>(nil)
  private static let atExit: Void = {
    atexit {
      let file = RunFile.current.withLock { $0 }
      file?.end()
    }
  }()

  /// Creates the file of `process` in `directory`.
  ///
  /// - Parameters:
  ///   - directory: Where it is.
  ///   - process: This process.
  ///   - notesCrashes: Whether the signal that ends the process is noted in it.
  /// - Throws: Why there is none.
  init(directory: String, process: ObservedProcess, notesCrashes: Bool) throws(StallFileSinkError) {
    let stem = "culprit-\(process.watchedSince.fileNamePart)-\(process.id)"
    self.process = process.id
    // Nobody must find it without its lock.
    let new = "\(directory)/\(stem).new"
    descriptor = open(new, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else {
      throw StallFileSinkError(text: "cannot create \(new): \(String(cString: strerror(errno)))")
    }
    name = "\(stem).run"
    let record = RunRecord(
      identity: .ofThisProcess(),
      executable: process.executable,
      since: process.watchedSince,
      memoryKills: MemoryKills.ofThisProcess()
    )
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    guard fcntl(descriptor, F_SETLK, &lock) == 0, append(record.text), rename(new, "\(directory)/\(name)") == 0 else {
      let error = errno
      unlink(new)
      close(descriptor)
      throw StallFileSinkError(text: "cannot write \(new): \(String(cString: strerror(error)))")
    }
    _ = Self.atExit
    Self.current.withLock { $0 = self }
    if notesCrashes { observer_crash_start(descriptor) }
  }

  deinit { close(descriptor) }

  /// Says that the run has ended in an orderly way. Does nothing the second time, or in a child of the process.
  func end() {
    guard getpid() == process else { return }
    let isFirst = hasEnded.withLock { hasEnded in
      defer { hasEnded = true }
      return !hasEnded
    }
    guard isFirst else { return }
    observer_crash_stop()
    _ = append(RunRecord.end(at: WallTime(nanosecondsSince1970: observer_clock_wall_ns())))
    Self.current.withLock { $0 = nil }
  }

  private func append(_ text: String) -> Bool {
    let bytes = Array(text.utf8)
    return write(descriptor, bytes, bytes.count) == bytes.count
  }
}

extension WallTime {
  /// The time as names of files have it: they sort by it.
  var fileNamePart: String { description.filter { $0 != "-" && $0 != ":" } }
}
