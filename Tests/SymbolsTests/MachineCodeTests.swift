import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritSymbols

/// Compares the instruction decoder with llvm-objdump.
@Suite(.ownThread) struct MachineCodeTests {
  private struct Line {
    var place: UInt64
    var bytes: [UInt8]
    var mnemonic: Substring
    var operands: [Substring]
    var comment: UInt64?
  }

  private func lines(_ text: String) -> [Line] {
    text.split(separator: "\n")
      .compactMap { line in
        // "    11c0: f3 0f 1e fa  \tleaq\t0x8(%rip), %rdi  # 0x11cf <f>"
        let parts = line.split(separator: "\t", maxSplits: 2)
        let head = parts.first?.split(separator: ":") ?? []
        guard parts.count > 1, head.count == 2, let place = UInt64(head[0].drop { $0 == " " }, radix: 16) else {
          return nil
        }
        // Bytes on x86-64, 32-bit words on aarch64.
        let bytes = head[1].split(separator: " ")
          .flatMap { text -> [UInt8] in
            let number = UInt32(text, radix: 16) ?? 0
            return (0..<text.count / 2).map { UInt8(truncatingIfNeeded: number >> UInt32(8 * $0)) }
          }
        let rest = (parts.count > 2 ? parts[2] : "").split(
          separator: "#",
          maxSplits: 1,
          omittingEmptySubsequences: false
        )
        let isImmediate = parts.count > 2 && !parts[2].contains(" # ")
        let words = isImmediate ? parts[2] : rest.first ?? ""
        let comment = isImmediate || rest.count < 2 ? nil : rest[1].split(separator: " ").first
        return Line(
          place: place,
          bytes: bytes,
          mnemonic: parts[1],
          operands: operands(words),
          comment: comment.flatMap { UInt64($0.dropFirst(2), radix: 16) }
        )
      }
  }

  /// Splits `text` at commas outside of brackets.
  private func operands(_ text: Substring) -> [Substring] {
    var (found, depth, start): ([Substring], Int, Substring.Index) = ([], 0, text.startIndex)
    for place in text.indices {
      if "([".contains(text[place]) { depth += 1 }
      if ")]".contains(text[place]) { depth -= 1 }
      if text[place] == ",", depth == 0 {
        found.append(text[start..<place])
        start = text.index(after: place)
      }
    }
    return (found + [text[start...]]).map { $0.drop { $0 == " " } }.map { $0.prefix { $0 != " " } }.filter {
      !$0.isEmpty
    }
  }

  private func hexadecimal(_ text: Substring) -> UInt64? {
    text.hasPrefix("0x") ? UInt64(text.dropFirst(2), radix: 16) : nil
  }

  private func immediate(_ text: Substring, _ sign: Character) -> UInt64? {
    guard text.first == sign else { return nil }
    let digits = text.dropFirst()
    return digits.hasPrefix("-") ? hexadecimal(digits.dropFirst()).map { 0 &- $0 } : hexadecimal(digits)
  }

