import CCulpritLinux
import CulpritStallRecord
import Glibc
import Synchronization

/// The metrics file for node_exporter's textfile collector, written by a dedicated thread because the disk might hang.
///
/// rename(2) replaces the previous version, so readers always find a complete file. The file is not synced: after a
/// power failure, the next launch writes it again.
final class MetricsFile: Sendable {
  private struct State {
    var problem: String?
    var written: Identity?
    var isSharingReported = false
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

  /// Contains the time, because a process in another container might have an equal process id.
  private let temporary: String

  init(path: String, interval: Duration, _ problems: ProblemList) {
    self.path = path
    self.interval = interval.wholeNanoseconds
    self.problems = problems
    temporary = "\(path).\(getpid())-\(String(clinux_clock_wall_ns(), radix: 36)).tmp"
  }

  /// `text` returns the contents, or `nil` to end the thread. `isLast` is true while the watchdog is being stopped.
  func start(_ text: @escaping @Sendable (_ isLast: Bool) -> String?) throws(WatchdogError) {
    // Detached, because the thread might never end.
    try PosixThread(name: "culprit-metrics") { [self] in
      run(text)
      hasEnded.fulfill(true)
    }
    .detach()
    hasStarted.store(true, ordering: .releasing)
  }

  /// Requests a last write. Returns whether the thread has ended by `deadline`.
  func stop(until deadline: UInt64) -> Bool {
    guard hasStarted.load(ordering: .acquiring) else { return true }
    wake.stop()
    return hasEnded.wait(until: deadline) != nil
  }

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

  /// The last write does not replace a file of another process, which might be the next run.
  func write(_ content: String, isLast: Bool = false) {
    let written = state.withLock { $0.written }
    if let written, let present = Self.identity(path), present != written {
      if isLast { return }
      let isFirst = state.withLock { state in
        defer { state.isSharingReported = true }
        return !state.isSharingReported
      }
      if isFirst { note("\(path): another process writes metrics there, too; each needs a file and labels of its own") }
    }
    let error = replace(Array(content.utf8))
    let sentence = error.map { "cannot write metrics to \(printable(path, limit: sentencePartMax)): \($0)" }
    let isNew = state.withLock { state in
      defer { state.problem = sentence }
      return state.problem != sentence
    }
    if let sentence, isNew { LiveConfiguration.say([sentence]) }
  }

  private func note(_ sentence: String) {
    problems.note(sentence)
    LiveConfiguration.say([sentence])
  }

  /// Returns the error; `nil` on success.
  private func replace(_ bytes: [UInt8]) -> String? {
    // Keeps the descriptor at once: leaving `allowingFork` might wait for a forking thread.
    let (openError, kept) = allowingFork {
      let number = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
      return (number < 0 ? errno : 0, clinux_descriptor_keep_file(number, temporary))
    }
    guard openError == 0 else { return String(cString: strerror(openError)) }
    var file = kept
    // Regardless of umask(2), because another user reads the file.
    if file.number >= 0 { fchmod(file.number, 0o644) }
    let error = Self.write(bytes, to: &file)
    let written = Self.identity(temporary)
    clinux_descriptor_close(&file)
    if let error {
      unlink(temporary)
      return error
    }
    guard allowingFork({ rename(temporary, path) }) == 0 else {
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
      guard clinux_descriptor_is_ours(&file) else { return "the service closed the file" }
      let count = bytes.withUnsafeBytes { buffer in
        // SAFETY: the rebased slice lies inside `bytes` and does not leave the closure.
        let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
        return allowingFork { clinux_write(file.number, rest.baseAddress, rest.count) }
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
