import CCulpritLinux
import CCulpritObserver
import Foundation
import Glibc
import Testing

@Suite struct DescriptorTests {
  init() throws { try #require(canReadMemory) }

  private func read(_ number: Int32) -> (found: observer_descriptor, target: String) {
    var found = observer_descriptor()
    observer_descriptor_read(clinux_task_self(), number, &found)
    let target = withUnsafeBytes(of: found.target) {
      String(decoding: $0.prefix(Int(found.target_bytes)), as: UTF8.self)
    }
    return (found, target)
  }

  @Test func readsPathOfFile() throws {
    let file = open("/proc/self/exe", O_RDONLY)
    defer { close(file) }
    let (found, target) = read(file)
    #expect(target == readLink("/proc/self/exe").suffix(Int(OBSERVER_TARGET_BYTES)) && found.number == file)
  }

  @Test func keepsEndOfLongPath() throws {
    let directory = NSTemporaryDirectory() + "culprit-\(getpid())-" + String(repeating: "d", count: 200)
    #expect(mkdir(directory, 0o700) == 0)
    defer { rmdir(directory) }
    let file = open(directory, O_RDONLY)
    defer { close(file) }
    let (found, target) = read(file)
    #expect(found.is_cut && target == String(repeating: "d", count: Int(OBSERVER_TARGET_BYTES)))
  }

  @Test func readsInodeOfPipesAndSockets() throws {
    var ends: [Int32] = [0, 0]
    #expect(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    #expect(read(ends[0]).target.hasPrefix("pipe:[") && read(ends[0]).target == read(ends[1]).target)
    let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listening) }
    #expect(read(listening).target.hasPrefix("socket:["))
  }

  @Test func closedDescriptorHasNoTarget() {
    #expect(read(-1).found.target_bytes == 0 && read(1_000_000).found.target_bytes == 0)
  }

  #if arch(x86_64)
    private static let calls: [String: Int64] = [
      "read": 0, "fsync": 74, "recvfrom": 45, "futex": 202, "clock_nanosleep": 230, "ppoll": 271,
      "pselect6": 270, "openat": 257,
    ]
  #else
    private static let calls: [String: Int64] = [
      "read": 63, "fsync": 82, "recvfrom": 207, "futex": 98, "clock_nanosleep": 115, "ppoll": 73,
      "pselect6": 72, "openat": 56,
    ]
  #endif

  @Test func findsDescriptorOfSystemCall() {
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

  @Test func findsSingleSelectedDescriptor() {
    func selected(_ sets: [[Int32]?], below count: UInt64) -> Int32 {
      var memory = [UInt64](repeating: 0, count: 16 * 3)
      for (which, set) in sets.enumerated() {
        for number in set ?? [] { memory[16 * which + Int(number) / 64] |= 1 << (UInt64(number) % 64) }
      }
      return memory.withUnsafeBytes { bytes in
        let begin = UInt64(UInt(bitPattern: bytes.baseAddress))
        let pointers = sets.enumerated().map { $1 == nil ? 0 : begin + UInt64(128 * $0) }
        let arguments = [count] + pointers + [0, 0]
        return arguments.withUnsafeBufferPointer {
          observer_descriptor_number(Self.calls["pselect6"] ?? -1, $0.baseAddress)
        }
      }
    }
    #expect(selected([[7], nil, nil], below: 8) == 7 && selected([nil, nil, [1000]], below: 1024) == 1000)
    #expect(selected([[7], [7], nil], below: 8) == 7 && selected([[7], [6], nil], below: 8) == -1)
    #expect(selected([nil, nil, nil], below: 0) == -1 && selected([[7], nil, nil], below: 7) == -1)
  }

  @Test func readsPathArgumentOfSystemCall() {
    func path(_ path: String) -> String {
      var found = observer_descriptor()
      path.withCString { text in
        let arguments: [UInt64] = [0, UInt64(UInt(bitPattern: text)), 0, 0, 0, 0]
        observer_path_read(Self.calls["openat"] ?? -1, arguments, &found)
      }
      return (found.is_cut ? "…" : "")
        + withUnsafeBytes(of: found.target) { String(decoding: $0.prefix(Int(found.target_bytes)), as: UTF8.self) }
    }
    #expect(path("/srv/journal.db") == "/srv/journal.db" && path("") == "")
    let long = "/srv/" + String(repeating: "x", count: 300)
    #expect(path(long) == "…" + long.suffix(Int(OBSERVER_TARGET_BYTES)))
    var nothing = observer_descriptor()
    observer_path_read(Self.calls["openat"] ?? -1, [0, 8, 0, 0, 0, 0], &nothing)
    observer_path_read(Self.calls["read"] ?? -1, [0, 8, 0, 0, 0, 0], &nothing)
    #expect(nothing.target_bytes == 0)
  }

  private func readLink(_ path: String) -> String {
    var text = [CChar](repeating: 0, count: 4096)
    let count = readlink(path, &text, text.count)
    return String(decoding: text.prefix(max(0, count)).map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}
