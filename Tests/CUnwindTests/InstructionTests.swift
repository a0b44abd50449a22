import CCulpritUnwind
import Foundation
import SplitMix
import TestSupport
import Testing

/// Instructions written as text and assembled, with the expected decoding.
@Suite(.ownThread) struct InstructionTests {
  private static let base: UInt64 = 0x4000_0000

  /// The x86-64 registers in DWARF order.
  private static let names = ["ax", "dx", "cx", "bx", "si", "di", "bp", "sp"]

  /// The 64-bit and 32-bit names of x86-64 register `number`.
  private static func wide(_ number: Int) -> String { number < 8 ? "%r\(names[number])" : "%r\(number)" }
  private static func narrow(_ number: Int) -> String { number < 8 ? "%e\(names[number])" : "%r\(number)d" }

  private struct Example {
    var text: String
    var expected: [String]
  }

  private func assembled(_ lines: [String], for target: String) throws -> [UInt8] {
    try withTemporaryDirectory { directory in
      let source = ".text\n.globl _start\n_start:\n" + lines.joined(separator: "\n") + "\n"
      try source.write(toFile: "\(directory)/code.s", atomically: true, encoding: .utf8)
      let command = """
        clang -target \(target)-linux-gnu -c -o code.o code.s && ld.lld -Ttext=0x40000000 -o code code.o &&
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
    case CODE_SHIFT_RIGHT: "x\(operation.to) >>= \(operation.amount)"
    case CODE_SHIFT_LEFT: "x\(operation.to) <<= \(operation.amount)"
    case CODE_CLOBBER: "clobber \(operation.amount)"
    case CODE_LOAD_FIXED: "x\(operation.to) = [\(operation.target)]"
    case CODE_CALL_MEMORY: "call [\(sum(operation.from, operation.amount))]"
    case CODE_CALL_FIXED: "call [\(operation.target)]"
    case CODE_JUMP_GOT: "jump [\(operation.target)]"
    case CODE_LOAD: "x\(operation.to) = [\(sum(operation.from, operation.amount))]"
    case CODE_STORE: "[\(sum(operation.to, operation.amount))] = " + (isKnown ? "x\(operation.from)" : "?")
    case CODE_SET_FIXED: "x\(operation.to) = \(operation.target)"
    case CODE_SET_NUMBER: "x\(operation.to) = #\(operation.amount)"
    case CODE_CALL: "call \(operation.target)"
    case CODE_CALL_REGISTER: "call x\(operation.from)"
    case CODE_SYSTEM_CALL: "system call"
    case CODE_BRANCH: "branch \(operation.target)"
    case CODE_JUMP: "jump \(operation.target)"
    case CODE_JUMP_ANYWHERE: "jump"
    case CODE_RETURN: isKnown ? "return x\(operation.from)" : "return \(operation.amount)"
    case CODE_END: "end"
    case CODE_PADDING: "padding"
    default: "kind \(operation.kind.rawValue)"
    }
  }

  /// Instructions with random registers and numbers; `here` is their address.
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
      plain("mov x\(to), #\(small)", "x\(to) = #\(small)"),
      plain("movz w\(to), #\(small), lsl #16", "x\(to) = #\(small << 16)"),
      plain("movk x\(to), #\(small)", "x\(to) = ?"),
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

  @Test(arguments: 1...4 as ClosedRange<UInt64>) func decodesAarch64Instructions(seed: UInt64) throws {
    var generator = SplitMix(seed)
    var (all, address): ([Example], UInt64) = ([], Self.base)
    for _ in 0..<12 {
      for example in examples(&generator, address) {
        all.append(example(address))
        address += 4
      }
    }
    let code =
      try assembled([".arch armv8.2-a"] + all.map(\.text), for: "aarch64")
      + [UInt8](repeating: 0, count: Int(CODE_BYTES))
    try #require(code.count == all.count * 4 + Int(CODE_BYTES))
    for (place, example) in all.enumerated() {
      var operations = [code_operation](repeating: code_operation(), count: Int(CODE_OPERATIONS))
      var count: Int32 = -1
      let bytes = Array(code[(place * 4)..<(place * 4 + Int(CODE_BYTES))])
      #expect(cunwind_aarch64.decode(bytes, Self.base + UInt64(place * 4), &operations, &count) == 4)
      #expect(operations.prefix(Int(count)).map(text) == example.expected, "\(example.text)")
    }
  }

  // MARK: x86_64

  /// Instructions with random numbers and three registers other than the first four and the stack pointer.
  private func examplesOfX86(_ generator: inout SplitMix) -> [Example] {
    var registers = ([4, 5, 6] + Array(8..<16)).shuffled(using: &generator)
    let (to, other, base) = (registers.removeLast(), registers.removeLast(), registers.removeLast())
    let (rt, ro, rb) = (Self.wide(to), Self.wide(other), Self.wide(base))
    let (et, eo) = (Self.narrow(to), Self.narrow(other))
    let byte = Int.random(in: -128..<128, using: &generator)
    let long = Int.random(in: 128...70_000, using: &generator) * (Bool.random(using: &generator) ? 1 : -1)
    let offset = Bool.random(using: &generator) ? byte : long
    let shift = Int.random(in: 1..<64, using: &generator)
    let push = "x7 = x7 + -8"
    let at = "\(offset)(\(rb))"
    let place = "[x\(base) + \(offset)]"
    func example(_ text: String, _ expected: String...) -> Example { Example(text: text, expected: expected) }
    var all = [
      example("push \(rt)", push, "[x7 + 0] = x\(to)"), example("push %rbx", push, "[x7 + 0] = x3"),
      example("pop \(rt)", "x\(to) = [x7 + 0]", "x7 = x7 + 8"), example("pop %rbx", "x3 = [x7 + 0]", "x7 = x7 + 8"),
      example("push $\(byte)", push, "[x7 + 0] = ?"), example("push $\(long)", push, "[x7 + 0] = ?"),
      example("pushq \(at)", push, "[x7 + 0] = ?"),
      example("leave", "x7 = x6 + 0", "x6 = [x7 + 0]", "x7 = x7 + 8"),
      example("mov \(ro), \(rt)", "x\(to) = x\(other) + 0"), example("mov %rsp, \(rt)", "x\(to) = x7 + 0"),
      example("mov \(eo), \(et)", "x\(to) = ?"), example("mov \(at), \(rt)", "x\(to) = \(place)"),
      example("mov \(at), \(et)", "x\(to) = ?"), example("mov \(ro), \(at)", "\(place) = x\(other)"),
      example("mov \(eo), \(at)", "\(place) = ?"), example("movb $1, \(at)", "\(place) = ?"),
      example("movw $1, \(at)", "\(place) = ?"), example("movq $\(long), \(at)", "\(place) = ?"),
      example("mov (\(rb),\(ro),8), \(rt)", "x\(to) = ?"), example("mov \(rt), 8(\(rb),\(ro),2)"),
      example("mov \(offset)(%rsp), \(rt)", "x\(to) = [x7 + \(offset)]"), example("mov %fs:0, \(rt)", "x\(to) = ?"),
      example("mov $\(long), \(et)", "x\(to) = #\(UInt32(truncatingIfNeeded: long))"),
      example("movabs $0x123456789abcdef0, \(rt)", "x\(to) = #\(0x1234_5678_9abc_def0)"),
      example("xor \(et), \(et)", "x\(to) = #0"), example("xor %cx, %cx", "x2 = ?"),
      example("movb $3, %bl", "x3 = ?"), example("movw $300, %cx", "x2 = ?"),
      example("mov $\(long), \(rt)", "x\(to) = #\(long)"),
      example("lea \(at), \(rt)", "x\(to) = x\(base) + \(offset)"), example("lea \(at), \(et)", "x\(to) = ?"),
      example("lea (\(rb),\(ro),4), \(rt)", "x\(to) = ?"),
      example("lea \(offset)(%rip), \(rt)", "x\(to) = NEXT \(offset)"),
      example("mov \(offset)(%rip), \(rt)", "x\(to) = [NEXT \(offset)]"),
      example("add $\(byte), \(rt)", "x\(to) = x\(to) + \(byte)"),
      example("add $\(long), \(rt)", "x\(to) = x\(to) + \(long)"),
      example("sub $\(byte), %rsp", "x7 = x7 + \(-byte)"), example("sub $\(long), %rsp", "x7 = x7 + \(-long)"),
      example("sub $\(long), %rax", "x0 = x0 + \(-long)"), example("cmp $\(long), %rax"),
      example("and $-32, %rsp", "x7 &= -32"), example("and $\(long), \(rt)", "x\(to) &= \(long)"),
      example("or $\(byte), \(rt)", "x\(to) = ?"), example("xor $\(long), \(rt)", "x\(to) = ?"),
      example("add $\(byte), \(et)", "x\(to) = ?"), example("addw $300, %cx", "x2 = ?"),
      example("add $5, %al", "x0 = ?"),
      example("add $\(long), %eax", "x0 = ?"), example("addq $\(byte), \(at)", "\(place) = ?"),
      example("cmpq $\(byte), \(at)"), example("cmp \(ro), \(rt)"), example("cmp \(at), \(rt)"),
      example("add \(ro), \(rt)", "x\(to) = ?"), example("add \(at), \(rt)", "x\(to) = ?"),
      example("add \(ro), \(at)", "\(place) = ?"), example("sub \(ro), \(rt)", "x\(to) lower"),
      example("sub \(at), \(rt)", "x\(to) lower"), example("sub \(ro), \(at)", "\(place) = ?"),
      example("sub \(eo), \(et)", "x\(to) = ?"), example("xor \(eo), \(et)", "x\(to) = ?"),
      example("shl $\(shift), \(rt)", "x\(to) <<= \(shift)"), example("shr $\(shift), \(rt)", "x\(to) >>= \(shift)"),
      example("shr $1, \(rt)", "x\(to) >>= 1"), example("sar $\(shift), \(rt)", "x\(to) = ?"),
      example("shl $3, \(et)", "x\(to) = ?"), example("shl %cl, \(rt)", "x\(to) = ?"),
      example("shlq $3, \(at)", "\(place) = ?"), example("test \(ro), \(rt)"), example("test $\(long), %eax"),
      example("test $1, %al"), example("testb $1, \(at)"), example("testl $\(long), \(at)"), example("testw $1, \(at)"),
      example("xchg \(ro), %rax", "x0 = ?", "x\(other) = ?"), example("xchg %ecx, %ebx", "x3 = ?", "x2 = ?"),
      example("imul $\(byte), \(ro), \(rt)", "x\(to) = ?"), example("imul $\(long), \(ro), \(rt)", "x\(to) = ?"),
      example("imul \(ro), \(rt)", "x\(to) = ?"), example("mul \(ro)", "x0 = ?", "x1 = ?"),
      example("idivq \(at)", "x0 = ?", "x1 = ?"), example("neg \(rt)", "x\(to) = ?"),
      example("notq \(at)", "\(place) = ?"),
      example("inc \(rt)", "x\(to) = ?"), example("decl \(at)", "\(place) = ?"), example("incb \(at)", "\(place) = ?"),
      example("movslq \(eo), \(rt)", "x\(to) = ?"), example("movzbl %al, \(et)", "x\(to) = ?"),
      example("movswq \(at), \(rt)", "x\(to) = ?"), example("cmove \(ro), \(rt)", "x\(to) = ?"),
      example("cltq", "x0 = ?"), example("cqto", "x1 = ?"), example("sete %bl", "x3 = ?"),
      example("bswap \(rt)", "x\(to) = ?"),
      example("lock cmpxchg \(ro), \(at)", "\(place) = ?", "x0 = ?"),
      example("lock xadd \(ro), \(at)", "x\(other) = ?", "\(place) = ?"), example("popcnt \(ro), \(rt)", "x\(to) = ?"),
      example("bt $5, \(rt)"), example("bts $5, \(rt)", "x\(to) = ?"), example("shld $3, \(ro), \(rt)", "x\(to) = ?"),
      example("movq %xmm1, \(rt)", "x\(to) = ?"), example("movq \(rt), %xmm1"),
      example("cvttsd2si %xmm0, \(rt)", "x\(to) = ?"),
      example("cvttps2pi %xmm0, %mm0"), example("pshufd $1, %xmm1, %xmm2"), example("movaps \(at), %xmm3"),
      example(
        "vmovups %ymm3, \(at)",
        "\(place) = ?",
        "[x\(base) + \(offset + 8)] = ?",
        "[x\(base) + \(offset + 16)] = ?",
        "[x\(base) + \(offset + 24)] = ?"
      ),
      example("vzeroupper"), example("vpshufd $1, %ymm1, %ymm2"), example("vmovq %xmm1, \(rt)", "x\(to) = ?"),
      example("shlx \(rb), \(ro), \(rt)", "x\(to) = ?", "x\(base) = ?"),
      example("andn \(rb), \(ro), \(rt)", "x\(to) = ?", "x\(other) = ?"),
      example("mulx \(rb), \(ro), \(rt)", "x\(to) = ?", "x\(other) = ?"),
      example("rorx $3, \(ro), \(rt)", "x\(to) = ?"), example("pextrq $1, %xmm1, \(rt)", "x\(to) = ?"),
      example("adcx \(ro), \(rt)", "x\(to) = ?"), example("crc32q \(ro), \(rt)", "x\(to) = ?"),
      example("movbe \(at), \(rt)", "x\(to) = ?"), example("movbe \(ro), \(at)", "\(place) = ?"),
      example("rdtsc", "clobber 3"), example("cpuid", "clobber 15"), example("rep stosq", "clobber 53"),
      example("fldl \(at)", "\(place) = ?"), example("fnstsw %ax", "x0 = ?"),
      example("nopw 0(%rax,%rax,1)", "padding"), example("endbr64", "padding"), example("nop", "padding"),
      example("xchg %ax, %ax", "padding"), example("call *\(rt)", "call x\(to)"),
      example("call *\(at)", "call \(place)"),
      example("call *(\(rb),\(ro),8)", "call 0"), example("call *\(offset)(%rip)", "call [NEXT \(offset)]"),
      example("jmp *\(offset)(%rip)", "jump [NEXT \(offset)]"), example("jmp *\(rt)", "jump"),
      example("jmp *\(at)", "jump"),
      example("call . + \(long)", "call HERE \(long)"), example("jmp . + \(long + 5)", "jump HERE \(long + 5)"),
      example("jne . + \(long)", "branch HERE \(long)"), example("jmp . + 17", "jump HERE 17"),
      example("ja . - 40", "branch HERE -40"), example("jrcxz . + 30", "branch HERE 30"), example("ret", "return 0"),
      example("ret $\(abs(byte))", "return \(abs(byte))"), example("ud2", "end"), example("hlt", "end"),
      example("int3", "end"),
      example("syscall", "system call"), example("cld"),
    ]
    // These stores count as stores of two words.
    let stores = [
      "movups %xmm3", "movlps %xmm3", "movhps %xmm3", "movaps %xmm3", "movntps %xmm3", "movdqa %xmm3", "movq %mm3",
      "movq %xmm3", "movntdq %xmm3", "movnti \(ro)",
    ]
    all += stores.map { example("\($0), \(at)", "\(place) = ?", "[x\(base) + \(offset + 8)] = ?") }
    all.shuffle(using: &generator)
    return all
  }

  @Test(arguments: 1...4 as ClosedRange<UInt64>) func decodesX86Instructions(seed: UInt64) throws {
    var generator = SplitMix(seed)
    let all = (0..<12).flatMap { _ in examplesOfX86(&generator) }
    let code = try assembled(all.map(\.text), for: "x86_64") + [UInt8](repeating: 0, count: Int(CODE_BYTES))
    var place = 0
    for example in all {
      var operations = [code_operation](repeating: code_operation(), count: Int(CODE_OPERATIONS))
      var count: Int32 = -1
      let bytes = Array(code[place..<min(place + Int(CODE_BYTES), code.count)])
      let here = Self.base + UInt64(place)
      let length = cunwind_x86_64.decode(bytes, here, &operations, &count)
      try #require(length > 0, "\(example.text)")
      let expected = example.expected.map { expected in
        var words = expected.split(separator: " ").map(String.init)
        for (word, base) in [("NEXT", here + UInt64(length)), ("[NEXT", here + UInt64(length)), ("HERE", here)] {
          guard let place = words.firstIndex(of: word), place + 1 < words.count else { continue }
          let isInBrackets = word.hasPrefix("[")
          let distance = Int64(isInBrackets ? String(words[place + 1].dropLast()) : words[place + 1]) ?? 0
          let address = base &+ UInt64(bitPattern: distance)
          words.replaceSubrange(place...place + 1, with: [isInBrackets ? "[\(address)]" : "\(address)"])
        }
        return words.joined(separator: " ")
      }
      #expect(operations.prefix(Int(count)).map(text) == expected, "\(example.text)")
      place += length
    }
    #expect(place == code.count - Int(CODE_BYTES))
  }
}
