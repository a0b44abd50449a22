import Glibc

/// A failed socket call.
public struct SocketError: Error, CustomStringConvertible {
  /// The failed operation and the reason.
  public var description: String

  init(_ what: String) { description = "\(what): \(String(cString: strerror(errno)))" }
}

/// Set by SIGTERM and SIGINT. Storing a flag is async-signal-safe.
nonisolated(unsafe) private var isStopRequested: sig_atomic_t = 0

/// An HTTP/1.1 server on loopback with one event loop on poll(2). Closes connections after one response.
public final class HTTPServer {
  private struct Connection {
    var request: [UInt8] = []
    var response: ArraySlice<UInt8> = []
  }

  /// The listening port.
  public let port: UInt16
  private let listener: Int32
  private var catalog: Catalog
  private var connections: [Int32: Connection] = [:]

  /// Maximum size of a request.
  private static let requestBytesMax = 16 << 10

  /// Creates a server of `catalog` on 127.0.0.1.
  ///
  /// - Parameters:
  ///   - port: The port to listen on; 0 for any free port.
  ///   - catalog: The documents to serve.
  /// - Throws: ``SocketError``.
  public init(port: UInt16, catalog: Catalog) throws {
    self.catalog = catalog
    listener = socket(
      AF_INET,
      Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue),
      0
    )
    guard listener >= 0 else { throw SocketError("cannot make a socket") }
    var yes: Int32 = 1
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr = in_addr(s_addr: UInt32(0x7f00_0001).bigEndian)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let listener = listener
    let isBound = withUnsafeMutablePointer(to: &address) { pointer in
      // SAFETY: the socket calls take any address type by its common head, which sockaddr_in also has.
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(listener, $0, length) == 0 && listen(listener, 128) == 0 && getsockname(listener, $0, &length) == 0
      }
    }
    guard isBound else { throw SocketError("cannot listen on 127.0.0.1:\(port)") }
    self.port = UInt16(bigEndian: address.sin_port)
  }

  /// Serves until SIGTERM or SIGINT.
  ///
  /// - Parameter turn: Called for each turn of the event loop. Must call its argument, the turn's work, exactly once.
  public func run(turn: (() -> Void) -> Void) {
    signal(SIGPIPE, SIG_IGN)
    // A service started from a Dispatch thread inherits a mask that blocks these signals.
    var ends = sigset_t()
    sigemptyset(&ends)
    for number in [SIGTERM, SIGINT] {
      signal(number) { _ in isStopRequested = 1 }
      sigaddset(&ends, number)
    }
    pthread_sigmask(SIG_UNBLOCK, &ends, nil)
    while isStopRequested == 0 {
      var polled = [pollfd(fd: listener, events: Int16(POLLIN), revents: 0)]
      for (descriptor, connection) in connections {
        let events = connection.response.isEmpty ? POLLIN : POLLOUT
        polled.append(pollfd(fd: descriptor, events: Int16(events), revents: 0))
      }
      // Waits at most a second, in case a signal arrives between the check above and the wait.
      guard poll(&polled, nfds_t(polled.count), 1000) > 0 else { continue }
      turn { serve(polled) }
    }
  }

  private func serve(_ polled: [pollfd]) {
    for entry in polled where entry.revents != 0 {
      if entry.fd == listener { acceptAll() } else { serve(entry.fd) }
    }
  }

  private func acceptAll() {
    while true {
      let descriptor = accept(listener, nil, nil)
      guard descriptor >= 0 else { return }
      _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
      _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
      connections[descriptor] = Connection()
    }
  }

  private func serve(_ descriptor: Int32) {
    guard var connection = connections[descriptor] else { return }
    if connection.response.isEmpty {
      var chunk = [UInt8](repeating: 0, count: 4096)
      let count = read(descriptor, &chunk, chunk.count)
      if count < 0, errno == EAGAIN || errno == EINTR { return }
      guard count > 0, connection.request.count < Self.requestBytesMax else { return drop(descriptor) }
      connection.request += chunk[..<count]
      if let line = Self.requestLine(connection.request) { connection.response = respond(line)[...] }
    }
    while !connection.response.isEmpty {
      let count = connection.response.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EAGAIN { break }
      guard count > 0 else { return drop(descriptor) }
      connection.response = connection.response.dropFirst(count)
      if connection.response.isEmpty { return drop(descriptor) }
    }
    connections[descriptor] = connection
  }

  private func drop(_ descriptor: Int32) {
    close(descriptor)
    connections[descriptor] = nil
  }

  /// Returns the first line of a request with a complete head.
  private static func requestLine(_ request: [UInt8]) -> String? {
    let text = String(decoding: request, as: UTF8.self)
    guard text.contains("\r\n\r\n") else { return nil }
    return String(text.prefix { $0 != "\r\n" })
  }

  private func respond(_ requestLine: String) -> [UInt8] {
    let parts = requestLine.split(separator: " ")
    guard parts.count == 3 else { return response(400, "bad request\n") }
    let target = parts[1].split(separator: "?", maxSplits: 1)
    switch (parts[0], target.first ?? "") {
    case ("GET", "/health"): return response(200, "ok\n")
    case ("GET", "/search"):
      let word = target.count == 2 && target[1].hasPrefix("q=") ? String(target[1].dropFirst(2)) : ""
      return response(200, "\(catalog.search(word).count) documents\n")
    case ("POST", "/rebuild"):
      rebuild()
      return response(200, "rebuilt\n")
    default: return response(404, "not found\n")
    }
  }

  @inline(never)
  private func rebuild() {
    catalog.rebuildIndex(for: .seconds(4))
    catalog.writeSnapshot(for: .seconds(1))
  }

  private func response(_ status: Int, _ body: String) -> [UInt8] {
    let head = "HTTP/1.1 \(status) \(status == 200 ? "OK" : "Error")\r\nContent-Length: \(body.utf8.count)\r\n"
    return Array((head + "Content-Type: text/plain\r\nConnection: close\r\n\r\n" + body).utf8)
  }
}
