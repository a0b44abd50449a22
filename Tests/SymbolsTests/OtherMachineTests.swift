import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct OtherMachineTests {
  private let fixture = Fixture()

  private static func library(_ target: String, _ options: String) -> String {
    "clang++ -target \(target) -O2 \(options) -ffreestanding -fPIC -c -o nested.o nested.cpp"
      + " && ld.lld -shared --gc-sections --build-id -o nested.so nested.o"
  }

  @Test(arguments: [
    ("i386-linux-gnu", "-gdwarf-2"), ("i386-linux-gnu", "-gdwarf-5 -gz=zlib"), ("i386-linux-gnu", "-gdwarf-4"),
    ("powerpc-linux-gnu", "-gdwarf-2"), ("powerpc-linux-gnu", "-gdwarf-4 -gz=zlib"), ("powerpc-linux-gnu", "-gdwarf-5"),
    ("powerpc-linux-gnu", "-gdwarf-4 -gsplit-dwarf"), ("mips-linux-gnu", "-gdwarf-5 -gsplit-dwarf -ffunction-sections"),
    ("mipsel-linux-gnu", "-gdwarf-3 -gz=zlib"), ("armv7-linux-gnueabihf", "-gdwarf-4"),
    ("thumbv7-linux-gnueabihf", "-gdwarf-5"), ("armebv7r-linux-gnueabi", "-gdwarf-5"),
    ("x86_64-linux-gnux32", "-gdwarf-5 -gdwarf64"), ("powerpc64-linux-gnu", "-mabi=elfv2 -gdwarf-4"),
    ("powerpc64-linux-gnu", "-mabi=elfv2 -gdwarf-5 -gdwarf64"),
    ("aarch64_be-linux-gnu", "-gdwarf-5 -gsplit-dwarf -gdwarf64"),
    ("riscv32-linux-gnu", "-gdwarf-5"), ("mips64-linux-gnuabi64", "-gdwarf-5 -ffunction-sections"),
  ])
  func callsMatchLLVM(target: String, options: String) throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run(Self.library(target, options))
    try expectCallsOfLLVM(fixture)
  }

  @Test(arguments: [
    "-gdwarf-2", "-gdwarf-4", "-gdwarf-5", "-gdwarf-4 -gdwarf64", "-gdwarf-5 -gdwarf64", "-gdwarf-5 -gz=zlib",
    "-gdwarf-4 -fdebug-types-section",
  ])
  func callsOf32BitGCCFilesMatchLLVM(options: String) throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run("g++ -m32 -O2 \(options) -nostdlib -shared -fPIC -o nested.so nested.cpp")
    try expectCallsOfLLVM(fixture)
  }

  private func expectCallsOfLLVM(_ fixture: Fixture) throws {
    let marker = try fixture.address(of: "marker", in: "nested.so")
    // llvm-symbolizer mistakes a label inside a function for a function.
    try fixture.run("\"\(fixture.toolchain())/llvm-objcopy\" -N marker -w -N '.L0*' nested.so")
    let symbolizer = try fixture.symbolizer("nested.so")
    let found = symbolizer.describe(marker)
    #expect(found.calls.compactMap(\.rawName) == nestedNames)
    #expect(found.calls.map(\.line) == nestedLines)
    #expect(found.symbol?.name == nestedNames.last)
    let text = try #require(ElfImage(path: fixture.path("nested.so")).sections.first { $0.name == ".text" })
    let addresses = Array(text.address..<text.address + text.size)
    try #require(addresses.count > 20)
    for (address, expected) in zip(addresses, try fixture.callsByLLVM(addresses, in: "nested.so")) {
      let found = symbolizer.describe(FileAddress(address))
      var calls = found.calls.enumerated()
        .map { place, call in
          let name = place == found.calls.count - 1 ? found.symbol?.name ?? call.rawName : call.rawName
          return "\(name ?? "??") \(call.file ?? "??"):\(call.line)"
        }
      if calls.isEmpty { calls = ["\(found.symbol?.name ?? "??") \(found.symbol?.file ?? "??"):0"] }
      let others = expected.map { $0.hasSuffix(":?") ? $0.dropLast() + "0" : $0 }
      #expect(calls == others, "\(String(address, radix: 16))")
    }
    #expect(symbolizer.problems == [])
  }

  /// No compiler here writes the 64-bit DWARF format with 4-byte addresses, big-endian.
  @Test(arguments: ["powerpc-linux-gnu", "mips-linux-gnu", "i386-linux-gnu"])
  func readsWideOffsetsWithNarrowAddresses(target: String) throws {
    try fixture.write(
      """
      .text
      .globl start
      .type start, @function
      start: nop; nop; nop; nop; nop; nop; nop; nop
      .size start, . - start
      .section .debug_abbrev,"",@progbits
      .uleb128 1, 0x11; .byte 1; .uleb128 0x03, 8, 0x10, 0x17, 0x11, 1, 0x12, 7, 0, 0
      .uleb128 2, 0x2e; .byte 0; .uleb128 0x03, 8, 0x55, 0x17, 0, 0
      .byte 0
      .section .debug_info,"",@progbits
      .long 0xffffffff; .quad 2f - 1f
      1: .short 4; .quad 0; .byte 4
      .uleb128 1; .asciz "wide.c"; .quad 0; .long start; .quad 8
      .uleb128 2; .asciz "written"; .quad 0
      .byte 0
      2:
      .section .debug_ranges,"",@progbits
      .long 0xffffffff, start; .long 2, 8; .long 0, 0
      .section .debug_line,"",@progbits
      .long 0xffffffff; .quad 4f - 3f
      3: .short 4; .quad 6f - 5f
      5: .byte 1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
      .byte 0; .asciz "wide.c"; .byte 0, 0, 0; .byte 0
      6: .byte 0, 5, 2; .long start
      .byte 3, 40, 1, 2, 4, 3, 2, 1, 2, 4, 0, 1, 1
      .byte 0, 5, 2; .long 0xffffffff; .byte 3, 90, 1, 2, 4, 0, 1, 1
      4:
      """,
      "wide.s"
    )
    try fixture.run("clang -target \(target) -c -o wide.o wide.s && ld.lld -shared -o wide.so wide.o")
    let start = try fixture.address(of: "start", in: "wide.so").value
    let symbolizer = try fixture.symbolizer("wide.so")
    let found = (0..<9).map { symbolizer.describe(FileAddress(start + $0)).calls.first }
    #expect(found.map { $0?.line } == [41, 41, 41, 41, 43, 43, 43, 43, nil])
    #expect(found.map { $0?.rawName } == [nil, nil] + Array(repeating: "written", count: 6) + [nil])
    #expect(found[0]?.file == "wide.c")
    #expect(symbolizer.describe(FileAddress(0xffff_ffff)).calls.isEmpty)
    #expect(symbolizer.describe(FileAddress(0x1_0000_0001)).calls.isEmpty)
    let expected = try fixture.callsByLLVM([start + 3, start + 5], in: "wide.so")
    #expect(expected.map { $0.map { $0.split(separator: " ").last } } == [["wide.c:41"], ["wide.c:43"]])
  }

  @Test(arguments: ["", "-Wl,-z,now", "-fcf-protection=full", "-no-pie -static-libgcc"])
  func names32BitX86StubsAfterTargets(options: String) throws {
    try fixture.write("int pay(int x) { return x; } int refund(int x) { return -x; }\n", "shop.c")
    try fixture.write("int pay(int), refund(int);\nint _start(void) { return pay(3) + refund(4) + 1; }\n", "main.c")
    let own = options.hasPrefix("-no-pie") ? "" : "-fPIC -pie"
    try fixture.run(
      "gcc -m32 -O1 -nostdlib -shared -fPIC -o libshop.so shop.c"
        + " && gcc -m32 -O1 -nostdlib \(own) \(options) -o stubs main.c -L. -lshop"
    )
    let listed = try fixture.run("objdump -d stubs").split(separator: "\n").filter { $0.hasSuffix("@plt>:") }
    try #require(listed.count == 2)
    let symbolizer = try fixture.symbolizer("stubs")
    #expect(symbolizer.addressBytes == 4)
    for line in listed {
      let address = try #require(UInt64(line.prefix { $0 != " " }, radix: 16))
      let name = String(line.drop { $0 != "<" }.dropFirst().dropLast(2))
      #expect(symbolizer.describe(FileAddress(address)).stub == name)
    }
  }

  /// The lowest bit of a symbol marks Thumb code; the function begins at the even address.
  @Test func startsThumbFunctionsAtEvenAddress() throws {
    try fixture.write("int first(int x) { return x + 1; }\nint second(int x) { return x + 2; }\n", "thumb.c")
    try fixture.run(
      "clang -target thumbv7-linux-gnueabihf -O1 -ffreestanding -fPIC -c thumb.c && ld.lld -shared -o thumb.so thumb.o"
    )
    let symbolizer = try fixture.symbolizer("thumb.so")
    // llvm-nm also clears the bit.
    for name in ["first", "second"] {
      let start = try fixture.address(of: name, in: "thumb.so")
      #expect(symbolizer.describe(start).symbol?.name == name)
      #expect(symbolizer.describe(start).symbol?.start == start)
    }
  }

  /// In the ELFv1 ABI for PowerPC64 a function's symbol refers to its descriptor.
  @Test func findsPowerPCFunctionsByDescriptor() throws {
    try fixture.write(
      """
      .section .opd,"aw",@progbits
      .globl pay, refund
      .type pay, @function
      pay: .quad 0x10010000, 0, 0
      .size pay, 24
      .type refund, @function
      refund: .quad 0x10010008, 0, 0
      .size refund, 8
      .text
      .globl _start
      _start: nop; nop; nop; nop
      """,
      "opd.s"
    )
    try fixture.run(
      "clang -target powerpc64-linux-gnu -c opd.s && ld.lld --section-start=.text=0x10010000 -o opd opd.o"
    )
    let symbolizer = try fixture.symbolizer("opd")
    #expect(symbolizer.describe(FileAddress(0x1001_0000)).symbol?.name == "pay")
    #expect(symbolizer.describe(FileAddress(0x1001_000c)).symbol?.name == "refund")
  }

  @Test func rejectsUnknownClassesAndByteOrders() throws {
    for (place, text) in [
      (4, "is an ELF file of a class that is not known (7)"),
      (5, "is an ELF file in a byte order that is not known (7)"),
    ] {
      var header: [UInt8] = [0x7f, 0x45, 0x4c, 0x46, 1, 2, 1] + [UInt8](repeating: 0, count: 60)
      header[place] = 7
      try Data(header).write(to: URL(fileURLWithPath: fixture.path("odd")))
      let error = #expect(throws: ElfError.self) { try ElfImage(path: fixture.path("odd")) }
      #expect(error?.text == "\(fixture.path("odd")) \(text)")
    }
    try Data([0x7f, 0x45, 0x4c, 0x46, 1, 2, 1] + [UInt8](repeating: 0, count: 44))
      .write(to: URL(fileURLWithPath: fixture.path("short")))
    let error = #expect(throws: ElfError.self) { try ElfImage(path: fixture.path("short")) }
    #expect(error?.text == "\(fixture.path("short")) ends inside its ELF header")
  }
}
