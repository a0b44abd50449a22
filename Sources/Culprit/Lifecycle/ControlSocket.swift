import CCulpritLinux
import CulpritStallRecord
import Glibc

/// The Unix socket for `culprit dump` and `culprit report`. A connection carries one request line and one answer: `+`
/// and the result, or `-` and a sentence. Connections are served in turn, each within a bounded time.
final class ControlSocket: Sendable {
  /// Contains the time, because a process in another container might have an equal process ID.
  let path: String
  private let answer: @Sendable (_ request: String) -> [UInt8]
  private let problems: ProblemList
  private let wake = WakeUp()
  private let listener = Mutex(clinux_descriptor(number: -1, device: 0, inode: 0, born_ns: 0, table: 0))
  private let thread = OnDemandThread()
  private let hasListened = Promise<Bool>()

  private static let (prefix, suffix) = ("culprit-", ".control")
  private static let requestBytesMax = 64
  private static let requestPatience: UInt64 = 1_000_000_000
  private static let answerPatience: UInt64 = 5_000_000_000
  /// Time before listening again after the service has closed the socket, in nanoseconds.
  private static let pause: UInt64 = 1_000_000_000
  /// Time after which a socket without a listener is stale.
  private static let startTime: UInt64 = 10_000_000

  /// Prepares to listen in `directory`. `answer` can allocate and block.
  init(directory: String, _ problems: ProblemList, _ answer: @escaping @Sendable (_ request: String) -> [UInt8]) {
    var directory = directory
    if let resolved = realpath(directory, nil) {
      // SAFETY: realpath returns a NUL-terminated string from malloc.
      directory = String(cString: resolved)
      free(resolved)
    }
    let name = "\(getpid())-\(String(clinux_clock_wall_ns(), radix: 36))"
    path = "\(directory)/\(Self.prefix)\(name)\(Self.suffix)"
    self.answer = answer
    self.problems = problems
  }

  /// Waits up to one second until the thread listens: later, a stall might have locked the allocator.
  func start() throws(WatchdogError) {
    try thread.start(name: "culprit-control") { [self] in
      _ = clinux_keep_root()
      run()
    }
    _ = hasListened.wait(until: clinux_clock_ns() &+ Self.pause)
  }

  /// Waits until `deadline` for a request in progress. Returns whether the thread has ended.
  func stop(until deadline: UInt64) -> Bool {
    wake.stop()
    listener.withLock { if clinux_descriptor_is_ours(&$0) { clinux_socket_end($0.number) } }
    // Wakes the thread even if the service has closed the socket.
    let connected = clinux_socket_connect(path)
    if connected >= 0 { close(connected) }
    unlink(path)
    return thread.join(until: deadline)
  }

  private func run() {
    removeStale()
    while !wake.isStopping {
      unlink(path)
      let (opened, kept) = allowingFork {
        let opened = clinux_socket_listen(path)
        return (opened, clinux_descriptor_keep(opened))
      }
      guard opened >= 0 else {
        problems.note("control: cannot listen at \(path): \(String(cString: strerror(-opened)))")
        hasListened.fulfill(false)
        return
      }
      listener.withLock { $0 = kept }
      hasListened.fulfill(true)
      while var client = accept() {
        serve(&client)
        clinux_descriptor_close(&client)
      }
      listener.withLock { clinux_descriptor_close(&$0) }
      wake.wait(after: wake.seen, until: clinux_clock_ns() &+ Self.pause)
    }
    unlink(path)
  }

  /// Returns `nil` at the stop, and if the service has closed the socket.
  private func accept() -> clinux_descriptor? {
    let number = listener.withLock { clinux_descriptor_is_ours(&$0) ? $0.number : -1 }
    guard number >= 0, !wake.isStopping else { return nil }
    // Keeps the descriptor at once: leaving `allowingFork` might wait for a forking thread.
    var client = allowingFork { clinux_descriptor_keep(clinux_socket_accept(number)) }
    if client.number >= 0, !wake.isStopping { return client }
    clinux_descriptor_close(&client)
    return nil
  }

  private func serve(_ client: inout clinux_descriptor) {
    var (process, user): (Int32, UInt32) = (0, 0)
    guard clinux_descriptor_is_ours(&client), clinux_socket_peer(client.number, &process, &user) else { return }
    guard user == geteuid() || user == 0 else {
      return send(Array("-the process belongs to another user".utf8), to: &client)
    }
    var request: [UInt8] = []
    let deadline = clinux_clock_ns() &+ Self.requestPatience
    while request.last != UInt8(ascii: "\n") {
      var piece = [UInt8](repeating: 0, count: Self.requestBytesMax - request.count)
      guard clinux_descriptor_is_ours(&client) else { return }
      let (number, capacity) = (client.number, piece.count)
      let count = allowingFork { clinux_socket_receive(number, &piece, capacity, deadline) }
      guard count > 0 else { return }
      request += piece[..<Int(count)]
      guard request.count < Self.requestBytesMax else { return }
    }
    send(answer(String(decoding: request.dropLast(), as: UTF8.self)), to: &client)
  }

  private func send(_ bytes: [UInt8], to client: inout clinux_descriptor) {
    guard clinux_descriptor_is_ours(&client) else { return }
    let (number, deadline) = (client.number, clinux_clock_ns() &+ Self.answerPatience)
    // On failure, the peer has gone, or detects the truncated answer.
    _ = allowingFork { clinux_socket_send(number, bytes, bytes.count, deadline) }
  }

  /// Removes the sockets of processes that ended without a stop.
  private func removeStale() {
    guard let slash = path.lastIndex(of: "/"), let directory = opendir(String(path[..<slash])) else { return }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      // SAFETY: the NUL-terminated name is copied immediately.
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
      }
      guard name.hasPrefix(Self.prefix), name.hasSuffix(Self.suffix) else { continue }
      let found = "\(path[..<slash])/\(name)"
      guard Self.isRefused(found) else { continue }
      allowingFork { clinux_pause_ns(Self.startTime) }
      if Self.isRefused(found) { unlink(found) }
    }
  }

  private static func isRefused(_ path: String) -> Bool {
    let connected = clinux_socket_connect(path)
    if connected >= 0 { close(connected) }
    return connected == -ECONNREFUSED
  }
}
