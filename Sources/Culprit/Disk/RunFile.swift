import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CulpritBlackBox
import CulpritStallRecord
import Glibc
import Synchronization

/// The file in which this run records its identity and its end.
///
/// Before the file gets its final name, the process locks it with fcntl(2). Children do not inherit the lock.
final class RunFile: Sendable {
  let name: String
  private let directory: String
  private let stem: String
  private let record: RunRecord
  private let notesCrashes: Bool
  private let disk: DiskThread
  private let descriptor = Mutex<clinux_descriptor?>(nil)
  private let problems: ProblemList
  private let owner = clinux_process_stamp()
  private let root = clinux_root()
  /// On the wall clock; 0 while the run continues.
  private let endTime = Atomic<UInt64>(0)
  private let endIsWritten = Promise<Bool>()

  /// If `notesCrashes`, the signal that ends the process is recorded.
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
    if var opened = descriptor.exchange(nil) { clinux_descriptor_close(&opened) }
  }

  /// Called on the disk thread.
  func open() throws(AppendOnlyFileError) {
    try create()
    guard let opened = descriptor.withLock({ $0 }), endTime.load(ordering: .acquiring) == 0 else { return }
    let run = cprocess_crash_start(opened, record.number, notesCrashes)
    // A separate thread: a crashing thread waits for notes, and the disk might block the disk thread.
    let table = clinux_descriptor_table()
    do throws(WatchdogError) {
      try PosixThread(name: "culprit-note") {
        clinux_descriptor_share_table(table)
        observer_hang_notes_start()
        allowingFork { cprocess_crash_write_notes(run, observer_hang_notes_write) }
      }
      .detach()
    } catch {
      cprocess_crash_stop()
      problems.note("crashes and unrecorded hangs are not noted: \(error.message)")
    }
    // If the run has ended since the check, the file is about to be closed.
    if endTime.load(ordering: .acquiring) != 0 { cprocess_crash_stop() }
  }

  /// Adds the modules with which the next launch symbolizes a noted hang.
  func add(_ modules: [Module]) {
    disk.put(bytes: 256 * modules.count) { [self] in
      guard let opened = descriptor.withLock({ $0 }), withUnsafePointer(to: opened, clinux_descriptor_is_ours) else {
        return
      }
      _ = Self.append(record.lines(of: modules), to: opened.number)
    }
  }

  /// Whether the path resolves differently after chroot(2), because the disk thread could not keep the former root.
  var isOutOfReach: Bool { clinux_root() != root }

  /// Creates the file if it is missing, and opens it again if the service has closed it. Called on the disk thread.
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
        _ = DirectoryFiles.lock(again.number)
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

  /// Replaces the descriptor, also for crash notes.
  private func replace(_ opened: clinux_descriptor) {
    guard var former = descriptor.exchange(opened) else { return }
    cprocess_crash_move(opened)
    clinux_descriptor_replace(&former, opened)
  }

  private func create() throws(AppendOnlyFileError) {
    // The lock marks the run as live. The file is locked before it has its final name, so readers never find it unlocked.
    let new = "\(directory)/\(stem).new"
    var created = try DirectoryFiles.create(new, O_RDWR | O_APPEND)
    let number = created.number
    guard DirectoryFiles.lock(number), Self.append(record.text, to: number),
      allowingFork({ fsync(number) }) == 0 || errno == EINVAL,
      rename(new, "\(directory)/\(name)") == 0
    else {
      let error = errno
      unlink(new)
      clinux_descriptor_close(&created)
      throw AppendOnlyFileError(text: "cannot write \(new): \(String(cString: strerror(error)))")
    }
    // A different inode: closing the previous file does not release the lock on this one.
    replace(created)
    DirectoryFiles.flush(directory)
  }

  /// Records an orderly end. Waits until `deadline` for the disk. Does nothing in a child of fork(2).
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

  /// Called on the disk thread.
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
