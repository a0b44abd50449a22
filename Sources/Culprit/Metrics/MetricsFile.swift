import CCulpritLinux
import CulpritStallRecord
import Glibc
import Synchronization

/// The file that metrics are written to for node_exporter's textfile collector, by a thread of its own: the disk may be
/// what hangs.
///
/// Each file is written under another name and takes the place of the one before by rename(2): who reads it finds a
/// whole file, always. A file that could not be written leaves the one before, whose time tells its age. It is not
/// synced: after a power cut the next launch writes another one.
final class MetricsFile: Sendable {
  private struct State {
    /// Why the last file was not written; `nil` when it was.
    var problem: String?
    /// The file that was written last.
    var written: Identity?
    /// Whether it has been told that somebody else writes the file.
    var isSharingTold = false
  }

  private struct Identity: Equatable {
    var device: dev_t
    var inode: ino_t
  }

  private let path: String
  private let interval: UInt64
  private let problems: ProblemList
  private let wake = WakeUp()
  private let hasEnded = Promise<Bool>()
  private let hasStarted = Atomic<Bool>(false)
  private let state = Mutex(State())

  /// Other processes may have the same number in another container.
  private let temporary: String

  /// The file at `path`, to be written every `interval`.
  init(path: String, interval: Duration, _ problems: ProblemList) {
    self.path = path
    self.interval = interval.wholeNanoseconds
    self.problems = problems
    temporary = "\(path).\(getpid())-\(String(clinux_clock_wall_ns(), radix: 36)).tmp"
  }

  /// Starts the thread.
  ///
  /// - Parameter text: What is to be in the file; `nil` ends the thread. It is told whether the watchdog is being
  ///   stopped.
  /// - Throws: ``PosixThreadError`` when it cannot be started.
  func start(_ text: @escaping @Sendable (_ isLast: Bool) -> String?) throws(PosixThreadError) {
    // Nobody waits for it by its handle: it may never end.
    try PosixThread(name: "culprit-metrics") { [self] in
      run(text)
      hasEnded.fulfill(true)
    }
    .detach()
    hasStarted.store(true, ordering: .releasing)
  }

  /// Has the file written a last time, and waits for that until `deadline`. Returns whether the thread has ended.
  func stop(until deadline: UInt64) -> Bool {
    guard hasStarted.load(ordering: .acquiring) else { return true }
    wake.stop()
    return hasEnded.wait(until: deadline) != nil
  }

  /// Why the file is not what it should be; `nil` when it is.
  var presentProblem: String? { state.withLock { $0.problem } }

  private func run(_ text: (Bool) -> String?) {
    while true {
      let seen = wake.seen
      let isLast = wake.isStopping
      guard let content = text(isLast) else { return }
      write(content, isLast: isLast)
      if isLast { return }
      wake.wait(after: seen, until: clinux_clock_ns() &+ interval)
    }
  }

  /// Replaces the file by one with `content`. The last one does not take the place of somebody else's: that of the
  /// service's next run, which has begun already.
  func write(_ content: String, isLast: Bool = false) {
    let written = state.withLock { $0.written }
    if let written, let present = Self.identity(path), present != written {
      if isLast { return }
      let isFirst = state.withLock { state in
        defer { state.isSharingTold = true }
        return !state.isSharingTold
      }
      if isFirst { tell("\(path): another process writes metrics there, too; each needs a file and labels of its own") }
    }
    let error = replace(Array(content.utf8))
    let sentence = error.map { "metrics cannot be written to \(printable(path, limit: sentencePartMax)): \($0)" }
    let isNew = state.withLock { state in
      defer { state.problem = sentence }
      return state.problem != sentence
    }
    // Told when it begins, and not every time.
    if let sentence, isNew { LiveConfiguration.say([sentence]) }
  }

  private func tell(_ sentence: String) {
    problems.note(sentence)
    LiveConfiguration.say([sentence])
  }

  /// Returns what is wrong; `nil` when nothing is.
  private func replace(_ bytes: [UInt8]) -> String? {
    // Kept at once: going on with the work may wait for a process that forks.
    let (openError, kept) = resting {
      let number = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
      return (number < 0 ? errno : 0, clinux_descriptor_keep_file(number, temporary))
    }
    guard openError == 0 else { return String(cString: strerror(openError)) }
    var file = kept
    // Another user reads it, whatever the process's mask takes away (umask(2)).
    if file.number >= 0 { fchmod(file.number, 0o644) }
    let error = Self.write(bytes, to: &file)
    let written = Self.identity(temporary)
    clinux_descriptor_close(&file)
    if let error {
      unlink(temporary)
      return error
    }
    guard resting({ rename(temporary, path) }) == 0 else {
      let error = errno
      unlink(temporary)
      return String(cString: strerror(error))
    }
    state.withLock { $0.written = written }
    return nil
  }

  private static func write(_ bytes: [UInt8], to file: inout clinux_descriptor) -> String? {
    var written = 0
    while written < bytes.count {
      guard clinux_descriptor_is_ours(&file) else { return "the service has closed the file" }
      let count = bytes.withUnsafeBytes { buffer in
        // SAFETY: the rebased slice lies inside `bytes` and is used inside the closure only.
        let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
        return resting { clinux_write(file.number, rest.baseAddress, rest.count) }
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return String(cString: strerror(count < 0 ? errno : ENOSPC)) }
      written += count
    }
    return nil
  }

  private static func identity(_ path: String) -> Identity? {
    var found = stat()
    return lstat(path, &found) == 0 ? Identity(device: found.st_dev, inode: found.st_ino) : nil
  }
}
