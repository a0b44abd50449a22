import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CulpritBlackBox
import CulpritStallRecord
import Glibc
import Synchronization

/// The file in which this run of the service records its identity and its end. Used by the disk thread.
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
  /// The root that the directory's path begins at.
  private let root = clinux_root()
  /// When the run ended, on the wall clock; 0 while it goes on.
  private let endTime = Atomic<UInt64>(0)
  private let endIsWritten = Promise<Bool>()

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
    guard let opened = descriptor.withLock({ $0 }), endTime.load(ordering: .acquiring) == 0 else { return }
    let run = cprocess_crash_start(opened, record.number, notesCrashes)
    // Not the disk thread, which may wait for the disk or for who dies. It inherits the disk thread's descriptors.
    let table = clinux_descriptor_table()
    do throws(PosixThreadError) {
      try PosixThread(name: "culprit-note") {
        clinux_descriptor_share_table(table)
        observer_hang_notes_start()
        resting { cprocess_crash_write_notes(run, observer_hang_notes_write) }
      }
      .detach()
    } catch {
      cprocess_crash_stop()
      problems.note(
        "crashes, and hangs that are not recorded, are not noted: \(WatchdogError.threadNotStarted(error).message)"
      )
    }
    // The disk may have answered only now: nothing must be noted in a file that is about to be closed.
    if endTime.load(ordering: .acquiring) != 0 { cprocess_crash_stop() }
  }

  /// Adds the modules of this process: with them the next launch finds names for a hang that was only noted.
  func add(_ modules: [Module]) {
    disk.put(bytes: 256 * modules.count) { [self] in
      guard let opened = descriptor.withLock({ $0 }), withUnsafePointer(to: opened, clinux_descriptor_is_ours) else {
        return
      }
      _ = Self.append(record.lines(of: modules), to: opened.number)
    }
  }

  /// Whether the directory's path leads elsewhere: the process has another root (chroot(2)), and the disk thread could not keep its
  /// former one. Open files stay in their place.
  var isOutOfReach: Bool { clinux_root() != root }

  /// Creates the file once more when somebody has removed it, or its directory, or when there was no room for it
  /// before; opens it once more when the service has closed it. On the disk thread.
  func ensure() {
    guard endTime.load(ordering: .acquiring) == 0, !isOutOfReach else { return }
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

  /// Records that the run has ended in an orderly way, and waits until the file has it, until `deadline` at most; also
  /// when another thread does that. Does nothing in a child of the process.
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
      disk.put(isVital: true) { [self] in writeEnd() }
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
    endIsWritten.fulfill(true)
  }

  private static func append(_ text: String, to descriptor: Int32) -> Bool {
    let bytes = Array(text.utf8)
    return write(descriptor, bytes, bytes.count) == bytes.count
  }
}
