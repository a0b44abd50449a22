import CulpritStallRecord
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Culprit

private func changed(_ change: (inout Watchdog.Configuration) -> Void) -> Watchdog.Configuration {
  var configuration = Watchdog.Configuration()
  change(&configuration)
  return configuration
}

func storageLimits(
  bytes: Int = 256 << 20,
  files: Int = 1000,
  age: Duration = .seconds(30 * 86_400)
) -> Watchdog.Configuration.Storage {
  var storage = Watchdog.Configuration.Storage()
  (storage.bytesMax, storage.filesMax, storage.ageMax) = (bytes, files, age)
  return storage
}

@Suite(.usesObserver) struct ConfigurationTests {
  @Test(arguments: [
    (Watchdog.Configuration(threshold: .zero), "sampling.threshold is 0s; it must be from 10ms to 2147483648s"),
    (Watchdog.Configuration(threshold: .seconds(-4)), "sampling.threshold is -4s; it must be from 10ms to 2147483648s"),
    (
      Watchdog.Configuration(interval: .seconds(5)),
      "sampling.interval is 5s; it must be from 10ms to the threshold of 4s"
    ),
    (
      Watchdog.Configuration(interval: .milliseconds(9)),
      "sampling.interval is 9ms; it must be from 10ms to the threshold of 4s"
    ),
    (
      changed { $0.sampling.stackBytesMax = 100 },
      "sampling.stackBytesMax is 100; it must be from 4096 to 8388608 bytes"
    ),
    (
      changed { $0.reporting.symbolBytesMax = 100 },
      "reporting.symbolBytesMax is 100; it must be at least 1048576 bytes"
    ),
    (changed { $0.reporting.width = 20 }, "reporting.width is 20; it must be at least 40 characters"),
    (Watchdog.Configuration(directory: ""), "storage.directory is \"\"; it must be a path"),
    (
      Watchdog.Configuration(directory: "~/stalls"),
      "storage.directory is \"~/stalls\"; ~ is not expanded: use the whole path, or ./~ for a directory of that name"
    ),
  ])
  func rejectsInvalidValues(configuration: Watchdog.Configuration, description: String) {
    let error = #expect(throws: WatchdogError.self) { try Watchdog(configuration) }
    #expect(error?.description == description)
  }
}

@Suite struct ProcessMapTests {
  @Test func parsesMaps() {
    let text = """
      55d0a0000000-55d0a0001000 r--p 00000000 fe:00 1234                       /opt/my shop/bin (deleted)
      55d0a0001000-55d0a0003000 r-xp 00001000 fe:00 1234                       /opt/my shop/bin (deleted)
      7f0000000000-7f0000001000 rw-p 00000000 00:00 0
      7f0000001000-7f0000002000 rwxp 00000000 00:00 0                          [heap]
      7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
      """
    let modules = ProcessMap.modules(maps: text) {
      ProcessMap.Header(buildID: [UInt8(truncatingIfNeeded: $0.value >> 40)], bias: $0.value)
    }
    #expect(modules.map(\.path) == ["/opt/my shop/bin (deleted)", "[vdso]"])
    #expect(modules[0].buildID == [0x55])
    #expect(modules[0].mappings.map(\.fileOffset) == [0x1000])
    #expect(modules[0].fileOffset(of: RuntimeAddress(0x55d0_a000_1010)) == 0x1010)
  }

  @Test func distinguishesFilesOfOnePath() {
    let text = """
      7f0000000000-7f0000001000 r-xp 00000000 fe:00 1234                       /opt/plug-in.so (deleted)
      7f0000004000-7f0000005000 r-xp 00000000 fe:00 1235                       /opt/plug-in.so (deleted)
      """
    let modules = ProcessMap.modules(maps: text) { ProcessMap.Header(bias: $0.value) }
    #expect(modules.map(\.identity) == ["fe:00 1234", "fe:00 1235"])
    #expect(modules.map(\.mappings.count) == [1, 1])
  }

  /// The file's second mapping must be ignored; divided code mappings must be joined.
  @Test(arguments: [0x7000_0000_0000, 0x7200_0000_0000] as [UInt64])
  func readsHeadersOfLoadedMappings(elsewhere: UInt64) {
    func line(_ start: UInt64, _ length: UInt64, _ access: String, _ offset: UInt64) -> String {
      let (first, last) = (String(start, radix: 16), String(start + length, radix: 16))
      return "\(first)-\(last) \(access) \(String(offset, radix: 16)) fe:00 1234 /usr/lib/libshop.so"
    }
    let base: UInt64 = 0x7100_0000_0000
    let loaded = [
      line(base, 0x2000, "r--p", 0), line(base + 0x2000, 0x1000, "r-xp", 0x2000),
      line(base + 0x3000, 0x4000, "r-xp", 0x3000), line(base + 0x8000, 0x1000, "rw-p", 0x7000),
    ]
    let read = [line(elsewhere, 0x9000, "r--p", 0)]
    let lines = elsewhere < base ? read + loaded : loaded + read
    let modules = ProcessMap.modules(maps: lines.joined(separator: "\n")) { ProcessMap.Header(bias: $0.value) }
    #expect(modules.map(\.bias) == [base])
    let code = Module.Mapping(
      start: RuntimeAddress(base + 0x2000),
      end: RuntimeAddress(base + 0x7000),
      fileOffset: 0x2000
    )
    #expect(modules.map(\.mappings) == [[code]])
  }

  @Test func findsOwnModules() {
    let modules = ProcessMap.modules()
    #expect(modules.contains { $0.name == "libc.so.6" && $0.buildID.count == 20 })
    #expect(modules.contains { $0.path == "[vdso]" })
  }
}
