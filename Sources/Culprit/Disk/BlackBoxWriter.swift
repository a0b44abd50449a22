import CCulpritLinux
import CulpritStallRecord

/// The files of a watchdog's directory and their retention. The disk thread does all the work.
final class BlackBoxWriter: Sendable {
  let directory: String
  let disk: DiskThread
  let fsyncs = FsyncScheduler()
  let openFiles = OpenFiles()
  let problems: ProblemList
  let run: RunFile
  private let retention: RetentionPolicy
  private let tidying = Mutex(Tidying())

  private struct Tidying {
    var last: UInt64 = 0
    var isWanted = false
    var isWaiting = false
  }

  /// The longest wait for the disk at the start, and the shortest at the stop.
  private static let patience: UInt64 = 1_000_000_000

  /// Minimum time between retention passes, because listing a thousand files is slow.
  private static let tidyingInterval: UInt64 = 1_000_000_000

  /// Shortest delay of the disk that counts as a problem.
  private static let silence = Duration.seconds(2)

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

  /// Starts the disk thread and creates the files. Waits at most ``patience``.
  ///
  /// - Throws: ``DirectoryError`` if the directory cannot be used.
  func open() throws(DirectoryError) {
    do throws(WatchdogError) { try disk.start() } catch {
      let error = DirectoryError(path: directory, reason: error.message)
      problems.note(error.description)
      throw error
    }
    let result = disk.result(until: clinux_clock_ns() &+ Self.patience) { [self] () -> DirectoryError? in
      do throws(DirectoryError) { try DirectoryFiles.prepare(directory) } catch {
        // The caller might have stopped waiting, so the error is also recorded.
        problems.note(error.description)
        return error
      }
      DirectoryRisks.found(directory).forEach { problems.note($0) }
      do throws(AppendOnlyFileError) { try run.open() } catch { problems.note(error.text, .creating) }
      return nil
    }
    if case .some(.some(let error)) = result {
      _ = disk.stop(until: 0)
      throw error
    }
  }

  /// Requests a retention pass. Passes run at most once a second; the stop runs a pending one.
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

  /// Records the end of the run, and returns whether everything is written by `deadline`. The disk has one second in
  /// any case (``Watchdog/stop(patience:)``).
  @discardableResult
  func stop(until deadline: UInt64) -> Bool {
    let deadline = max(deadline, clinux_clock_ns() &+ Self.patience)
    enforceRetentionIfWanted(interval: 0)
    run.end(until: deadline)
    let isWritten = disk.stop(until: deadline)
    if !isWritten { problems.note("\(directory): the disk did not take everything in time") }
    return isWritten
  }

  var presentProblem: String? {
    guard let heldUp = disk.heldUp, heldUp >= Self.silence else { return nil }
    return "\(directory): the disk has not answered for \(heldUp.components.seconds) s"
  }
}
