import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CulpritBlackBox
import CulpritStallRecord
import Glibc
import Synchronization

/// The file in which this run of the service records its identity and its end. Used by the disk thread.
///
/// The file is locked by fcntl(2), which children do not inherit, from before its renaming to its final name until the
/// process ends.
final class RunFile: Sendable {
  /// The name of the file in its directory.
  let name: String
  private let directory: String
  private let stem: String
  private let record: RunRecord
  private let notesCrashes: Bool
  private let disk: DiskThread
  /// The open file.
  private let descriptor = Mutex<clinux_descriptor?>(nil)
  private let problems: ProblemList
  /// The process that created the file.
  private let owner = clinux_process_stamp()
  /// The root of the directory's path.
  private let root = clinux_root()
  /// The time at which the run ended, on the wall clock; 0 while it continues.
  private let endTime = Atomic<UInt64>(0)
  private let endIsWritten = Promise<Bool>()

  /// Prepares the file of `process`. It is created by ``open()``.
  ///
  /// - Parameters:
  ///   - directory: The directory of the file.
  ///   - process: This process.
  ///   - notesCrashes: Whether the signal that ends the process is recorded in the file.
  ///   - disk: The thread that writes the end.
  ///   - problems: The list for problems, for example a file closed by the service.
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

  /// Creates the file. Called on the disk thread.
  ///
  /// - Throws: The reason why the file could not be created.
  func open() throws(AppendOnlyFileError) {
    try create()
    guard let opened = descriptor.withLock({ $0 }), endTime.load(ordering: .acquiring) == 0 else { return }
    let run = cprocess_crash_start(opened, record.number, notesCrashes)
    // A separate thread, because the disk thread might be waiting for the disk, and notes wait for a dying thread. It
    // shares the disk thread's descriptors.
    let table = clinux_descriptor_table()
    do throws(PosixThreadError) {
      try PosixThread(name: "culprit-note") {
        clinux_descriptor_share_table(table)
        observer_hang_notes_start()
        allowingFork { cprocess_crash_write_notes(run, observer_hang_notes_write) }
      }
      .detach()
    } catch {
      cprocess_crash_stop()
      problems.note(
        "crashes and unrecorded hangs are not noted: \(WatchdogError.threadNotStarted(error).message)"
      )
    }
    // The run might have ended while the disk did not answer. Notes must not be written to a file that is about to be
    // closed.
    if endTime.load(ordering: .acquiring) != 0 { cprocess_crash_stop() }
  }

  /// Adds the modules of this process. The next launch needs them to symbolize a hang that was only noted.
  func add(_ modules: [Module]) {
    disk.put(bytes: 256 * modules.count) { [self] in
      guard let opened = descriptor.withLock({ $0 }), withUnsafePointer(to: opened, clinux_descriptor_is_ours) else {
        return
      }
      _ = Self.append(record.lines(of: modules), to: opened.number)
    }
  }

  /// Whether the directory's path resolves to a different place, because the process has changed its root (chroot(2))
  /// and the disk thread could not keep the former one. Open files remain usable.
  var isOutOfReach: Bool { clinux_root() != root }

  /// Creates the file again if it, or its directory, has been removed, or if there was no room earlier. Opens it again
  /// if the service has closed it. Called on the disk thread.
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
        // Closing the descriptor released the lock.
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

  /// Makes `opened` the open file, and redirects crash notes to it.
  private func replace(_ opened: clinux_descriptor) {
    let former = descriptor.withLock { descriptor in
      defer { descriptor = opened }
      return descriptor
    }
    guard var former else { return }
    cprocess_crash_move(opened)
    clinux_descriptor_replace(&former, opened)
  }

  /// Locks the file, which marks the run as live for readers of the directory.
  private static func lock(_ number: Int32) -> Bool {
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    return fcntl(number, F_SETLK, &lock) == 0
  }

  /// Creates the file and makes it the open one.
  private func create() throws(AppendOnlyFileError) {
    // The file has its final name only once it is locked, so that readers never find it unlocked.
    let new = "\(directory)/\(stem).new"
    var created = try DirectoryFiles.create(new, O_RDWR | O_APPEND)
    let number = created.number
    guard Self.lock(number), Self.append(record.text, to: number),
      allowingFork({ fsync(number) }) == 0 || errno == EINVAL,
      rename(new, "\(directory)/\(name)") == 0
    else {
      let error = errno
      unlink(new)
      clinux_descriptor_close(&created)
      throw AppendOnlyFileError(text: "cannot write \(new): \(String(cString: strerror(error)))")
    }
    // A different inode than the previous file: closing that one does not release the lock on this one.
    replace(created)
    DirectoryFiles.flush(directory)
  }

  /// Records an orderly end of the run, and waits until it is written or `deadline` has passed, also when another
  /// thread writes it. Does nothing in a child of fork(2).
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

  /// Writes the end. Called on the disk thread.
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
        _ = allowingFork { fsync(present.number) }
      }
    }
    endIsWritten.fulfill(true)
  }

  private static func append(_ text: String, to descriptor: Int32) -> Bool {
    let bytes = Array(text.utf8)
    return write(descriptor, bytes, bytes.count) == bytes.count
  }
}
