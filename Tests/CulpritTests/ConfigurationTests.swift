import CulpritStallRecord
import Foundation
import Synchronization
import Testing

@testable import Culprit

@Suite(.usesObserver) struct ConfigurationTests {
  @Test(arguments: [
    (
      Configuration(stallThreshold: .zero),
      "stallThreshold is 0.0 seconds; it must be from 0.01 seconds to 2147483648.0 seconds"
    ),
    (
      Configuration(stallThreshold: .seconds(-4)),
      "stallThreshold is -4.0 seconds; it must be from 0.01 seconds to 2147483648.0 seconds"
    ),
    (
      Configuration(stallThreshold: .seconds(4), sampleInterval: .seconds(5)),
      "sampleInterval is 5.0 seconds; it must be from 0.01 seconds to the stallThreshold of 4.0 seconds"
    ),
    (
      Configuration(sampleInterval: .milliseconds(9)),
      "sampleInterval is 0.009 seconds; it must be from 0.01 seconds to the stallThreshold of 4.0 seconds"
    ), (Configuration(stackBytesMax: 100), "stackBytesMax is 100; it must be from 4096 to 8388608 bytes"),
    (Configuration(symbolMemory: 100), "symbolMemory is 100; it must be at least 1048576 bytes"),
    (Configuration(reportWidth: 20), "reportWidth is 20; it must be at least 40 characters"),
    (Configuration(directory: ""), "directory is \"\"; it must be a path"),
  ])
  func valuesThatMakeNoSenseAreRefusedInASentence(configuration: Configuration, sentence: String) {
    let error = #expect(throws: WatchdogError.self) { try Watchdog(configuration) }
    #expect(error?.description == sentence)
  }

  @Test func theIntervalFollowsAShortThreshold() {
    #expect(Configuration(stallThreshold: .milliseconds(100)).sampleInterval == .milliseconds(100))
    #expect(Configuration().sampleInterval == .seconds(1))
    #expect(Configuration().stallThreshold == .seconds(4))
  }

  @Test func aDirectoryThatCannotBeUsedIsRefused() throws {
    try withDirectory { directory in
      let file = "\(directory)/file"
      try Data().write(to: URL(fileURLWithPath: file))
      for path in [file, "\(file)/below", "/proc/nothing/here"] {
        let error = #expect(throws: WatchdogError.self) { try Watchdog(Configuration(directory: path)) }
        guard case .unusableDirectory(path, _) = error else {
          Issue.record("\(path): \(String(describing: error))")
          continue
        }
      }
    }
  }
}

@Suite struct ProcessMapTests {
  @Test func mapsAreReadAsTheKernelWritesThem() {
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

  /// Who reads symbols maps the file once more; what is locked in memory is a mapping of its own.
  @Test(arguments: [0x7000_0000_0000, 0x7200_0000_0000] as [UInt64])
  func theHeaderIsThatOfWhatTheLoaderMapped(elsewhere: UInt64) {
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

  @Test func thisProcessHasItsModulesWithBuildIDs() {
    let modules = ProcessMap.modules()
    #expect(modules.contains { $0.name == "libc.so.6" && $0.buildID.count == 20 })
    #expect(modules.contains { $0.path == "[vdso]" })
  }
}
