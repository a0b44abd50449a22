import Foundation
import Testing

/// A datagram socket that receives messages to systemd.
package final class SystemdListener {
  package let name: String
  private let descriptor: Int32

  /// Listens at the path `name`, or at an abstract address if `name` begins with "@".
  package init(_ name: String) throws {
    self.name = name
    descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let bytes = Array(name.utf8)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    var length = MemoryLayout<sockaddr_un>.offset(of: \.sun_path) ?? 0
    length += bytes.count + 1
    if name.hasPrefix("@") {
      withUnsafeMutableBytes(of: &address.sun_path) { $0[0] = 0 }
      length -= 1
    }
    let result = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(length)) }
    }
    try #require(descriptor >= 0 && result == 0, "\(String(cString: strerror(errno)))")
  }

  deinit { close(descriptor) }

  /// Returns all unread messages.
  package func heard() -> [String] {
    var all: [String] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
      guard count >= 0 else { return all }
      all.append(String(decoding: buffer[..<count], as: UTF8.self))
    }
  }
}
