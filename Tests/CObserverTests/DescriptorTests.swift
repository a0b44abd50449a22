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

  @Test func filesHaveTheirPath() throws {
    let file = open("/proc/self/exe", O_RDONLY)
    defer { close(file) }
    let (found, target) = read(file)
    #expect(target == readLink("/proc/self/exe").suffix(Int(OBSERVER_TARGET_BYTES)) && found.number == file)
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

  @Test func pipesAndSocketsHaveTheirNumber() throws {
    var ends: [Int32] = [0, 0]
    #expect(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    #expect(read(ends[0]).target.hasPrefix("pipe:[") && read(ends[0]).target == read(ends[1]).target)
    let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listening) }
    #expect(read(listening).target.hasPrefix("socket:["))
  }

  @Test func whatIsNotOpenHasNothing() {
    #expect(read(-1).found.target_bytes == 0 && read(1_000_000).found.target_bytes == 0)
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