  /// The x86-64 general registers by number, with the names of all widths.
  private static let registers: [Substring: Int] = {
    var numbers: [Substring: Int] = [:]
    for (number, name) in ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"].enumerated() {
      for name in ["r\(name)", "e\(name)", name, number < 4 ? "\(name.first ?? " ")l" : "\(name)l"] {
        numbers["%\(name)"] = number
      }
    }
    for number in 8..<16 { for width in ["", "d", "w", "b"] { numbers["%r\(number)\(width)"] = number } }
    return numbers
  }()

  /// Libraries from C, C++ and Swift compilers.
  @Test(arguments: ["libz.so.1", "libunwind.so.8", "libstdc++.so.6", "libswiftDispatch.so"])
  func instructionsOfX86AreThoseOfLLVM(library: String) throws {
    let fixture = try Fixture()
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
      guard let what = MachineCode(line.bytes, start: line.place, isArm: false).instruction(at: 0) else {
        unknown += 1
        continue
      }
      expect(what, line)
    }
    #expect(unknown * 50 < found.count, "\(unknown) of \(found.count)")
  }

  private func expect(_ what: MachineCode.Instruction, _ line: Line) {
    let name = line.mnemonic.split(separator: " ").last ?? ""
    #expect(what.length == line.bytes.count, "\(line)")
    let isCall = name.hasPrefix("call")
    let isJump = name.hasPrefix("j")
    #expect(what.isCall == isCall, "\(line)")
    #expect(what.isEnd == (name.hasPrefix("jmp") || ["retq", "ud2", "hlt", "int3"].contains(name)), "\(line)")
    let isDirect = (isCall || isJump) && line.operands.first?.hasPrefix("0x") == true
    #expect(what.target == (isDirect ? hexadecimal(line.operands[0]) : nil), "\(line)")
    #expect(what.isComputed == (name.hasPrefix("jmp") && !isDirect), "\(line)")
    guard let last = line.operands.last else { return }
    if line.operands.count == 1, ["mul", "imul", "div", "idiv"].contains(where: name.hasPrefix) {
      #expect(what.writes & 0b101 == 0b101, "\(line)")
      return
    }
    let destination = Self.registers[last]
    let changesNothing = ["cmp", "test", "push", "bt", "call", "j", "nop", "prefetch", "ucomis", "comis"]
    let changes =
      !changesNothing.contains { name.hasPrefix($0) } || name.hasPrefix("btr") || name.hasPrefix("bts")
      || name.hasPrefix("btc")
    if let destination, changes { #expect(what.writes & (1 << UInt32(destination)) != 0, "\(line)") }
    guard line.operands.count == 2, let destination, line.bytes.first != 0x66 else { return }
    let isWide = last.hasPrefix("%r") && last.last != "d" && last.last != "w" && last.last != "b"
    if name == "leaq", let address = line.comment {
      #expect(what.constant?.register == destination && what.constant?.value == .address(address), "\(line)")
    } else if name == "movq", line.operands[0].hasSuffix("(%rip)"), let address = line.comment {
      #expect(what.constant?.register == destination && what.constant?.value == .content(address), "\(line)")
    } else if let value = immediate(line.operands[0], "$"), name.hasPrefix("mov"), name.hasSuffix("l") || isWide {
      let expected = isWide ? value : value & 0xffff_ffff
      #expect(what.constant?.register == destination && what.constant?.value == .number(expected), "\(line)")
    } else if name == "xorl", line.operands[0] == last {
      #expect(what.constant?.register == destination && what.constant?.value == .number(0), "\(line)")
    } else if name == "movq", let source = Self.registers[line.operands[0]] {
      #expect(what.copy?.from == source && what.copy?.to == destination && what.copy?.addend == 0, "\(line)")
    }
  }

  @Test func instructionsOfAarch64AreThoseOfLLVM() throws {
    let fixture = try Fixture()
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.write(
      """
      .text
      start: adrp x3, start + 0x12345000
      adrp x29, start - 0x5000
      mov x0, #0x1234
      movz x5, #0xffff, lsl #32
      mov w7, #7
      mov x1, x20
      add x2, x19, #0xff8
      b 1f
      bl start
      b.ne start
      cbz w9, 1f
      cbnz x30, start
      tbz x1, #33, 1f
      tbnz w2, #3, start
      br x8
      blr x9
      1: ret
      ldp x29, x30, [sp], #16

      """,
      "forms.s"
    )
    let compiler = "clang++ -target aarch64-linux-gnu -O2 -ffreestanding"
    try fixture.run("\(compiler) -c -o nested.o nested.cpp && \(compiler) -c -o forms.o forms.s")
    try fixture.run("ld.lld -shared --image-base=0x40000000 -o code.so nested.o forms.o")
    let found = lines(try fixture.run("\"\(fixture.toolchain())/llvm-objdump\" -d --section=.text code.so"))
    try #require(found.count > 20)
    var names: Set<Substring> = []
    for line in found {
      names.insert(line.mnemonic)
      let what = try #require(MachineCode(line.bytes, start: line.place, isArm: true).instruction(at: 0))
      #expect(what.length == 4)
      let name = line.mnemonic
      let isDirect = ["b", "bl", "cbz", "cbnz", "tbz", "tbnz"].contains(name) || name.hasPrefix("b.")
      #expect(what.target == (isDirect ? line.operands.last.flatMap(hexadecimal) : nil), "\(line)")
      #expect(what.isCall == ["bl", "blr"].contains(name), "\(line)")
      #expect(what.isEnd == ["b", "br", "ret"].contains(name), "\(line)")
      #expect(what.isComputed == (name == "br"), "\(line)")
      func register(_ place: Int) -> Int? {
        line.operands.indices.contains(place) ? Int(line.operands[place].dropFirst()) : nil
      }
      guard let destination = register(0), !isDirect, !["br", "blr", "ret"].contains(name) else { continue }
      if !name.hasPrefix("st"), name != "cmp" {
        #expect(what.writes & (1 << UInt32(destination)) != 0, "\(line)")
      }
      if name == "adrp" {
        let address = hexadecimal(line.operands[1])
        #expect(
          what.constant?.register == destination && what.constant?.value == address.map { .address($0) },
          "\(line)"
        )
      } else if name == "mov", let value = immediate(line.operands[1], "#"), value >> 63 == 0 {
        #expect(what.constant?.register == destination && what.constant?.value == .number(value), "\(line)")
      } else if name == "mov", line.operands[0].hasPrefix("x"), let source = register(1) {
        #expect(what.copy?.from == source && what.copy?.to == destination && what.copy?.addend == 0, "\(line)")
      } else if name == "add", line.operands[0].hasPrefix("x"), line.operands.count == 3, let source = register(1),
        let addend = immediate(line.operands[2], "#")
      {
        #expect(what.copy?.from == source && what.copy?.to == destination && what.copy?.addend == addend, "\(line)")
      }
    }
    #expect(names.isSuperset(of: ["adrp", "mov", "add", "b", "bl", "cbz", "tbnz", "br", "blr", "ret", "ldp", "b.ne"]))
  }

  @Test(arguments: [
    ("aarch64-linux-gnu", ""), ("aarch64-linux-gnu", "-z force-bti"), ("x86_64-linux-gnu", ""),
    ("x86_64-linux-gnu", "-z force-ibt"), ("i386-linux-gnu", "-z now"),
  ])
  func stubsAreNamedAfterWhatTheyLeadTo(target: String, options: String) throws {
    let fixture = try Fixture()
    let names = (0..<40).map { "elsewhere\($0)" }
    // Pages between the code and the table, so that both parts of an address count.
    let source = names.map { "extern int \($0)(void);" } + ["char space[123456];", "int start(void) { return 0"]
    try fixture.write(source.joined(separator: "\n") + names.map { " + \($0)()" }.joined() + "; }\n", "calls.c")
    try fixture.run("clang -target \(target) -O1 -fPIC -ffreestanding -c -o calls.o calls.c")
    try fixture.run("ld.lld -shared \(options) -o calls.so calls.o")
    // Each llvm-objdump names the stubs of some processors only.
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
            Issue.record("\(name) is no stub")
            continue
          }
          #expect(target.string + "@plt" == name)
        }
      }
    }
  }

  /// A jump can arrive with another value in the register.
  @Test func constantsEndWhereCodeIsJumpedTo() throws {
    func registers(_ bytes: [UInt8], isArm: Bool) throws -> [Int: MachineCode.Constant] {
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

  @Test func codeThatIsCutIsNotUnderstood() {
    for head: [UInt8] in [[], [0x66], [0x48], [0xc4], [0xc5], [0x62], [0x0f], [0x0f, 0x38], [0x0f, 0x3a], [0xe8, 1]] {
      let code = MachineCode(head, start: 0, isArm: false)
      #expect(code.instruction(at: 0) == nil, "\(head)")
      #expect((code.transfers() == nil) == !head.isEmpty)
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

  @Test func copiesOfConstantsAreFollowed() throws {
    func registers(_ bytes: [UInt8]) throws -> [Int: MachineCode.Constant] {
      // mov $7, %esi before, a call after
      let code = MachineCode([0xbe, 7, 0, 0, 0] + bytes + [0xe8, 0, 1, 0, 0], start: 0x1000, isArm: false)
      let transfers = try #require(code.transfers())
      return try #require(transfers.first).registers
    }
    // mov %rsi, %rdi, in either encoding
    #expect(try registers([0x48, 0x89, 0xf7]) == [6: .number(7), 7: .number(7)])
    #expect(try registers([0x48, 0x8b, 0xfe]) == [6: .number(7), 7: .number(7)])
    // mov %rsi, (%rdi); mov (%rsi), %rdi; mov %esi, %edi
    #expect(try registers([0x48, 0x89, 0x37]) == [6: .number(7)])
    #expect(try registers([0x48, 0x8b, 0x3e]) == [6: .number(7)])
    #expect(try registers([0x89, 0xf7]) == [6: .number(7)])
  }
}
