import CCulpritLinux
import CCulpritProcess
import Foundation
import Glibc
import Testing

/// Datagrams to sockets such as systemd's.
@Suite struct DatagramTests {
  private func receiver(_ name: String) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(name.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { path in
      for (index, byte) in bytes.enumerated() { path[index] = byte == 0x40 && index == 0 ? 0 : byte }
    }
    let length = 2 + bytes.count + (name.hasPrefix("@") ? 0 : 1)
    let result = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(length)) }
    }
    try #require(result == 0)
    return descriptor
  }

  private func received(_ descriptor: Int32) -> String? {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
    return count < 0 ? nil : String(decoding: bytes[..<count], as: UTF8.self)
  }

  private func withTarget(_ name: String, _ body: (inout cprocess_datagram) throws -> Void) throws {
    var target = cprocess_datagram()
    try #require(cprocess_datagram_open(&target, name) == 0)
    defer { cprocess_datagram_close(&target) }
    try body(&target)
  }

  /// Paths and abstract names of short and of maximum length.
  @Test func deliversDatagrams() throws {
    let unique = "\(getpid())-\(UInt32.random(in: 0 ... .max))"
    let longest = String(repeating: "n", count: 107 - unique.utf8.count)
    let directory = NSTemporaryDirectory()
    let longestPath = "\(directory)\(unique)\(longest.dropLast(directory.utf8.count))"
    for name in ["\(directory)c-\(unique)", "@c-\(unique)", "@\(unique)\(longest)", longestPath] {
      let descriptor = try receiver(name)
      defer {
        close(descriptor)
        unlink(name)
      }
      try withTarget(name) { target in
        #expect(cprocess_datagram_send(&target, "READY=1", 7) == 0 && received(descriptor) == "READY=1")
        #expect(cprocess_datagram_send(&target, "READY=1", 3) == 0 && received(descriptor) == "REA")
        // The service has reused the socket's number for another file.
        let other = open("/dev/null", O_WRONLY)
        dup2(other, target.socket.number)
        let taken = target.socket.number
        #expect(cprocess_datagram_send(&target, "STATUS=a", 8) == 0 && received(descriptor) == "STATUS=a")
        #expect(target.socket.number != taken && fcntl(taken, F_GETFD) >= 0)
        close(taken)
        close(other)
      }
    }
  }

  @Test func rejectsInvalidNames() {
    var target = cprocess_datagram()
    for (name, error) in [
      ("", EAFNOSUPPORT), ("/", EAFNOSUPPORT), ("@", EAFNOSUPPORT), ("relative", EAFNOSUPPORT),
      ("vsock:2", EAFNOSUPPORT),
      ("/" + String(repeating: "n", count: 107), ENAMETOOLONG),
      ("@" + String(repeating: "n", count: 108), ENAMETOOLONG),
    ] { #expect(cprocess_datagram_open(&target, name) == error, "\(name)") }
    for name in ["/" + String(repeating: "n", count: 106), "@" + String(repeating: "n", count: 107), "@a", "/a"] {
      #expect(cprocess_datagram_open(&target, name) == 0, "\(name)")
      errno = 4711
      #expect(cprocess_datagram_send(&target, "x", 1) != 0 && errno == 4711)
      cprocess_datagram_close(&target)
      #expect(target.socket.number == -1)
    }
  }

  @Test func doesNotWaitForFullReceiver() throws {
    let name = "@c-full-\(getpid())"
    let descriptor = try receiver(name)
    defer { close(descriptor) }
    try withTarget(name) { target in
      var sent = 0
      while cprocess_datagram_send(&target, "x", 1) == 0 { sent += 1 }
      #expect(sent > 0 && cprocess_datagram_send(&target, "x", 1) == EAGAIN)
      for _ in 0..<sent { #expect(received(descriptor) == "x") }
      #expect(received(descriptor) == nil && cprocess_datagram_send(&target, "y", 1) == 0)
    }
  }
}
