import CCulpritLinux
import CulpritOptions
import Glibc
import Synchronization

/// A temporary progress line on standard error.
///
/// Appears after half a second if standard error is a terminal and the command runs in the foreground. The first output
/// to a terminal, pager or pipe ends the line.
final class Progress: Sendable {
  static let shared = Progress()
  static let option = CommandOption("no-progress", help: "hide the progress line")

  private struct State {
    var isStarted = false
    var hasEnded = false
    var drawn = ""
    var begin: UInt64 = 0
    var files = 0
    var filesDone = 0
    var bytes: UInt64?
    var bytesDone: UInt64 = 0
    var bytesWritten: UInt64 = 0
  }

  private static let delayNanoseconds: UInt64 = 500_000_000
  private static let intervalMicroseconds: UInt32 = 200_000

  private let state = Mutex(State())

  var isWanted: Bool {
    get { state.withLock { !$0.hasEnded } }
    set { state.withLock { $0.hasEnded = !newValue } }
  }

  /// Starts the line for `paths`, or for standard input without paths.
  func begin(reading paths: [String]) {
    guard isatty(STDERR_FILENO) == 1, Terminal.isCapable else { return }
    // The size of standard input is unknown before reading.
    let isInput = paths.isEmpty || paths == ["-"]
    var bytes: UInt64? = isInput || paths.contains("-") ? nil : 0
    for path in paths where bytes != nil {
      var information = stat()
      if stat(path, &information) == 0, information.st_size > 0 { bytes? += UInt64(information.st_size) }
    }
    let isNew = state.withLock { state in
      let isNew = !state.isStarted && !state.hasEnded
      if isNew { state.begin = clinux_clock_ns() }
      state.isStarted = true
      (state.files, state.filesDone, state.bytes, state.bytesDone) = (isInput ? 0 : paths.count, 0, bytes, 0)
      return isNew
    }
    guard isNew else { return }
    _ = startThread { [self] in
      repeat { usleep(Self.intervalMicroseconds) } while draw()
    }
  }

  func didRead(_ count: Int) { state.withLock { $0.bytesDone += UInt64(count) } }

  func didFinishFile() { state.withLock { $0.filesDone += 1 } }

  func didWrite(_ count: Int) { state.withLock { $0.bytesWritten += UInt64(count) } }

  /// Removes the line unless `descriptor` is a regular file, then calls `write`, which writes to `descriptor`.
  func makeRoom(_ descriptor: Int32, _ write: () -> Void) {
    // Messages on standard error are short lines. The lock prevents drawing during a write.
    guard descriptor != STDERR_FILENO else {
      nonisolated(unsafe) let write = write
      return state.withLock { state in
        Self.erase(&state)
        write()
      }
    }
    var information = stat()
    if fstat(descriptor, &information) == 0, information.st_mode & S_IFMT != S_IFREG { end() }
    write()
  }

  func end() {
    state.withLock { state in
      Self.erase(&state)
      state.hasEnded = true
    }
  }

  private static func erase(_ state: inout State) {
    guard !state.drawn.isEmpty else { return }
    write("\r\u{1b}[K")
    state.drawn = ""
  }

  private static func write(_ text: String) {
    let bytes = Array(text.utf8)
    // Failed writes to the terminal are ignored.
    _ = bytes.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }

  /// Returns whether to draw again.
  private func draw() -> Bool {
    state.withLock { state in
      guard !state.hasEnded else { return false }
      let elapsed = clinux_clock_ns() - state.begin
      // Another program uses the terminal while this one is in the background.
      let owner = tcgetpgrp(STDERR_FILENO)
      guard elapsed >= Self.delayNanoseconds, owner < 0 || owner == getpgrp() else { return true }
      let text = Self.line(
        state,
        seconds: elapsed / 1_000_000_000,
        width: (Terminal.width(of: STDERR_FILENO) ?? 80) - 1
      )
      if text != state.drawn { Self.write("\r\(text)\u{1b}[K") }
      state.drawn = text
      return true
    }
  }

  private static func line(_ state: State, seconds: UInt64, width: Int) -> String {
    var parts: [String] = []
    if state.bytesWritten > 0 {
      parts = ["writing \(size(state.bytesWritten))"]
    } else {
      let noun = state.files == 1 ? "file" : "files"
      let isInput = state.files == 0
      parts.append(
        isInput ? "reading standard input" : "reading \(grouped(state.filesDone)) of \(grouped(state.files)) \(noun)"
      )
      parts.append(size(state.bytesDone) + (state.bytes.map { " of \(size($0))" } ?? ""))
    }
    parts.append(seconds < 60 ? "\(seconds) s" : "\(seconds / 60) min \(seconds % 60) s")
    while parts.count > 1, parts.joined(separator: ", ").count > width { parts.removeLast() }
    return String(parts.joined(separator: ", ").prefix(max(width, 0)))
  }

  private static func grouped(_ number: Int) -> String {
    let digits = Array(String(number))
    return digits.indices.map { (($0 > 0 && (digits.count - $0) % 3 == 0) ? "," : "") + String(digits[$0]) }.joined()
  }

  private static func size(_ bytes: UInt64) -> String {
    var (value, unit) = (bytes, 0)
    var tenths: UInt64 = 0
    let units = ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000, unit + 1 < units.count {
      tenths = value % 1000 / 100
      value /= 1000
      unit += 1
    }
    return unit > 0 && value < 10 ? "\(value).\(tenths) \(units[unit])" : "\(value) \(units[unit])"
  }
}
