import CCulpritUnwind
import Foundation
import SplitMix
import TestSupport
import Testing

/// What instructions do, by the assembler's account: each is written as text, with what it has to be decoded into.
@Suite struct InstructionTests {
  private static let base: UInt64 = 0x4000_0000

  private struct Example {
    var text: String
    var expected: [String]
  }

  /// The code that the assembler makes of `lines`.
  private func assembled(_ lines: [String]) throws -> [UInt8] {
    try withTemporaryDirectory { directory in
      let source = ".text\n.arch armv8.2-a\n.globl _start\n_start:\n" + lines.joined(separator: "\n") + "\n"
      try source.write(toFile: "\(directory)/code.s", atomically: true, encoding: .utf8)
      let command = """
        clang -target aarch64-linux-gnu -c -o code.o code.s && ld.lld -Ttext=0x40000000 -o code code.o &&
        "$(dirname "$(realpath "$(command -v swift)")")"/llvm-objcopy -O binary --only-section=.text code code.bin
        """
      let child = try ChildProcess("/bin/sh", ["-c", command], directory: directory, keepsErrors: true)
      #expect(child.hasExited && child.status == 0, "\(child)")
      return try [UInt8](Data(contentsOf: URL(fileURLWithPath: "\(directory)/code.bin")))
    }
  }

  private func text(_ operation: code_operation) -> String {
    func sum(_ register: Int32, _ amount: Int64) -> String { "x\(register) + \(amount)" }
    let isKnown = operation.from != UNWIND_NO_REGISTER
    return switch operation.kind {
    case CODE_SET: "x\(operation.to) = " + (isKnown ? sum(operation.from, operation.amount) : "?")
    case CODE_LOWER: "x\(operation.to) lower"
    case CODE_ALIGN: "x\(operation.to) &= \(operation.amount)"
    case CODE_LOAD: "x\(operation.to) = [\(sum(operation.from, operation.amount))]"
    case CODE_STORE: "[\(sum(operation.to, operation.amount))] = " + (isKnown ? "x\(operation.from)" : "?")
    case CODE_SET_FIXED: "x\(operation.to) = \(operation.target)"
    case CODE_CALL: "call \(operation.target)"
    case CODE_CALL_REGISTER: "call x\(operation.from)"
    case CODE_SYSTEM_CALL: "system call"
    case CODE_BRANCH: "branch \(operation.target)"
    case CODE_JUMP: "jump \(operation.target)"
    case CODE_JUMP_ANYWHERE: "jump"
    case CODE_RETURN: "return x\(operation.from)"
    case CODE_END: "end"
    case CODE_PADDING: "padding"
    default: "kind \(operation.kind.rawValue)"
    }
  }

