import CCulpritLinux
import CCulpritProcess
import CulpritBlackBox
import CulpritStallRecord
import Glibc
import Synchronization

/// The file in which this run of the service says who it is, and that it has ended. Used by the disk thread, but for
/// its end.
///
/// It is locked (fcntl(2), which no child inherits) from before it has its name until the process is over.
final class RunFile: Sendable {
  /// Its name in the directory.
  let name: String
  private let directory: String
  private let stem: String
  private let record: RunRecord
  private let notesCrashes: Bool
  private let disk: DiskThread
  /// The open file.
  private let descriptor = Mutex<clinux_descriptor?>(nil)
  private let problems: ProblemList
  /// Whose it is.
  private let owner = clinux_process_stamp()
  /// When the run ended, on the wall clock; 0 while it goes on.
  private let endTime = Atomic<UInt64>(0)
  private let endIsWritten = Promise<Bool>()

  /// The file of the watchdog that runs, for when the process exits without having stopped it.
  private static let current = Mutex<RunFile?>(nil)
  /// Whose that is. Read before the lock is tried.
  private static let currentOwner = Atomic<UInt32>(0)
  private static let atExit: Void = {
    atexit {
      // Not in a child of the process, which runs this, too.
      guard clinux_process_is(RunFile.currentOwner.load(ordering: .acquiring)) else { return }
      // Who holds the lock is about to start a watchdog or has stopped one.
      let file = RunFile.current.withLockIfAvailable { $0 } ?? nil
      file?.end(until: clinux_clock_ns() &+ 1_000_000_000)
    }
  }()

  /// What `process` will have in `directory`. Nothing is there before ``open()``.
  ///
  /// - Parameters:
  ///   - directory: Where it will be.
  ///   - process: This process.
  ///   - notesCrashes: Whether the signal that ends the process is noted in it.
  ///   - disk: What writes its end.
  ///   - problems: Where it is noted that the service has closed it.
  init(
    directory: String,
    process: ObservedProcess,
    notesCrashes: Bool,
    disk: DiskThread,
    problems: ProblemList
  ) {
    self.problems = problems
    self.directory = directory
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
      if var opened = descriptor { clinux_descriptor_close(&opened) }
      descriptor = nil
    }
  }

  /// Creates the file. On the disk thread.
  ///
  /// - Throws: Why there is none.
  func open() throws(AppendOnlyFileError) {
    try create()
    guard notesCrashes, let opened = descriptor.withLock({ $0 }) else { return }
    guard endTime.load(ordering: .acquiring) == 0 else { return }
    let run = cprocess_crash_start(opened, record.number)
    // Not the disk thread, which may wait for the disk or for who dies.
    do throws(PosixThreadError) {
      try PosixThread(name: "culprit-note") { resting { cprocess_crash_write_notes(run) } }.detach()
    } catch {
      cprocess_crash_stop()
      problems.note("crashes are not noted: \(WatchdogError.threadNotStarted(error).message)")
    }
    // The disk may have answered only now: nothing must be noted in a file that is about to be closed.
    if endTime.load(ordering: .acquiring) != 0 { cprocess_crash_stop() }
  }

  /// Prepares for ``end(until:)``, and has that called when the process exits without having stopped its watchdog.
  func endAtExit() {
    disk.prepareLast { [self] in writeEnd() }
    _ = Self.atExit
    Self.current.withLock { $0 = self }
    Self.currentOwner.store(owner, ordering: .releasing)
  }

  /// Creates the file once more when somebody has removed it, or its directory, or when there was no room for it
  /// before; opens it once more when the service has closed it. On the disk thread.
  func ensure() {
    guard endTime.load(ordering: .acquiring) == 0 else { return }
    guard let opened = descriptor.withLock({ $0 }) else {
      try? DirectoryFiles.prepare(directory)
      try? open()
      return
    }
    var former = opened
    if !clinux_descriptor_is_ours(&former) {
      problems.note("\(directory): the service has closed files that are not its own; they have been opened again")
      if let again = DirectoryFiles.reopen("\(directory)/\(name)", opened, O_RDWR | O_APPEND) {
        // It went with the number.
        _ = Self.lock(again.number)
        replace(again)
        return
      }
    } else {
      var own = stat()
      var present = stat()
      guard fstat(opened.number, &own) == 0 else { return }
      if lstat("\(directory)/\(name)", &present) == 0 {
        guard present.st_ino != own.st_ino || present.st_dev != own.st_dev else { return }
      } else {
        guard errno == ENOENT || errno == ENOTDIR else { return }
      }
    }
    try? DirectoryFiles.prepare(directory)
    try? create()
  }

  /// Takes `opened` for the open file, and has crashes noted there.
  private func replace(_ opened: clinux_descriptor) {
    let former = descriptor.withLock { descriptor in
      defer { descriptor = opened }
      return descriptor
    }
    guard var former else { return }
    cprocess_crash_move(opened)
    clinux_descriptor_replace(&former, opened)
  }

  /// Locks a file against who looks which runs are over.
  private static func lock(_ number: Int32) -> Bool {
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    return fcntl(number, F_SETLK, &lock) == 0
  }

  /// Creates the file and takes it for the one that is open.
  private func create() throws(AppendOnlyFileError) {
    // Nobody must find it without its lock.
    let new = "\(directory)/\(stem).new"
    var created = try DirectoryFiles.create(new, O_RDWR | O_APPEND)
    let number = created.number
    guard Self.lock(number), Self.append(record.text, to: number),
      resting({ fsync(number) }) == 0 || errno == EINVAL,
      rename(new, "\(directory)/\(name)") == 0
    else {
      let error = errno
      unlink(new)
      clinux_descriptor_close(&created)
      throw AppendOnlyFileError(text: "cannot write \(new): \(String(cString: strerror(error)))")
    }
    // Another file than that of before: closing that one takes no lock away from this.
    replace(created)
    DirectoryFiles.flush(directory)
  }

  /// Says that the run has ended in an orderly way, and waits until the file has it, until `deadline` at most; also
  /// when another thread says it: the process may exit when this one returns. Does nothing in a child of the process.
  ///
  /// Neither allocates nor locks what anybody keeps, for exit(3) in a handler (``DiskThread/doLast()``).
  func end(until deadline: UInt64) {
    guard clinux_process_is(owner) else { return }
    let isFirst = endTime.compareExchange(
      expected: 0,
      desired: clinux_clock_wall_ns(),
      ordering: .acquiringAndReleasing
    )
    .exchanged
    if isFirst {
      cprocess_crash_stop()
      disk.doLast()
    }
    _ = endIsWritten.wait(until: deadline)
  }

  /// Writes the end. On the disk thread.
  private func writeEnd() {
    let time = WallTime(nanosecondsSince1970: endTime.load(ordering: .acquiring))
    if let opened = descriptor.withLock({ $0 }) {
      var present = opened
      if !clinux_descriptor_is_ours(&present),
        let again = DirectoryFiles.reopen("\(directory)/\(name)", opened, O_RDWR | O_APPEND)
      {
        replace(again)
        present = again
      }
      if clinux_descriptor_is_ours(&present), Self.append(record.end(at: time), to: present.number) {
        _ = resting { fsync(present.number) }
      }
    }
    Self.current.withLock { if $0 === self { $0 = nil } }
    endIsWritten.fulfill(true)
  }

  private static func append(_ text: String, to descriptor: Int32) -> Bool {
    let bytes = Array(text.utf8)
    return write(descriptor, bytes, bytes.count) == bytes.count
  }
}
