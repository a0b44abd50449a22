import BlackBox
import CObserver
import Glibc
import StallRecord
import Synchronization

/// The file in which this run of the service says who it is, and that it has ended. Used by the disk thread, but for its end.
///
/// It is locked (fcntl(2), which no child inherits) from before it has its name until the process is over.
final class RunFile: Sendable {
  /// Its name in the directory.
  let name: String
  private let directory: String
  private let stem: String
  private let process: pid_t
  private let record: RunRecord
  private let notesCrashes: Bool
  private let disk: DiskThread
  /// The open file, always under the same number: who notes a crash has only that.
  private let descriptor = Mutex<Int32?>(nil)
  /// When the run ended, on the wall clock; 0 while it goes on.
  private let endTime = Atomic<UInt64>(0)
  private let endIsWritten = Answer<Bool>()

  /// The file of the watchdog that runs, for when the process exits without having stopped it.
  private static let current = Mutex<RunFile?>(nil)
  private static let atExit: Void = {
    atexit {
      // Who holds the lock is about to start a watchdog or has stopped one, or was there when a child was forked that this is.
      let file = RunFile.current.withLockIfAvailable { $0 } ?? nil
      file?.end(until: observer_clock_ns() &+ 1_000_000_000)
    }
  }()

  /// What `process` will have in `directory`. Nothing is there before ``open()``.
  ///
  /// - Parameters:
  ///   - directory: Where it will be.
  ///   - process: This process.
  ///   - notesCrashes: Whether the signal that ends the process is noted in it.
  ///   - disk: What writes its end.
  init(directory: String, process: ObservedProcess, notesCrashes: Bool, disk: DiskThread) {
    self.directory = directory
    self.process = process.id
    self.notesCrashes = notesCrashes
    self.disk = disk
    stem = "culprit-\(process.watchedSince.fileNamePart)-\(process.id)"
    name = "\(stem).run"
    record = RunRecord(
      identity: .ofThisProcess(),
      executable: process.executable,
      since: process.watchedSince,
      memoryKills: MemoryKills.ofThisProcess()
    )
  }

  deinit {
    descriptor.withLock { descriptor in
      if let descriptor { close(descriptor) }
    }
  }

  /// Creates the file. On the disk thread.
  ///
  /// - Throws: Why there is none.
  func open() throws(StallFileSinkError) {
    try create()
    guard notesCrashes, let opened = descriptor.withLock({ $0 }) else { return }
    guard endTime.load(ordering: .acquiring) == 0 else { return }
    observer_crash_start(opened, record.number)
    // The disk may have answered only now: nothing must be noted in a file that is about to be closed.
    if endTime.load(ordering: .acquiring) != 0 { observer_crash_stop() }
  }

  /// Prepares for ``end(until:)``, and has that called when the process exits without having stopped its watchdog.
  func endAtExit() {
    disk.prepareLast { [self] in writeEnd() }
    _ = Self.atExit
    Self.current.withLock { $0 = self }
  }

  /// Creates the file once more when somebody has removed it, or its directory, or when there was no room for it before. On the
  /// disk thread.
  func ensure() {
    guard endTime.load(ordering: .acquiring) == 0 else { return }
    guard let opened = descriptor.withLock({ $0 }) else {
      try? DirectoryFiles.prepare(directory)
      try? open()
      return
    }
    var own = stat()
    var present = stat()
    guard fstat(opened, &own) == 0 else { return }
    if lstat("\(directory)/\(name)", &present) == 0 {
      guard present.st_ino != own.st_ino || present.st_dev != own.st_dev else { return }
    } else {
      guard errno == ENOENT || errno == ENOTDIR else { return }
    }
    try? DirectoryFiles.prepare(directory)
    try? create()
  }

  /// Creates the file and takes it for the one that is open.
  private func create() throws(StallFileSinkError) {
    // Nobody must find it without its lock.
    let new = "\(directory)/\(stem).new"
    var created = Glibc.open(new, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard created >= 0 else {
      throw StallFileSinkError(text: "cannot create \(new): \(String(cString: strerror(errno)))")
    }
    DirectoryFiles.ignoreMask(created)
    let former = descriptor.withLock { $0 }
    if let former {
      // Before it is locked: closing a file takes this process's locks on it away.
      let isReplaced = observer_crash_move(created, former)
      close(created)
      guard isReplaced else {
        unlink(new)
        return
      }
      created = former
    }
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    guard fcntl(created, F_SETLK, &lock) == 0, Self.append(record.text, to: created),
      fsync(created) == 0 || errno == EINVAL,
      rename(new, "\(directory)/\(name)") == 0
    else {
      let error = errno
      unlink(new)
      if former == nil { close(created) }
      throw StallFileSinkError(text: "cannot write \(new): \(String(cString: strerror(error)))")
    }
    descriptor.withLock { $0 = created }
    DirectoryFiles.flush(directory)
  }

  /// Says that the run has ended in an orderly way, and waits until the file has it, until `deadline` at most; also when another
  /// thread says it: the process may exit when this one returns. Does nothing in a child of the process.
  ///
  /// Neither allocates nor locks what anybody keeps, for exit(3) in a handler (``DiskThread/doLast()``).
  func end(until deadline: UInt64) {
    guard getpid() == process else { return }
    let isFirst = endTime.compareExchange(
      expected: 0,
      desired: observer_clock_wall_ns(),
      ordering: .acquiringAndReleasing
    )
    .exchanged
    if isFirst {
      observer_crash_stop()
      disk.doLast()
    }
    _ = endIsWritten.wait(until: deadline)
  }

  /// Writes the end. On the disk thread.
  private func writeEnd() {
    let time = WallTime(nanosecondsSince1970: endTime.load(ordering: .acquiring))
    if let opened = descriptor.withLock({ $0 }), Self.append(record.end(at: time), to: opened) { fsync(opened) }
    Self.current.withLock { if $0 === self { $0 = nil } }
    endIsWritten.give(true)
  }

  private static func append(_ text: String, to descriptor: Int32) -> Bool {
    let bytes = Array(text.utf8)
    return write(descriptor, bytes, bytes.count) == bytes.count
  }
}
