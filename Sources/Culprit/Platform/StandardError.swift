import CCulpritLinux
import Glibc

/// Writes `text` to standard error, without the C library's buffer and its lock.
///
/// Text is dropped if standard error has no reader, and the rest of it after `deadline`, on the observer's clock.
func printToStandardError(_ text: String, until deadline: UInt64 = .max) {
  var rest = Array(text.utf8)[...]
  while !rest.isEmpty {
    var piece = rest
    if deadline != .max {
      guard takesSome(STDERR_FILENO, until: deadline) else { return }
      // A pipe that is ready takes this much at once (pipe(7)).
      piece = rest.prefix(Int(PIPE_BUF))
    }
    let count = piece.withUnsafeBytes { bytes in
      resting { clinux_write(STDERR_FILENO, bytes.baseAddress, bytes.count) }
    }
    if count < 0, errno == EINTR { continue }
    guard count > 0 else { return }
    rest = rest.dropFirst(count)
  }
}

/// Waits until a write to `descriptor` would not block, at most until `deadline`. Returns whether that is the case.
private func takesSome(_ descriptor: Int32, until deadline: UInt64) -> Bool {
  while true {
    let now = clinux_clock_ns()
    guard now < deadline else { return false }
    var place = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    let ready = resting { poll(&place, 1, Int32(clamping: (deadline - now) / 1_000_000 + 1)) }
    if ready > 0 { return place.revents & Int16(POLLOUT) != 0 }
    if ready < 0, errno != EINTR { return false }
  }
}
