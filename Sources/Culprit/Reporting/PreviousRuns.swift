import CCulpritLinux
import CulpritBlackBox
import CulpritStallRecord
import Glibc
import Synchronization

/// Reports the earlier runs that left files in the directory, each once, even if several processes start together.
///
/// The file is locked and renamed before the handler is called, so a crash in the handler does not repeat at every
/// start.
final class PreviousRuns: Sendable {
  let directory: BlackBoxDirectory
  let own: String
  let settings: ReportSettings
  private let queue: HandlerQueue
  /// Whether a claimed run is being reported. Handlers and symbolizing can take any time; the disk has limited time.
  private let isReporting = Atomic<Bool>(false)
  /// Whether ``finish(until:)`` has given up. Runs not renamed by then are left for the next launch.
  private let isGivenUp = Atomic<Bool>(false)
  /// Locked while a run is claimed or a stall file is extended: closing a file releases all locks that the process
  /// holds on it, and partial records must not interleave.
  let files = Mutex(())
  let isStopping = Atomic<Bool>(false)

  /// Longest wait for the disk in nanoseconds.
  private static let patience: UInt64 = 5_000_000_000

  init(directory: String, own: String, _ settings: ReportSettings, _ workers: Workers = Workers()) {
    queue = HandlerQueue(workers)
    self.directory = BlackBoxDirectory(path: directory, owner: geteuid(), ownFile: own)
    self.own = own
    self.settings = settings
  }

  /// Makes the workers call `handler` with each run that is over and has not been reported.
  func report(_ handler: @escaping @Sendable (Watchdog.PreviousRun) -> Void) {
    queue.put { [self] in
      guard let names = blockingFork({ OwnDescriptors.run { try? self.directory.names([".run"]) } }) else { return }
      var left = names[...]
      while let run = blockingFork({ nextRun(of: &left) }) {
        handler(run)
        isReporting.store(false, ordering: .relaxed)
      }
    }
  }

  /// Returns the first reportable run among the files `names`, and removes the names up to it.
  ///
  /// One thread examines all files, of which there can be thousands.
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

  /// Creates files for hangs that were only noted. Returns all stalls of the run.
  private func saveNotedHangs(of record: RunRecord) -> BlackBoxDirectory.RunStalls {
    let recorded = directory.stalls(of: record)
    guard !record.hangs.isEmpty else { return recorded }
    let open = recorded.saved.filter(\.isOpen).compactMap { directory.stall($0.name) }.flatMap(\.recording.stalls)
    // The file of a noted hang is missing if the recorder was late.
    for (hang, file) in zip(record.hangs, record.filesOfNotedHangs) where !open.contains(where: hang.isNote(of:)) {
      write(file.bytes, file.name)
    }
    return directory.stalls(of: record)
  }

  private func write(_ bytes: [UInt8], _ name: String) {
    guard var created = try? DirectoryFiles.create("\(directory.path)/\(name)", O_WRONLY) else { return }
    _ = bytes.withUnsafeBytes { clinux_write(created.number, $0.baseAddress, $0.count) }
    clinux_descriptor_close(&created)
  }

  /// Waits for all handler calls until `deadline`, and up to 5 s for an unresponsive disk. Returns whether all were
  /// made.
  func finish(until deadline: UInt64) -> Bool {
    isStopping.store(true, ordering: .relaxed)
    while !queue.join(until: min(deadline, clinux_clock_ns() &+ Self.patience)) {
      guard isReporting.load(ordering: .relaxed), clinux_clock_ns() < deadline else {
        isGivenUp.store(true, ordering: .relaxed)
        return false
      }
    }
    return true
  }

  private typealias Claim = (RunRecord, RunVerdict, BlackBoxDirectory.RunStalls)

  /// Returns `nil` if the run is not over or another process reports it.
  private func claim(_ name: String) -> Claim? {
    guard let descriptor = directory.open(name, O_RDWR | O_APPEND) else { return nil }
    defer { close(descriptor) }
    var information = stat()
    guard fstat(descriptor, &information) == 0, information.st_uid == geteuid(),
      let (record, isRunning) = directory.recordAndState(descriptor), !isRunning
    else { return nil }
    // This check must come before the lock, which it would release.
    let wasReplaced = directory.wasReplaced(record)
    guard DirectoryFiles.lock(descriptor) else { return nil }
    // Another process might have reported the run since the file was opened.
    var present = stat()
    guard stat("\(directory.path)/\(name)", &present) == 0, present.st_ino == information.st_ino,
      present.st_dev == information.st_dev
    else { return nil }
    let stalls = saveNotedHangs(of: record)
    let verdict = directory.verdict(of: record, stalls, wasReplaced: wasReplaced)
    guard !isGivenUp.load(ordering: .relaxed) else { return nil }
    let line = Array(record.told(verdict).utf8)
    // The signal mask of a handler applies here; clinux_write raises neither SIGPIPE nor SIGXFSZ.
    _ = clinux_write(descriptor, line, line.count)
    guard rename("\(directory.path)/\(name)", "\(directory.path)/\(name.dropLast(4)).told") == 0 else { return nil }
    isReporting.store(true, ordering: .relaxed)
    return (record, verdict, stalls)
  }
}

extension Watchdog {
  /// Calls `handler` with each earlier run of the service in ``Configuration/Storage/directory`` that has ended and has
  /// not been reported.
  ///
  /// The handler is called soon, on a thread of the watchdog, for one run at a time, the earliest first. Each run is
  /// reported once, even if several processes start together. Without a directory this method has no effect. `stop()`
  /// waits for the handler.
  ///
  /// - Parameter handler: Called with the run.
  public func onPreviousRun(_ handler: @escaping @Sendable (Watchdog.PreviousRun) -> Void) {
    engine?.previousRuns?.report(handler)
  }
}
