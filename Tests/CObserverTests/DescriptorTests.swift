import CCulpritObserver
import Glibc
import Testing

/// What is behind descriptors, asked of the kernel.
@Suite struct DescriptorTests {
  private func read(_ number: Int32) -> (found: observer_descriptor, target: String) {
    var found = observer_descriptor()
    observer_descriptor_read(number, &found)
    let target = withUnsafeBytes(of: found.target) {
      String(decoding: $0.prefix(Int(found.target_bytes)), as: UTF8.self)
    }
    return (found, target)
  }

  private func address(_ found: observer_descriptor) -> [UInt8] {
    withUnsafeBytes(of: found.address) { Array($0.prefix(Int(found.address_bytes))) }
  }

  @Test func filesHaveTheirPath() throws {
    let file = open("/proc/self/exe", O_RDONLY)
    defer { close(file) }
    let (found, target) = read(file)
    #expect(target == readLink("/proc/self/exe").suffix(Int(OBSERVER_TARGET_BYTES)) && found.number == file)
    #expect(found.address_owner == OBSERVER_NO_ADDRESS.rawValue && found.unread == .max && found.unsent == .max)
  }

  @Test func ofLongPathsTheEndIsKept() throws {
    let directory = "/tmp/culprit-\(getpid())-" + String(repeating: "d", count: 200)
    #expect(mkdir(directory, 0o700) == 0)
    defer { rmdir(directory) }
    let file = open(directory, O_RDONLY)
    defer { close(file) }
    let (found, target) = read(file)
    #expect(found.is_cut && target == String(repeating: "d", count: Int(OBSERVER_TARGET_BYTES)))
  }

  @Test func pipesAndSocketsHaveWhatWaitsInThem() throws {
    var ends: [Int32] = [0, 0]
    #expect(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    #expect(write(ends[1], "1234567", 7) == 7)
    let (found, target) = read(ends[0])
    #expect(target.hasPrefix("pipe:[") && found.unread == 7 && found.unsent == .max)
    var pair: [Int32] = [0, 0]
    #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
    defer { for end in pair { close(end) } }
    #expect(write(pair[1], "12345", 5) == 5)
    #expect(read(pair[0]).found.unread == 5 && read(pair[0]).target.hasPrefix("socket:["))
  }

  @Test func socketsHaveTheAddressOfTheirPeerElseTheirOwn() throws {
    let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listening) }
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var bytes = socklen_t(MemoryLayout<sockaddr_in>.size)
    try withUnsafeMutablePointer(to: &name) { pointer in
      try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        try #require(bind(listening, name, bytes) == 0 && listen(listening, 1) == 0)
        try #require(getsockname(listening, name, &bytes) == 0)
      }
    }
    let own = withUnsafeBytes(of: name) { Array($0) }
    #expect(
      read(listening).found.address_owner == OBSERVER_OWN_ADDRESS.rawValue && address(read(listening).found) == own
    )
    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(client) }
    try withUnsafePointer(to: &name) { pointer in
      try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        try #require(connect(client, name, bytes) == 0)
      }
    }
    let found = read(client).found
    #expect(found.address_owner == OBSERVER_PEERS_ADDRESS.rawValue && address(found) == own)
    #expect(found.unread == 0 && found.unsent == 0)
  }

  @Test func whatIsNotOpenHasNothing() {
    #expect(read(-1).found.target_bytes == 0 && read(1_000_000).found.target_bytes == 0)
    #expect(read(1_000_000).found.address_owner == OBSERVER_NO_ADDRESS.rawValue)
  }

  #if arch(x86_64)
    private static let calls: [String: Int64] = [
      "read": 0, "fsync": 74, "recvfrom": 45, "futex": 202, "clock_nanosleep": 230, "ppoll": 271,
    ]
  #else
    private static let calls: [String: Int64] = [
      "read": 63, "fsync": 82, "recvfrom": 207, "futex": 98, "clock_nanosleep": 115, "ppoll": 73,
    ]
  #endif

  /// Which argument of which call is a descriptor.
  @Test func callsAreOnTheirDescriptor() {
    func number(_ name: String, _ arguments: [UInt64]) -> Int32 {
      let call = Self.calls[name] ?? -1
      let six = arguments + Array(repeating: 0, count: 6 - arguments.count)
      return six.withUnsafeBufferPointer { observer_descriptor_number(call, $0.baseAddress) }
    }
    #expect(number("read", [7]) == 7 && number("fsync", [8]) == 8 && number("recvfrom", [9]) == 9)
    #expect(number("futex", [7]) == -1 && number("clock_nanosleep", [1]) == -1)
    var polled = [pollfd(fd: 11, events: 1, revents: 0), pollfd(fd: 12, events: 1, revents: 0)]
    polled.withUnsafeMutableBytes { all in
      let address = UInt64(UInt(bitPattern: all.baseAddress))
      #expect(number("ppoll", [address, 1]) == 11 && number("ppoll", [address, 2]) == -1)
    }
    #expect(number("ppoll", [8, 1]) == -1)
  }

  private func readLink(_ path: String) -> String {
    var text = [CChar](repeating: 0, count: 4096)
    let count = readlink(path, &text, text.count)
    return String(decoding: text.prefix(max(0, count)).map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}
