import CCulpritLinux
import CulpritStallRecord

/// The process's sockets by inode, with their peers and queued bytes.
///
/// Reading `/proc/thread-self/net` locks no socket. `getpeername` would wait for a thread inside another call on the
/// socket.
struct SocketTable {
  struct Entry: Hashable {
    /// An address as in `struct sockaddr`; empty if there is none.
    var address: [UInt8] = []
    /// Whether `address` is the peer's address, not the socket's own.
    var isPeersAddress = false
    var unreadBytes: UInt32?
    var unsentBytes: UInt32?
  }

  private(set) var entries: [UInt64: Entry] = [:]

  init() {}

  static func read() -> SocketTable {
    var table = SocketTable()
    let folder = "/proc/thread-self/net/"
    for name in ["tcp", "udp"] {
      table.add(internet: ProcessMap.readAll(folder + name) ?? "", counts: name == "tcp")
      table.add(internet: ProcessMap.readAll(folder + name + "6") ?? "", counts: name == "tcp")
    }
    table.add(unix: ProcessMap.readAll(folder + "unix") ?? "")
    return table
  }

  /// Adds sockets from `/proc/net/tcp` or a similar file (proc(5)). `counts`: whether queue columns are byte counts.
  mutating func add(internet text: String, counts: Bool) {
    for line in text.split(separator: "\n").dropFirst() {
      let fields = line.split(separator: " ", maxSplits: 10, omittingEmptySubsequences: true)
      guard fields.count > 9, let inode = UInt64(fields[9]), inode != 0, let own = Self.address(fields[1]),
        let peer = Self.address(fields[2]), let state = UInt8(fields[3], radix: 16)
      else { continue }
      var entry = Entry(address: own)
      // An unconnected socket has peer port 0.
      if peer[2] != 0 || peer[3] != 0 { (entry.address, entry.isPeersAddress) = (peer, true) }
      let queues = fields[4].split(separator: ":")
      // For listening sockets the queue columns count connections, and for connecting sockets the pending SYN.
      if counts, state != Self.listening, state != Self.connecting, queues.count == 2 {
        entry.unsentBytes = UInt32(queues[0], radix: 16)
        entry.unreadBytes = UInt32(queues[1], radix: 16)
      }
      entries[inode] = entry
    }
  }

  /// Adds Unix sockets from `/proc/net/unix`.
  mutating func add(unix text: String) {
    for line in text.split(separator: "\n").dropFirst() {
      let fields = line.split(separator: " ", maxSplits: 7, omittingEmptySubsequences: true)
      guard fields.count > 7, let inode = UInt64(fields[6]) else { continue }
      let name = fields[7].utf8.first == UInt8(ascii: "@") ? [0] + fields[7].utf8.dropFirst() : Array(fields[7].utf8)
      entries[inode] = Entry(address: [Self.unix, 0] + name)
    }
  }

  // include/net/tcp_states.h, include/linux/socket.h.
  private static let connecting: UInt8 = 2
  private static let listening: UInt8 = 10
  private static let unix: UInt8 = 1
  private static let internet: UInt8 = 2
  private static let internet6: UInt8 = 10

  /// Parses an address in the kernel's format: 32-bit words in native byte order, then a port.
  private static func address(_ text: Substring) -> [UInt8]? {
    let parts = text.split(separator: ":")
    guard parts.count == 2, parts[0].utf8.count == 8 || parts[0].utf8.count == 32,
      let port = UInt16(parts[1], radix: 16)
    else { return nil }
    var bytes: [UInt8] = []
    var rest = parts[0]
    while !rest.isEmpty {
      guard let word = UInt32(rest.prefix(8), radix: 16) else { return nil }
      rest = rest.dropFirst(8)
      withUnsafeBytes(of: word) { bytes += $0 }
    }
    let head = [UInt8(port >> 8), UInt8(port & 0xff)]
    return bytes.count == 4
      ? [internet, 0] + head + bytes + [UInt8](repeating: 0, count: 8)
      : [internet6, 0] + head + [0, 0, 0, 0] + bytes + [0, 0, 0, 0]
  }

  static func inode(of target: String) -> UInt64? {
    guard target.hasPrefix("socket:["), target.hasSuffix("]") else { return nil }
    return UInt64(target.dropFirst("socket:[".count).dropLast())
  }
}

/// A cached socket table.
struct SocketLookup {
  private var table = SocketTable()
  private var next: UInt64 = 0

  /// Maximum age of the table in nanoseconds; ``pause`` times the duration of the reading if longer.
  private static let age: UInt64 = 1_000_000_000
  private static let pause: UInt64 = 63

  /// Adds address and byte counts to `descriptor` if it is a socket.
  mutating func complete(_ descriptor: inout Descriptor) {
    guard let inode = SocketTable.inode(of: descriptor.target) else { return }
    let now = clinux_clock_ns()
    if now >= next {
      table = SocketTable.read()
      let end = clinux_clock_ns()
      next = end &+ max(Self.age, Self.pause &* clinux_clock_between_ns(now, end))
    }
    guard let entry = table.entries[inode] else { return }
    descriptor.address = entry.address
    descriptor.isPeersAddress = entry.isPeersAddress
    descriptor.unreadBytes = entry.unreadBytes
    descriptor.unsentBytes = entry.unsentBytes
  }
}
