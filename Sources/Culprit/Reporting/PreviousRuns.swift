import CCulpritLinux
import CulpritBlackBox
import CulpritStallRecord
import Glibc
import Synchronization

/// Tells of the earlier runs that left something in the directory, each once.
///
/// Several processes may start together: who tells of a run has locked its file and renames it. It is renamed before its
/// stalls are read and it is told of: what ends the process then, a handler that crashes or a stall that does not fit
/// into its memory, must not do so at every start from then on. The files stay, and `culprit report` has them.
final class PreviousRuns: Sendable {
  let directory: BlackBoxDirectory
  let own: String
  let settings: ReportSettings
  private let queue: HandlerQueue
  /// Whether the application is being told, which may take as long as it likes; the disk may not. From the renaming on:
  /// naming what many stalls have may take long, and nobody else will tell of them.
  private let isTelling = Atomic<Bool>(false)
  /// Whether nobody waits any more: what has not been renamed by then is left for the next launch.
  private let isGivenUp = Atomic<Bool>(false)
  /// Held by whoever claims a run, or adds to the file of a stall: in one process closing a file takes away what
  /// another thread has locked of it, and half of what is added is no record.
  let files = Mutex(())
  /// Whether the watchdog is being stopped.
  let isStopping = Atomic<Bool>(false)

  /// How long the disk is waited for, on the observer's clock.
  private static let patience: UInt64 = 5_000_000_000

  /// The runs in `directory`, but for that of the file `own`.
  init(directory: String, own: String, _ settings: ReportSettings, _ workers: Workers = Workers()) {
    queue = HandlerQueue(workers)
    self.directory = BlackBoxDirectory(path: directory, owner: geteuid(), ownFile: own)
    self.own = own
    self.settings = settings
  }

  /// Has the workers call `handler` with every run that is over and has not been reported.
  func tell(_ handler: @escaping @Sendable (Watchdog.PreviousRun) -> Void) {
    queue.put { [self] in
      guard let names = working({ OwnDescriptors.run { try? self.directory.names([".run"]) } }) else { return }
      var left = names[...]
      while let run = working({ nextRun(of: &left) }) {
        handler(run)
        isTelling.store(false, ordering: .relaxed)
      }
    }
  }

  /// Returns the first run among the files `names` that can be reported, with its reports; `nil` if none can. Removes the names up to
  /// that run's.
  ///
  /// The directory can have thousands of files of other users: one thread passes over all of them.
  private func nextRun(of names: inout ArraySlice<String>) -> Watchdog.PreviousRun? {
    let left = names
    let found = OwnDescriptors.run { () -> (Claim, ArraySlice<String>)? in
      for place in left.indices where left[place] != self.own {
        clinux_fork_yield()
        if let claim = self.files.withLock({ _ in self.claim(left[place]) }) { return (claim, left[(place + 1)...]) }
      }
      return nil
    }
    guard let ((record, verdict, stalls), rest) = found else { return nil }
    names = rest
    let run = Watchdog.PreviousRun(record, verdict, stalls, directory: directory.path, settings) { name in
      OwnDescriptors.run { self.files.withLock { _ in self.directory.stall(name) } }
    }
    EndingCounts.shared.add(run.ending)
    return run
  }

  /// Makes files of the stalls of `record` that were only noted. Returns all of its stalls.
  private func saveNotedHangs(of record: RunRecord) -> BlackBoxDirectory.RunStalls {
    let recorded = directory.stalls(of: record)
    guard !record.hangs.isEmpty else { return recorded }
    let open = recorded.saved.filter(\.isOpen).compactMap { directory.stall($0.name) }.flatMap(\.recording.stalls)
    // The recorder may have been late.
    for (hang, file) in zip(record.hangs, record.filesOfNotedHangs) where !open.contains(where: hang.isNote(of:)) {
      write(file.bytes, file.name)
    }
    return directory.stalls(of: record)
  }

  /// Makes the file `name` with the content `bytes`, unless it is there.
  private func write(_ bytes: [UInt8], _ name: String) {
    guard var created = try? DirectoryFiles.create("\(directory.path)/\(name)", O_WRONLY) else { return }
    _ = bytes.withUnsafeBytes { clinux_write(created.number, $0.baseAddress, $0.count) }
    clinux_descriptor_close(&created)
  }

  /// Waits until the handler has been called for every run, until `deadline` at most, and less long for a disk that
  /// does not answer. Returns whether it has been.
  func finish(until deadline: UInt64) -> Bool {
    isStopping.store(true, ordering: .relaxed)
    while !queue.join(until: min(deadline, clinux_clock_ns() &+ Self.patience)) {
      guard isTelling.load(ordering: .relaxed), clinux_clock_ns() < deadline else {
        isGivenUp.store(true, ordering: .relaxed)
        return false
      }
    }
    return true
  }

  private typealias Claim = (RunRecord, RunVerdict, BlackBoxDirectory.RunStalls)

  /// Makes the run of the file `name` one that this process tells of; `nil` when it goes on, or another one does that.
  private func claim(_ name: String) -> Claim? {
    guard let descriptor = directory.open(name, O_RDWR | O_APPEND) else { return nil }
    defer { close(descriptor) }
    var information = stat()
    guard fstat(descriptor, &information) == 0, information.st_uid == geteuid(),
      let (record, isRunning) = directory.look(descriptor), !isRunning
    else { return nil }
    // Before the lock, which it would take away.
    let wasReplaced = directory.wasReplaced(record)
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    guard fcntl(descriptor, F_SETLK, &lock) == 0 else { return nil }
    // Another one may have told of it since it was opened here.
    var present = stat()
    guard stat("\(directory.path)/\(name)", &present) == 0, present.st_ino == information.st_ino,
      present.st_dev == information.st_dev
    else { return nil }
    let stalls = saveNotedHangs(of: record)
    let verdict = RunVerdict(
      of: record,
      hasOpenStall: stalls.hasOpen,
      boot: directory.boot,
      memoryKills: MemoryKills.change(since: record.memoryKills),
      wasReplaced: wasReplaced
    )
    guard !isGivenUp.load(ordering: .relaxed) else { return nil }
    let told = Array(record.told(verdict).utf8)
    // The handler's mask is not the disk thread's.
    _ = clinux_write(descriptor, told, told.count)
    guard rename("\(directory.path)/\(name)", "\(directory.path)/\(name.dropLast(4)).told") == 0 else { return nil }
    isTelling.store(true, ordering: .relaxed)
    return (record, verdict, stalls)
  }
}

extension Watchdog {
  /// Calls `handler` with each earlier run of the service in ``Configuration/Storage/directory`` that is over and has
  /// not been reported: how it ended and, when that was in mid-stall, who is to blame.
  ///
  /// The handler is called soon, on a thread of the watchdog's own, with one run after the other, the earliest first. Each run is
  /// reported once, also when several processes start together. Runs that go on are left alone. Without a directory it
  /// does nothing. `stop()` waits for it.
  ///
  /// - Parameter handler: Called with the run.
  public func onPreviousRun(_ handler: @escaping @Sendable (Watchdog.PreviousRun) -> Void) {
    core?.previousRuns?.tell(handler)
  }
}
