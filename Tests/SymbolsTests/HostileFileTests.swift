import CulpritStallRecord
import Foundation
import SplitMix
import Testing

@testable import CulpritSymbols

/// Damaged and malicious files cause neither crashes nor hangs.
@Suite(.ownThread) struct HostileFileTests {
  private let fixture = Fixture()

  /// Memory of exactly the file's size.
  private final class Memory {
    let bytes: Bytes
    private let region: UnsafeMutableRawBufferPointer

    init(_ content: [UInt8]) {
      region = .allocate(byteCount: max(1, content.count), alignment: 16)
      region.copyBytes(from: content)
      bytes = Bytes(base: UnsafeRawPointer(region.baseAddress.unsafelyUnwrapped), count: content.count)
    }

    deinit { region.deallocate() }
  }

  /// Looks up addresses throughout the code. Returns the number of addresses with a name.
  @discardableResult
  private func describe(_ content: [UInt8], step: UInt64 = 5) -> Int {
    let memory = Memory(content)
    guard let image = try? ElfImage(bytes: memory.bytes, path: "damaged", keeper: memory) else { return 0 }
    let file = SymbolFile(image, search: DebugSearch())
    var named = 0
    let code = image.sections.first { $0.name == ".text" }?.address ?? 0x1000
    for address in stride(from: code, to: code.addingReportingOverflow(0x200).partialValue, by: Int(step)) {
      let frames = file.frames(at: FileAddress(address), module: "damaged")
      if frames.contains(where: { $0.function != nil }) { named += 1 }
    }
    return named
  }

  @Test(arguments: [
    "g++ -gdwarf-2", "g++ -gdwarf-4", "g++ -gdwarf-5", "clang++ -gdwarf-5", "g++ -g -gz=zlib",
    "g++ -gdwarf-5 -gdwarf64", "g++ -m32 -gdwarf-4", "clang++ -target powerpc-linux-gnu -fuse-ld=lld -gdwarf-5",
    "g++ -gdwarf-4 -fdebug-types-section",
  ])
  func survivesDamagedFiles(compiler: String) throws {
    let seed: UInt64 = 20_261
    var random = SplitMix(seed)
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("\(compiler) -O2 -nostartfiles -nostdlib -shared -fPIC -o nested.so nested.cpp")
    let whole = [UInt8](try Data(contentsOf: URL(fileURLWithPath: fixture.path("nested.so"))))
    try #require(describe(whole) > 0)
    for _ in 0..<250 {
      var damaged = whole
      switch Int.random(in: 0..<4, using: &random) {
      case 0: damaged.removeLast(Int.random(in: 1..<damaged.count, using: &random))
      case 1:
        for _ in 0..<Int.random(in: 1...8, using: &random) {
          damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
        }
      case 2:
        let place = Int.random(in: 0..<damaged.count - 8, using: &random)
        for byte in 0..<8 { damaged[place + byte] = 0xff }
      default:
        let (from, to) = (
          Int.random(in: 0..<damaged.count - 64, using: &random), Int.random(in: 0..<damaged.count - 64, using: &random)
        )
        for byte in 0..<64 { damaged[to + byte] = whole[from + byte] }
      }
      describe(damaged, step: 37)
    }
  }

  /// The files that fuzzing found (Findings/README.md).
  @Test func survivesFuzzedFiles() throws {
    let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Findings")
    let files = try FileManager.default.contentsOfDirectory(atPath: directory.path).filter { $0.hasPrefix("elf-") }
    try #require(!files.isEmpty)
    for file in files { describe([UInt8](try Data(contentsOf: directory.appendingPathComponent(file))), step: 1) }
  }

  @Test func survivesFuzzedNames() throws {
    let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Findings")
    let files = try FileManager.default.contentsOfDirectory(atPath: directory.path).filter { $0.hasPrefix("name-") }
    try #require(!files.isEmpty)
    let found = try files.map {
      String(decoding: try Data(contentsOf: directory.appendingPathComponent($0)), as: UTF8.self)
    }
    for text in found + ["", " ", "$s4", "(extension in ):", "->", " -> ()"] {
      _ = demangle(text)
      _ = SwiftName(demangled: text)
      _ = CxxName(demangled: text)
    }
  }

  @Test func rejectsInflatedZeros() throws {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().path + "/Findings/elf-inflated-zeros"
    let image = try ElfImage(path: file)
    let claimed = image.sections.filter { $0.flags & ElfFormat.compressedFlag != 0 }
    try #require(!claimed.isEmpty)
    #expect(claimed.contains { section in (try? image.content(of: section.name)) == nil })
  }

