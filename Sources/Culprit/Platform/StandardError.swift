import CCulpritLinux
import Glibc

/// Writes `text` to standard error, bypassing the C library's buffer and its lock. Gives up at `deadline`, by the
/// observer's clock, or without a reader. Calls `pause` every 20 ms while standard error accepts nothing.
func printToStandardError(_ text: String, until deadline: UInt64 = .max, pause: (() -> Void)? = nil) {
  var rest = Array(text.utf8)[...]
  while !rest.isEmpty {
    var piece = rest
    if deadline != .max || pause != nil {
      guard takesSome(STDERR_FILENO, until: deadline, pause: pause) else { return }
      // A ready pipe accepts this much at once (pipe(7)). Pieces are whole lines: other writers might interleave.
      piece = rest.prefix(Int(PIPE_BUF))
      if piece.count < rest.count, let end = piece.lastIndex(of: UInt8(ascii: "\n")) { piece = piece[...end] }
    }
    let count = piece.withUnsafeBytes { bytes in
      allowingFork { clinux_write(STDERR_FILENO, bytes.baseAddress, bytes.count) }
    }
    if count < 0, errno == EINTR { continue }
    guard count > 0 else { return }
    rest = rest.dropFirst(count)
  }
}

private let pauseInterval: UInt64 = 20_000_000

/// Waits until a write to `descriptor` would not block. Returns `false` at `deadline`.
private func takesSome(_ descriptor: Int32, until deadline: UInt64, pause: (() -> Void)?) -> Bool {
  while true {
    let now = clinux_clock_ns()
    guard now < deadline else { return false }
    let wait = pause == nil ? deadline - now : min(deadline - now, pauseInterval)
    var place = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    let ready = allowingFork { poll(&place, 1, Int32(clamping: wait / 1_000_000 + 1)) }
    if ready > 0 { return place.revents & Int16(POLLOUT) != 0 }
    if ready < 0, errno != EINTR { return false }
    pause?()
  }
}
