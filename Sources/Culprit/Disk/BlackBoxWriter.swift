import CCulpritLinux
import CulpritStallRecord
import Synchronization

/// What a watchdog keeps in its directory: the file of this run, those of its stalls, and order. All of it is done by
/// the disk thread.
final class BlackBoxWriter: Sendable {
  /// Where it is.
  let directory: String
  let disk: DiskThread
  let fsyncs = FsyncScheduler()
  let openFiles = OpenFiles()
  let problems: ProblemList
  let run: RunFile
  private let retention: RetentionPolicy
  private let tidying = Mutex(Tidying())

  /// When order is made.
  private struct Tidying {
    var last: UInt64 = 0
    var isWanted = false
    var isWaiting = false
  }

  /// How long the start waits for the disk, and the stop at least, whatever else has taken its time.
  private static let patience: UInt64 = 1_000_000_000

  /// Listing a thousand files takes longer than many a stall.
  private static let tidyingInterval: UInt64 = 1_000_000_000

  /// The disk may be slow; that it does not answer at all is worth a sentence.
  private static let silence = Duration.seconds(2)

  /// What `configuration` has in `directory`, in `process`. Nothing is done before ``open()``.
  init(
    _ directory: String,
    _ configuration: Configuration,
    _ process: ObservedProcess,
    _ problems: ProblemList,
    disk: DiskThread = DiskThread()
  ) {
    self.directory = directory
    self.disk = disk
    self.problems = problems
    run = RunFile(
      directory: directory,
      process: process,
      notesCrashes: configuration.storage.notesCrashes,
      disk: disk,
      problems: problems
    )
    retention = RetentionPolicy(directory: directory, limits: configuration.storage, own: run.name)
  }

  /// Starts the disk thread, makes the directory and the file of this run, and waits for that, but not for long.
  ///
  /// - Throws: ``DirectoryError`` when the directory cannot be used.
  func open() throws(DirectoryError) {
    do throws(PosixThreadError) { try disk.start() } catch {
      let error = DirectoryError(path: directory, reason: WatchdogError.threadNotStarted(error).message)
      problems.note(error.description)
      throw error
    }
    let result = disk.result(until: clinux_clock_ns() &+ Self.patience) { [self] () -> DirectoryError? in
      do throws(DirectoryError) { try DirectoryFiles.prepare(directory) } catch {
        // Who has waited too long does not hear of it.
        problems.note(error.description)
        return error
      }
      DirectoryRisks.found(directory).forEach(problems.note)
      do throws(AppendOnlyFileError) { try run.open() } catch { problems.note(error.text) }
      return nil
    }
    if case .some(.some(let error)) = result {
      _ = disk.stop(until: 0)
      throw error
    }
  }

  /// Removes what is too much, soon: at most once a second, and once more, if need be, when the watchdog is stopped.
  func enforceRetention() {
    tidying.withLock { $0.isWanted = true }
    enforceRetentionIfWanted(interval: Self.tidyingInterval)
  }

  private func enforceRetentionIfWanted(interval: UInt64) {
    let now = clinux_clock_ns()
    let isDue = tidying.withLock { tidying in
      guard tidying.isWanted, !tidying.isWaiting, now &- tidying.last >= interval else { return false }
      tidying.isWaiting = true
      tidying.last = now
      return true
    }
    guard isDue else { return }
    disk.put(isVital: true) { [self] in
      tidying.withLock { tidying in
        tidying.isWanted = false
        tidying.isWaiting = false
      }
      retention.enforce()
    }
  }

  /// Says that the run has ended, and waits until everything is written, until `deadline` at most; for a second also where that is
  /// over, because a run whose end is not known counts as one that was killed.
  ///
  /// - Returns: Whether everything is written.
  @discardableResult
  func stop(until deadline: UInt64) -> Bool {
    let deadline = max(deadline, clinux_clock_ns() &+ Self.patience)
    enforceRetentionIfWanted(interval: 0)
    run.end(until: deadline)
    let isWritten = disk.stop(until: deadline)
    if !isWritten { problems.note("\(directory): the disk did not take everything in time") }
    return isWritten
  }

  /// What is wrong at the moment; `nil` when nothing is.
  var presentProblem: String? {
    guard let heldUp = disk.heldUp, heldUp >= Self.silence else { return nil }
    return "\(directory): the disk has not answered for \(heldUp.components.seconds) s"
  }
}