  @Test func breaksOriginLoops() throws {
    try fixture.write(
      """
      .text
      .globl start
      .type start, @function
      start: nop; nop; nop; nop; ret
      .size start, . - start
      .section .debug_abbrev,"",@progbits
      .uleb128 1, 0x11; .byte 1; .uleb128 0x11, 1, 0x12, 7, 0, 0
      .uleb128 2, 0x2e; .byte 0; .uleb128 0x11, 1, 0x12, 7, 0x31, 0x13, 0, 0
      .uleb128 3, 0x2e; .byte 0; .uleb128 0x31, 0x13, 0, 0
      .byte 0
      .section .debug_info,"",@progbits
      unit: .long 2f - 1f
      1: .short 4; .long 0; .byte 8
      .uleb128 1; .quad start, 5
      first: .uleb128 2; .quad start, 5; .long second - unit
      second: .uleb128 3; .long first_copy - unit
      first_copy: .uleb128 3; .long second - unit
      .byte 0
      2:
      """,
      "loop.s"
    )
    try fixture.run("gcc -nostartfiles -nostdlib -shared -o loop.so loop.s")
    let found = try fixture.describe("start", in: "loop.so")
    #expect(found.symbol?.name == "start")
    #expect(found.calls.map(\.rawName) == [nil])
  }

  @Test func rejectsGigabyteSizeClaims() throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("g++ -O2 -g -gz=zlib -nostartfiles -nostdlib -shared -fPIC -o nested.so nested.cpp")
    var content = [UInt8](try Data(contentsOf: URL(fileURLWithPath: fixture.path("nested.so"))))
    let section = try #require(ElfImage(path: fixture.path("nested.so")).sections.first { $0.name == ".debug_info" })
    // The size follows the compression type (System V ABI, "Section Compression").
    for byte in 0..<8 { content[Int(section.offset) + 8 + byte] = byte == 4 ? 16 : 0 }
    try Data(content).write(to: URL(fileURLWithPath: fixture.path("claims.so")))
    let symbolizer = try fixture.symbolizer("claims.so")
    let found = symbolizer.describe(try fixture.address(of: "marker", in: "nested.so"))
    #expect(found.calls.isEmpty)
    #expect(found.symbol != nil)
    #expect(symbolizer.problems.first?.contains("claims to become 68719476736") == true, "\(symbolizer.problems)")
  }

  @Test func reportsUnknownCompression() throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("g++ -O2 -g -gz=zlib -nostartfiles -nostdlib -shared -fPIC -o nested.so nested.cpp")
    var content = [UInt8](try Data(contentsOf: URL(fileURLWithPath: fixture.path("nested.so"))))
    let section = try #require(ElfImage(path: fixture.path("nested.so")).sections.first { $0.name == ".debug_info" })
    content[Int(section.offset)] = 77
    try Data(content).write(to: URL(fileURLWithPath: fixture.path("unknown.so")))
    let symbolizer = try fixture.symbolizer("unknown.so")
    #expect(symbolizer.describe(try fixture.address(of: "marker", in: "nested.so")).calls.isEmpty)
    #expect(symbolizer.problems == ["the section .debug_info is compressed in a way that is not known (77)"])
  }

  @Test func rejectsFileTruncatedWhileMapped() throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("g++ -O2 -g -shared -fPIC -Wl,--build-id -o nested.so nested.cpp")
    let image = try ElfImage(path: fixture.path("nested.so"))
    let mapping = Module.Mapping(start: RuntimeAddress(0x10_0000), end: RuntimeAddress(0x20_0000), fileOffset: 0)
    let module = Module(path: fixture.path("nested.so"), buildID: image.buildID, mappings: [mapping])
    let symbolizer = Symbolizer(modules: [module])
    let marker = try fixture.address(of: "marker", in: "nested.so")
    #expect(symbolizer.resolve(.programCounter(RuntimeAddress(0x10_0000 + marker.value))).count == 3)
    truncate(fixture.path("nested.so"), 100)
    // The file's size is checked every few milliseconds.
    usleep(20_000)
    let found = symbolizer.resolve(.programCounter(RuntimeAddress(0x10_0001 + marker.value)))
    let reason = "\(fixture.path("nested.so")) became shorter while it was read"
    #expect(found.map(\.missing) == [.unreadableFile(reason)])
  }
}
