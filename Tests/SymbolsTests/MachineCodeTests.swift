import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct MachineCodeTests {
  private struct Line {
    var place: UInt64
    var bytes: [UInt8]
    /// The target of a direct call or jump.
    var target: UInt64?
  }

  private func lines(_ text: String) -> [Line] {
    text.split(separator: "\n")
      .compactMap { line in
        // "    11c0: e9 0b 00 00 00  \tjmp\t0x11d0 <f>"
        let parts = line.split(separator: "\t", maxSplits: 2)
        let head = parts.first?.split(separator: ":") ?? []
        guard parts.count > 1, head.count == 2, let place = UInt64(head[0].drop { $0 == " " }, radix: 16) else {
          return nil
        }
        let name = parts[1].split(separator: " ").last ?? ""
        let operand = parts.count > 2 ? parts[2].prefix { $0 != " " } : ""
        let isDirect = (name.hasPrefix("call") || name.hasPrefix("j")) && operand.hasPrefix("0x")
        return Line(
          place: place,
          bytes: head[1].split(separator: " ").compactMap { UInt8($0, radix: 16) },
          target: isDirect ? UInt64(operand.dropFirst(2), radix: 16) : nil
        )
      }
  }

  /// Compares lengths and targets of instructions in libraries from C, C++ and Swift compilers. `InstructionTests`
  /// compares effects.
  @Test(arguments: ["libz.so.1", "libunwind.so.8", "libstdc++.so.6", "libswiftDispatch.so"])
  func findsInstructionsOfLibraries(library: String) throws {
    let fixture = Fixture()
    let folder =
      library.hasPrefix("libswift")
      ? "$(dirname \"$(realpath \"$(command -v swift)\")\")/../lib/swift/linux" : "/usr/lib/x86_64-linux-gnu"
    try fixture.run("cp \"\(folder)/\(library)\" code.so")
    let text = try #require(ElfImage(path: fixture.path("code.so")).sections.first { $0.name == ".text" })
    // Enough code to contain all common instructions.
    let end = text.address + min(text.size, 200_000)
    let found = lines(
      try fixture.run("\"\(fixture.toolchain())/llvm-objdump\" -d --section=.text --stop-address=\(end) code.so")
    )
    try #require(found.count > 5000)
    var unknown = 0
    for line in found {
      let code = MachineCode(line.bytes, start: line.place, isArm: false)
      guard let (instructions, _) = code.instructions() else {
        unknown += 1
        continue
      }
      #expect(instructions.count == 1, "\(line)")
      #expect(code.transfers()?.first?.target == line.target, "\(line)")
    }
    #expect(unknown * 50 < found.count, "\(unknown) of \(found.count)")
  }

  @Test(arguments: [
    ("aarch64-linux-gnu", ""), ("aarch64-linux-gnu", "-z force-bti"), ("x86_64-linux-gnu", ""),
    ("x86_64-linux-gnu", "-z force-ibt"), ("i386-linux-gnu", "-z now"),
  ])
  func namesStubsAfterTargets(target: String, options: String) throws {
    let fixture = Fixture()
    let names = (0..<40).map { "elsewhere\($0)" }
    // Pages between the code and the table make both parts of an address necessary.
    let source = names.map { "extern int \($0)(void);" } + ["char space[123456];", "int start(void) { return 0"]
    try fixture.write(source.joined(separator: "\n") + names.map { " + \($0)()" }.joined() + "; }\n", "calls.c")
    try fixture.run("clang -target \(target) -O1 -fPIC -ffreestanding -c -o calls.o calls.c")
    try fixture.run("ld.lld -shared \(options) -o calls.so calls.o")
    // Each objdump names the stubs of some processors only.
    let isArm = target.hasPrefix("aarch64")
    let text = try fixture.run(isArm ? "\"\(fixture.toolchain())/llvm-objdump\" -d calls.so" : "objdump -d calls.so")
    // "0000000000010a50 <elsewhere3@plt>:"
    let labels = text.split(separator: "\n").filter { $0.hasSuffix("@plt>:") }
      .compactMap { line -> (UInt64, String)? in
        let parts = line.split(separator: " ")
        return UInt64(parts[0], radix: 16).map { ($0, String(parts[1].dropFirst().dropLast(2))) }
      }
    #expect(Set(labels.map(\.1)) == Set(names.map { $0 + "@plt" }))
    let image = try ElfImage(path: fixture.path("calls.so"))
    let stubs = PLTStubs(image)
    // The stubs refer to the mapped bytes of the image.
    withExtendedLifetime(image) {
      for (address, name) in labels {
        for place in stride(from: address, to: address + (isArm ? 16 : 8), by: isArm ? 4 : 1) {
          guard case .function(let target) = stubs.target(at: place) else {
            Issue.record("\(name) is not a stub")
            continue
          }
          #expect(target.string + "@plt" == name)
        }
      }
    }
  }

  /// A jump can arrive with another value in the register.
  @Test func dropsConstantsAtJumpTargets() throws {
    func registers(_ bytes: [UInt8], isArm: Bool) throws -> [Int32: MachineCode.Constant] {
      let code = MachineCode(bytes, start: 0x1000, isArm: isArm)
      let transfers = try #require(code.transfers())
      return try #require(transfers.first { $0.isCall }).registers
    }
    // mov $1, %edi; nop; call; jmp to the nop, or to the first instruction
    let x86: [UInt8] = [0xbf, 1, 0, 0, 0, 0x90, 0xe8, 0, 1, 0, 0, 0xeb]
    #expect(try registers(x86 + [0xf8], isArm: false) == [:])
    #expect(try registers(x86 + [0xf3], isArm: false).count == 1)
    // mov w1, #1; nop; bl; b to the nop, or to the first instruction
    let arm: [UInt8] = [0x21, 0, 0x80, 0x52, 0x1f, 0x20, 0x03, 0xd5, 0x40, 0, 0, 0x94]
    #expect(try registers(arm + [0xfe, 0xff, 0xff, 0x17], isArm: true) == [:])
    #expect(try registers(arm + [0xfd, 0xff, 0xff, 0x17], isArm: true).count == 1)
  }

  @Test func rejectsTruncatedCode() {
    for head: [UInt8] in [[], [0x66], [0x48], [0xc4], [0xc5], [0x62], [0x0f], [0x0f, 0x38], [0x0f, 0x3a], [0xe8, 1]] {
      let code = MachineCode(head, start: 0, isArm: false)
      #expect((code.transfers() == nil) == !head.isEmpty, "\(head)")
    }
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      let bytes = (0..<Int.random(in: 0...14)).map { _ in UInt8.random(in: 0...255, using: &generator) }
      let starts: [UInt8] = [0xc4, 0xc5, 0x62, 0x0f, 0x66, 0xf3]
      let code = starts.randomElement().map { [$0] + bytes } ?? bytes
      for isArm in [false, true] {
        let found = MachineCode(code, start: 0x1000, isArm: isArm).transfers() ?? []
        #expect(found.allSatisfy { $0.place < 0x1000 + UInt64(code.count) && $0.next > $0.place }, "\(code)")
      }
    }
  }

  @Test func followsCopiedConstants() throws {
    func registers(_ bytes: [UInt8]) throws -> [Int32: MachineCode.Constant] {
      // mov $7, %esi before, a call after
      let code = MachineCode([0xbe, 7, 0, 0, 0] + bytes + [0xe8, 0, 1, 0, 0], start: 0x1000, isArm: false)
      let transfers = try #require(code.transfers())
      return try #require(transfers.first).registers
    }
    // mov %rsi, %rdi, in either encoding
    #expect(try registers([0x48, 0x89, 0xf7]) == [4: .number(7), 5: .number(7)])
    #expect(try registers([0x48, 0x8b, 0xfe]) == [4: .number(7), 5: .number(7)])
    // mov %rsi, (%rdi); mov (%rsi), %rdi; mov %esi, %edi
    #expect(try registers([0x48, 0x89, 0x37]) == [4: .number(7)])
    #expect(try registers([0x48, 0x8b, 0x3e]) == [4: .number(7)])
    #expect(try registers([0x89, 0xf7]) == [4: .number(7)])
  }
}
