import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct TypeUnitTests {
  private let fixture = Fixture()

  /// The function's declaration is in a type unit, referred to by signature. The test uses assembly, because compilers
  /// copy declarations of methods to the unit with the code.
  @Test(arguments: [("", 4), ("-m32", 4), ("", 5), ("-m32", 5)])
  func findsNamesBySignature(option: String, version: Int) throws {
    let address = option.isEmpty ? ".quad" : ".long"
    let bytes = option.isEmpty ? 8 : 4
    // In DWARF 5, the unit's kind comes first.
    func header(_ unit: Int) -> String {
      version == 5 ? ".byte \(unit), \(bytes); .long 0" : ".long 0; .byte \(bytes)"
    }
    let types = version == 5 ? "" : ".section .debug_types,\"\",@progbits"
    try fixture.write(
      """
      .text
      .globl start, other
      .type start, @function
      start: nop; nop; nop; nop
      .size start, . - start
      other: nop; nop; nop; nop
      .section .debug_abbrev,"",@progbits
      .uleb128 1, 0x11; .byte 1; .uleb128 0x11, 1, 0x12, 6, 0, 0
      .uleb128 2, 0x2e; .byte 0; .uleb128 0x11, 1, 0x12, 6, 0x47, 0x13, 0, 0
      .uleb128 3, 0x2e; .byte 0; .uleb128 0x3c, 0x19, 0x69, 0x20, 0, 0
      .uleb128 4, 0x41; .byte 1; .uleb128 0, 0
      .uleb128 5, 0x2e; .byte 0; .uleb128 0x03, 8, 0x6e, 8, 0, 0
      .uleb128 6, 0x2e; .byte 0; .uleb128 0x11, 1, 0x12, 6, 0x47, 0x20, 0, 0
      .byte 0
      .section .debug_info,"",@progbits
      unit: .long 2f - 1f
      1: .short \(version); \(header(1))
      .uleb128 1; \(address) start; .long 8
      .uleb128 2; \(address) start; .long 4, declaration - unit
      .uleb128 6; \(address) other; .long 4; .quad 0xfedcba9876543210
      declaration: .uleb128 3; .quad 0x8123456789abcdef
      .byte 0
      2:
      \(types)
      first: .long 4f - 3f
      3: .short \(version); \(header(2)); .quad 0xfedcba9876543210; .long 5f - first
      .uleb128 4
      5: .uleb128 5; .asciz "refund"; .asciz "_ZN4shop6refundEv"
      .byte 0
      4:
      second: .long 7f - 6f
      6: .short \(version); \(header(2)); .quad 0x8123456789abcdef; .long 8f - second
      .uleb128 4
      8: .uleb128 5; .asciz "pay"; .asciz "_ZN4shop3payEv"
      .byte 0
      7:
      """,
      "types.s"
    )
    try fixture.run("gcc \(option) -nostartfiles -nostdlib -shared -o types.so types.s")
    #expect(try fixture.describe("start", in: "types.so").calls.map(\.rawName) == ["_ZN4shop3payEv"])
    #expect(try fixture.describe("other", in: "types.so").calls.map(\.rawName) == ["_ZN4shop6refundEv"])
  }

  @Test func survivesDanglingSignatures() throws {
    try fixture.write(
      """
      .text
      .globl start, other
      start: nop; nop; nop; nop
      other: nop; nop; nop; nop
      .section .debug_abbrev,"",@progbits
      .uleb128 1, 0x11; .byte 1; .uleb128 0x11, 1, 0x12, 7, 0, 0
      .uleb128 2, 0x2e; .byte 0; .uleb128 0x11, 1, 0x12, 7, 0x47, 0x20, 0, 0
      .uleb128 3, 0x41; .byte 1; .uleb128 0, 0
      .uleb128 4, 0x2e; .byte 0; .uleb128 0x69, 0x20, 0, 0
      .byte 0
      .section .debug_info,"",@progbits
      .long 2f - 1f
      1: .short 4; .long 0; .byte 8
      .uleb128 1; .quad start, 8
      .uleb128 2; .quad start, 4, 1
      .uleb128 2; .quad other, 4, 2
      .byte 0
      2:
      .section .debug_types,"",@progbits
      first: .long 4f - 3f
      3: .short 4; .long 0; .byte 8; .quad 2; .long 5f - first
      .uleb128 3
      5: .uleb128 4; .quad 2
      .byte 0
      4: .long 0x7fffffff
      """,
      "nowhere.s"
    )
    try fixture.run("gcc -nostartfiles -nostdlib -shared -o nowhere.so nowhere.s")
    for name in ["start", "other"] {
      let found = try fixture.describe(name, in: "nowhere.so")
      #expect(found.calls.map(\.rawName) == [nil])
      #expect(found.symbol?.name == name)
    }
  }

  @Test func findsTypeUnitsInPackages() throws {
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.write(
      "struct Basket { int total; Basket *next; };\nint other(Basket *basket) { return basket->total; }\n",
      "other.cpp"
    )
    try fixture.run(
      "g++ -O2 -gdwarf-4 -gsplit-dwarf -fdebug-types-section -c nested.cpp other.cpp"
        + " && g++ -o nested nested.o other.o && dwp -o nested.dwp other.dwo nested.dwo && rm *.dwo"
    )
    let package = try #require(SplitPackage(beside: try ElfImage(path: fixture.path("nested"))))
    let headers = try #require(package.file.types).allHeaders
    var names: Set<String> = []
    for header in headers {
      let type = try #require(header.type)
      let (file, offset) = try #require(package.file.typeEntry(type.signature))
      #expect(file === package.file.types && offset == type.entry)
      let unit = file.unit(header)
      unit.forEachAttribute(at: offset) { name, value in
        if name == Attribute.name, let text = unit.text(value) { names.insert(text.string) }
      }
    }
    #expect(headers.count == 2 && names == ["Index", "Basket"])
    #expect(package.file.typeEntry(12) == nil)
    let found = try fixture.describe("marker", in: "nested")
    #expect(found.calls.compactMap(\.rawName) == nestedNames)
  }
}