  /// Instructions with three registers and numbers of their own; `here` is where they stand.
  private func examples(_ generator: inout SplitMix, _ here: UInt64) -> [(UInt64) -> Example] {
    var registers = Array(0..<29).shuffled(using: &generator)
    let (to, other, base) = (registers.removeLast(), registers.removeLast(), registers.removeLast())
    let (small, page) = (Int.random(in: 1..<4096, using: &generator), Int.random(in: -500...500, using: &generator))
    let (word, pair) = (
      Int.random(in: 0..<4096, using: &generator) * 8, Int.random(in: -64..<64, using: &generator) * 8
    )
    let near = Int.random(in: -256..<256, using: &generator)
    let jump = Int.random(in: -8000...8000, using: &generator) * 4
    let power = Int.random(in: 1..<20, using: &generator)
    func plain(_ text: String, _ expected: String...) -> (UInt64) -> Example {
      { _ in Example(text: text, expected: expected) }
    }
    func branching(_ text: String, _ word: String) -> (UInt64) -> Example {
      { here in Example(text: "\(text). + \(jump)", expected: ["\(word) \(here &+ UInt64(bitPattern: Int64(jump)))"]) }
    }
    return [
      plain("add x\(to), x\(base), #\(small)", "x\(to) = x\(base) + \(small)"),
      plain("sub x\(to), x\(base), #\(small)", "x\(to) = x\(base) + \(-small)"),
      plain("add x\(to), sp, #\(small), lsl #12", "x\(to) = x31 + \(small << 12)"),
      plain("sub sp, sp, #\(small)", "x31 = x31 + \(-small)"),
      plain("add w\(to), w\(base), #\(small)", "x\(to) = ?"),
      plain("adds x\(to), x\(base), #\(small)", "x\(to) = ?"),
      plain("sub sp, sp, x\(base)", "x31 = x31 + 0", "x31 lower"),
      plain("sub x\(to), x\(base), x\(other)", "x\(to) = x\(base) + 0", "x\(to) lower"),
      plain("add x\(to), x\(base), x\(other)", "x\(to) = ?"),
      plain("add sp, sp, x\(other)", "x31 = ?"),
      plain(
        "and x\(to), x\(base), #\(UInt64.max << UInt64(power))",
        "x\(to) = x\(base) + 0",
        "x\(to) &= \(-(1 << power))"
      ),
      plain("and sp, x\(base), #0xfffffffffffffff0", "x31 = x\(base) + 0", "x31 &= -16"),
      plain("and x\(to), x\(base), #\((1 << power) - 1)", "x\(to) = ?"),
      plain("orr x\(to), x\(base), #0xff", "x\(to) = ?"),
      plain("mov x\(to), x\(other)", "x\(to) = x\(other) + 0"),
      plain("mov x\(to), sp", "x\(to) = x31 + 0"),
      plain("mov x\(to), xzr", "x\(to) = ?"),
      plain("mov w\(to), w\(other)", "x\(to) = ?"),
      plain("mov x\(to), #\(small)", "x\(to) = ?"),
      { here in
        let address = (here & ~0xfff) &+ UInt64(bitPattern: Int64(page) << 12)
        return Example(text: "adrp x\(to), . + (\(page << 12))", expected: ["x\(to) = \(address)"])
      },
      plain("ldr x\(to), [x\(base), #\(word)]", "x\(to) = [x\(base) + \(word)]"),
      plain("str x\(to), [sp, #\(word)]", "[x31 + \(word)] = x\(to)"),
      plain("str xzr, [x\(base), #\(word)]", "[x\(base) + \(word)] = ?"),
      plain("ldr w\(to), [x\(base), #\(word / 2)]", "x\(to) = ?"),
      plain("str w\(to), [x\(base), #\(word / 2)]", "[x\(base) + \(word / 2)] = ?"),
      plain("ldrsw x\(to), [x\(base), #\(word / 2)]", "x\(to) = ?"),
      plain("ldrb w\(to), [x\(base), #\(small)]", "x\(to) = ?"),
      plain("ldur x\(to), [x\(base), #\(near)]", "x\(to) = [x\(base) + \(near)]"),
      plain("stur x\(to), [x\(base), #\(near)]", "[x\(base) + \(near)] = x\(to)"),
      plain("ldr x\(to), [x\(base)], #\(near)", "x\(to) = [x\(base) + 0]", "x\(base) = x\(base) + \(near)"),
      plain("ldr x\(to), [x\(base), #\(near)]!", "x\(base) = x\(base) + \(near)", "x\(to) = [x\(base) + 0]"),
      plain("str x\(to), [sp], #\(near)", "[x31 + 0] = x\(to)", "x31 = x31 + \(near)"),
      plain("str x\(to), [sp, #\(near)]!", "x31 = x31 + \(near)", "[x31 + 0] = x\(to)"),
      plain("str d1, [sp, #\(near)]!", "x31 = x31 + \(near)", "[x31 + 0] = ?"),
      plain("ldr d1, [sp], #\(near)", "x31 = x31 + \(near)"),
      plain("str d1, [x\(base), #\(word)]", "[x\(base) + \(word)] = ?"), plain("ldr d1, [x\(base), #\(word)]"),
      plain(
        "ldp x\(to), x\(other), [x\(base), #\(pair)]",
        "x\(to) = [x\(base) + \(pair)]",
        "x\(other) = [x\(base) + \(pair + 8)]"
      ),
      plain(
        "stp x\(to), x\(other), [sp, #\(pair)]!",
        "x31 = x31 + \(pair)",
        "[x31 + 0] = x\(to)",
        "[x31 + 8] = x\(other)"
      ),
      plain(
        "ldp x\(to), x\(other), [sp], #\(pair)",
        "x\(to) = [x31 + 0]",
        "x\(other) = [x31 + 8]",
        "x31 = x31 + \(pair)"
      ),
      plain("stp w\(to), w\(other), [sp, #\(pair / 2)]", "[x31 + \(pair / 2)] = ?", "[x31 + \(pair / 2 + 4)] = ?"),
      plain("ldp w\(to), w\(other), [sp, #\(pair / 2)]", "x\(to) = ?", "x\(other) = ?"),
      plain("stp d8, d9, [sp, #\(pair)]", "[x31 + \(pair)] = ?", "[x31 + \(pair + 8)] = ?"),
      plain("stp q8, q9, [sp, #\(pair * 2)]", "[x31 + \(pair * 2)] = ?", "[x31 + \(pair * 2 + 16)] = ?"),
      plain("ldp d8, d9, [sp, #\(pair)]"), plain("ldp d8, d9, [sp], #\(pair)", "x31 = x31 + \(pair)"),
      plain("ldr x\(to), [x\(base), x\(other)]", "x\(to) = ?"), plain("ldr x\(to), . + 64", "x\(to) = ?"),
      plain("ldxr x\(to), [x\(base)]", "x\(to) = ?"),
      plain("stxr w\(other), x\(to), [x\(base)]", "x\(to) = ?", "x\(other) = ?"),
      plain("ldadd x\(other), x\(to), [x\(base)]", "x\(to) = ?", "x\(other) = ?"),
      plain("cas x\(other), x\(to), [x\(base)]", "x\(to) = ?", "x\(other) = ?"),
      plain("fmov x\(to), d3", "x\(to) = ?"), plain("mrs x\(to), tpidr_el0", "x\(to) = ?"),
      plain("csel x\(to), x\(base), x\(other), eq", "x\(to) = ?"),
      plain("mul x\(to), x\(base), x\(other)", "x\(to) = ?"),
      branching("b ", "jump"), branching("bl ", "call"), branching("b.ne ", "branch"),
      branching("cbz w\(to), ", "branch"), branching("cbnz x\(to), ", "branch"),
      branching("tbz w\(to), #3, ", "branch"),
      branching("tbnz x\(to), #45, ", "branch"), plain("br x\(base)", "jump"), plain("blr x\(base)", "call x\(base)"),
      plain("ret", "return x30"), plain("ret x\(base)", "return x\(base)"), plain("brk #\(small)", "end"),
      plain("udf #\(small)", "end"), plain("svc #0", "system call"), plain("nop", "padding"),
      plain("hint #34", "padding"),
    ]
  }

  @Test(arguments: 1...4 as ClosedRange<UInt64>) func instructionsOfAarch64DoWhatTheAssemblerSays(seed: UInt64) throws {
    var generator = SplitMix(seed)
    var (all, address): ([Example], UInt64) = ([], Self.base)
    for _ in 0..<12 {
      for example in examples(&generator, address) {
        all.append(example(address))
        address += 4
      }
    }
    let code = try assembled(all.map(\.text)) + [UInt8](repeating: 0, count: Int(CODE_BYTES))
    try #require(code.count == all.count * 4 + Int(CODE_BYTES))
    for (place, example) in all.enumerated() {
      var operations = [code_operation](repeating: code_operation(), count: Int(CODE_OPERATIONS))
      var count: Int32 = -1
      let bytes = Array(code[(place * 4)..<(place * 4 + Int(CODE_BYTES))])
      #expect(cunwind_aarch64.decode(bytes, Self.base + UInt64(place * 4), &operations, &count) == 4)
      #expect(operations.prefix(Int(count)).map(text) == example.expected, "\(example.text)")
    }
  }
}
