import CCulpritUnwind
import Testing

/// Instruction encodings from the processor manuals.
@Suite struct ArchitectureTests {
  private typealias Bytes = [UInt8]

  private func before(_ code: [UInt8]) -> [UInt8] {
    [UInt8](repeating: 0x90, count: max(0, Int(UNWIND_CALL_BYTES) - code.count)) + code
  }

  private func beginning(_ code: [UInt8], filler: UInt8 = 0x90) -> [UInt8] {
    code + [UInt8](repeating: filler, count: Int(UNWIND_PROLOGUE_BYTES))
  }

  private func words(_ words: UInt32...) -> [UInt8] {
    words.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> UInt32(8 * $0)) } }
  }

  private func call(_ architecture: unwind_architecture, _ code: [UInt8], at address: UInt64) -> (UInt32, UInt64) {
    var target: UInt64 = 0
    let kind = architecture.call_before(code, address, &target)
    return (kind.rawValue, target)
  }

  // MARK: x86_64

  @Test func recognizesX86Calls() {
    let x86 = cunwind_x86_64
    // call +0x10; call -0x10.
    #expect(call(x86, before([0xe8, 0x10, 0, 0, 0]), at: 0x1000) == (UNWIND_CALL_DIRECT.rawValue, 0x1010))
    #expect(call(x86, before([0xe8, 0xf0, 0xff, 0xff, 0xff]), at: 0x1000) == (UNWIND_CALL_DIRECT.rawValue, 0xff0))
    // call *%rax; *%r11; *(%rbx); *(%rsp); *8(%rbx); *8(%rsp); *8(%r12); *0x100(%rdx); *0x100(%rsp,%rdi); *0x100;
    // *0x10(%rip); *0x100(,%rax,8).
    for code: [UInt8] in [
      [0xff, 0xd0], [0x41, 0xff, 0xd3], [0xff, 0x13], [0xff, 0x14, 0x24], [0xff, 0x53, 8], [0xff, 0x54, 0x24, 8],
      [0x41, 0xff, 0x54, 0x24, 8], [0xff, 0x92, 0, 1, 0, 0], [0xff, 0x94, 0x3c, 0, 1, 0, 0],
      [0xff, 0x14, 0x25, 0, 1, 0, 0], [0xff, 0x15, 0x10, 0, 0, 0], [0xff, 0x14, 0xc5, 0, 1, 0, 0],
    ] { #expect(call(x86, before(code), at: 0x1000).0 == UNWIND_CALL_INDIRECT.rawValue, "\(code)") }
    // jmp *%rax; push (%rax); a call that ends before the last byte; nothing; *(%rsp) without its last byte.
    for code: [UInt8] in [
      [0xff, 0xe0], [0xff, 0x30], [0xff, 0xd0, 0x90], [0xff, 0x13, 0x90], [], [0xff, 0x14], [0xff, 0x53],
      [0xff, 0x15, 0, 0, 0],
      [0xe9, 1, 0, 0, 0], [0xe8, 1, 0, 0, 0, 0x90],
    ] { #expect(call(x86, before(code), at: 0x1000).0 == UNWIND_CALL_NONE.rawValue, "\(code)") }
  }

  @Test func findsGlobalOffsetTableEntries() {
    let x86 = cunwind_x86_64
    var entry: UInt64 = 0
    #expect(x86.calls_got_entry(before([0xff, 0x15, 0xf0, 0xff, 0xff, 0xff]), 0x1000, &entry) && entry == 0xff0)
    #expect(!x86.calls_got_entry(before([0xff, 0x25, 0, 0, 0, 0]), 0x1000, &entry))
    #expect(!x86.calls_got_entry(before([0xfe, 0x15, 0, 0, 0, 0]), 0x1000, &entry))
    // jmp *0x20(%rip), alone, after endbr64, after endbr64 and bnd.
    for (code, expected) in [
      ([0xff, 0x25, 0x20, 0, 0, 0], 0x1026), ([0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x20, 0, 0, 0], 0x102a),
      ([0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x20, 0, 0, 0], 0x102b),
    ] as [([UInt8], UInt64)] {
      #expect(x86.is_plt_stub(beginning(code), 0x1000, &entry) && entry == expected)
    }
    for code: [UInt8] in [[0xff, 0x15, 0, 0, 0, 0], [0xfe, 0x25, 0, 0, 0, 0], [0x90, 0xff, 0x25, 0, 0, 0, 0]] {
      #expect(!x86.is_plt_stub(beginning(code), 0x1000, &entry))
    }
    #expect(!cunwind_aarch64.calls_got_entry(before(words(0xd63f_0200)), 0x1000, &entry))
  }

  @Test func measuresX86Frames() {
    let x86 = cunwind_x86_64
    let (push, landing): ([UInt8], [UInt8]) = ([0x55, 0x48, 0x89, 0xe5], [0xf3, 0x0f, 0x1e, 0xfa])
    let nops = [UInt8](repeating: 0x90, count: 4)
    for (code, expected) in [
      (push + nops, 0), (landing + push + nops, 0), ([0x55, 0x48, 0x8b, 0xec] + nops, 0),
      (push + [0x53], 8), (push + [0x50, 0x57], 16), (push + [0x41, 0x50, 0x41, 0x57, 0x53], 24),
      (push + [0x48, 0x83, 0xec, 0x20], 0x20), (push + [0x53, 0x48, 0x81, 0xec, 0, 2, 0, 0], 0x208),
      // Not counted: a pop, and an invalid push.
      (push + [0x58], 0), (push + [0x4f], 0), (push + [0x41, 0x58], 0),
      // sub too late; and $-32,%rsp: the size is unknown.
      (push + [0x90, 0x48, 0x83, 0xec, 0x20], nil), (push + [0x48, 0x83, 0xe4, 0xe0], nil),
      (push + nops + [0x48, 0x81, 0xec, 0, 1, 0, 0], nil), (push + nops + [0x48, 0x83, 0xc4, 8], 0),
      ([0x53] + push, nil), ([0x55, 0x90] + push, nil), ([0x55, 0x48, 0x89, 0xe6], nil), (nops, nil),
    ] as [([UInt8], UInt64?)] {
      var bytes: UInt64 = 99
      let isReported = x86.frame_bytes(beginning(code), &bytes)
      #expect((isReported ? bytes : nil) == expected, "\(code)")
    }
    for (code, begins) in [
      (push, true), (landing + push, true), ([0x55, 0x48, 0x8b, 0xec], true), ([0x55, 0x90, 0x90, 0x90], false),
      ([0x53, 0x48, 0x89, 0xe5], false), (landing + landing, false), ([0x55, 0x48, 0x89, 0xec], false),
    ] { #expect(x86.begins_frame(beginning(code)) == begins, "\(code)") }
  }

  @Test func recognizesX86EndsAndPadding() {
    let x86 = cunwind_x86_64
    for (code, ends) in [
      ([0xc3, 0xcc], true), ([0xc3, 0x90], true), ([0xc3, 0x66], true), ([0xc3, 0x55], true),
      ([0xc3, 0x0f, 0x1f], true),
      ([0xc3, 0xf3, 0x0f, 0x1e, 0xfa], true), ([0xc3, 0x48], false), ([0xc3, 0x0f, 0x84], false),
      ([0xc2, 0xcc], false),
    ] as [([UInt8], Bool)] {
      let all = [0x48] + code + [UInt8](repeating: 0x48, count: 12)
      #expect(x86.function_ends(all, 2) == ends && !x86.function_ends(all, 1), "\(code)")
    }
    // jmp +0x4548, in both forms, and the next instruction.
    for (jump, next, ends) in [
      ([0xe9, 0x48, 0x45, 0, 0], [0xcc], true), ([0xe9, 0x48, 0x45, 0, 0], [0x55], true), ([0xeb, 0x48], [0x90], true),
      ([0xe9, 0x48, 0x45, 0, 0], [0x48], false), ([0xeb, 0x48], [0x48], false),
      ([0xe8, 0x48, 0x45, 0, 0], [0xcc], false),
    ] as [([UInt8], [UInt8], Bool)] {
      let all = [0x48] + jump + next + [UInt8](repeating: 0x48, count: 12)
      #expect(x86.function_ends(all, 2) == ends && !x86.function_ends(all, 1), "\(jump) \(next)")
    }
    for (code, length) in [
      ([0xcc], 1), ([0], 1), ([0x90], 1), ([0x66, 0x90], 2), ([0x0f, 0x1f, 0], 3), ([0x0f, 0x1f, 0x40, 0], 4),
      ([0x0f, 0x1f, 0x44, 0, 0], 5), ([0x66, 0x0f, 0x1f, 0x44, 0, 0], 6), ([0x0f, 0x1f, 0x80, 0, 0, 0, 0], 7),
      ([0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], 8), ([0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], 10),
      ([0x0f, 0x1f, 0x05, 0, 0, 0, 0], 7), ([0x0f, 0x1f, 0xc4], 3), ([0x3e, 0x90], 2),
      ([0x48], 0), ([0x66, 0x48], 0), ([0x0f, 0x1e, 0xfa], 0), ([0xc3], 0),
    ] as [([UInt8], Int)] {
      #expect(x86.padding(code + [UInt8](repeating: 0x48, count: 16)) == length, "\(code)")
    }
    let returns: [UInt8] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]
    #expect(x86.is_signal_return(returns))
    for place in returns.indices {
      var other = returns
      other[place] ^= 1
      #expect(!x86.is_signal_return(other), "\(place)")
    }
  }

  // MARK: aarch64

  @Test func recognizesArmCalls() {
    let arm = cunwind_aarch64
    // bl +8; bl -8; the farthest bl.
    #expect(call(arm, before(words(0x9400_0002)), at: 0x1004) == (UNWIND_CALL_DIRECT.rawValue, 0x1008))
    #expect(call(arm, before(words(0x97ff_fffe)), at: 0x1004) == (UNWIND_CALL_DIRECT.rawValue, 0xff8))
    #expect(
      call(arm, before(words(0x95ff_ffff)), at: 1 << 32) == (UNWIND_CALL_DIRECT.rawValue, (1 << 32) + (1 << 27) - 8)
    )
    // blr x1; blr x30; blraa x8, x9; blraaz x8; blrab x8, x9.
    for word: UInt32 in [0xd63f_0020, 0xd63f_03c0, 0xd73f_0909, 0xd63f_091f, 0xd73f_0d09] {
      #expect(call(arm, before(words(word)), at: 0x1004).0 == UNWIND_CALL_INDIRECT.rawValue, "\(word)")
    }
    // b +8; br x1; ret; nop.
    for word: UInt32 in [0x1400_0002, 0xd61f_0020, 0xd65f_03c0, 0xd503_201f] {
      #expect(call(arm, before(words(word)), at: 0x1004).0 == UNWIND_CALL_NONE.rawValue, "\(word)")
    }
  }

  /// adrp x16, page; ldr x17, [x16, offset]: alone, and after a landing pad.
  @Test func recognizesArmStubs() {
    let arm = cunwind_aarch64
    var entry: UInt64 = 0
    let stub = words(0xb000_0010, 0xf940_0a11, 0x9100_4210, 0xd61f_0220)
    #expect(arm.is_plt_stub(beginning(stub), 0x5008, &entry) && entry == 0x6010)
    #expect(arm.is_plt_stub(beginning(words(0xd503_245f) + stub), 0x5ffc, &entry) && entry == 0x7010)
    // The entry is on an earlier page.
    #expect(arm.is_plt_stub(beginning(words(0xf0ff_fff0, 0xf940_0211)), 0x5008, &entry) && entry == 0x4000)
    // Stubs with another register or another load are rejected.
    #expect(!arm.is_plt_stub(beginning(words(0xb000_0011, 0xf940_0a11)), 0x5008, &entry))
    #expect(!arm.is_plt_stub(beginning(words(0xb000_0010, 0xb940_0a11)), 0x5008, &entry))
  }

  @Test func measuresArmFrames() {
    let arm = cunwind_aarch64
    let (landing, sign): (UInt32, UInt32) = (0xd503_245f, 0xd503_233f)
    // stp x29, x30, [sp, -32]!; mov x29, sp. sub sp, sp, 64; stp x29, x30, [sp, 48]; add x29, sp, 48.
    let (push, move, lower, store, add): (UInt32, UInt32, UInt32, UInt32, UInt32) = (
      0xa9be_7bfd, 0x9100_03fd, 0xd101_03ff, 0xa903_7bfd, 0x9100_c3fd
    )
    for (code, expected, begins) in [
      (words(push, move), 0, true), (words(landing, push, move), 0, true), (words(landing, sign, push, move), 0, true),
      (words(sign, lower, store, add), 48, true), (words(lower, store, add), 48, true), (words(push, add), nil, true),
      (words(lower, store, move), 0, true), (words(lower, add, store), nil, false), (words(move, push), nil, false),
      (words(0xa9be_53f3, move), nil, false),
    ] as [([UInt8], UInt64?, Bool)] {
      var bytes: UInt64 = 99
      let isReported = arm.frame_bytes(beginning(code), &bytes)
      #expect((isReported ? bytes : nil) == expected, "\(code)")
      #expect(arm.begins_frame(beginning(code)) == begins, "\(code)")
    }
  }

  @Test func recognizesArmEndsAndPadding() {
    let arm = cunwind_aarch64
    // ret and b; nop, udf, brk, paciasp, bti c, stp x29, x30.
    for leaving: UInt32 in [0xd65f_03c0, 0x1400_0010] {
      for next: UInt32 in [0xd503_201f, 0, 0xd420_0020, 0xd503_233f, 0xd503_245f, 0xa9be_7bfd] {
        let code = words(0xaa00_03e1, leaving, next, 0, 0)
        #expect(arm.function_ends(code, 8) && !arm.function_ends(code, 7) && !arm.function_ends(code, 4), "\(next)")
      }
      #expect(!arm.function_ends(words(leaving, 0xaa00_03e1, 0, 0), 4))
    }
    #expect(!arm.function_ends(words(0xd61f_0020, 0, 0, 0), 4))
    for (word, length) in [
      (UInt32(0xd503_201f), 4), (0x0000_1234, 4), (0xd43e_0000, 4), (0xaa00_03e1, 0), (0x0001_0000, 0),
    ] {
      #expect(arm.padding(words(word, 0xaa00_03e1, 0, 0)) == length, "\(word)")
    }
    #expect(arm.is_signal_return(words(0xd280_1168, 0xd400_0001, 0)))
    #expect(!arm.is_signal_return(words(0xd280_1168, 0xd400_0021, 0)))
    #expect(!arm.is_signal_return(words(0xd280_1169, 0xd400_0001, 0)))
  }

  // MARK: Registers

  @Test(arguments: ["x86_64", "aarch64"]) func tracksKnownRegisters(name: String) throws {
    let architecture = try #require(cunwind_architecture(name))
    let numbers = architecture.pointee
    #expect(String(cString: numbers.name) == name && cunwind_architecture(name + "_") == nil)
    func known(_ registers: inout unwind_registers) -> [Int32: UInt64] {
      var found: [Int32: UInt64] = [:]
      for number in -1...Int32(UNWIND_REGISTERS_MAX) {
        var value: UInt64 = 0
        if cunwind_register(architecture, &registers, number, &value) { found[number] = value }
      }
      return found
    }
    var registers = unwind_registers()
    registers.known = .max
    #expect(known(&registers).count == Int(numbers.registers))
    cunwind_set_blocked(architecture, &registers, 11, 12)
    #expect(known(&registers) == [numbers.sp: 11, numbers.pc: 12])
    #expect(cunwind_sp(architecture, &registers) == 11 && cunwind_pc(architecture, &registers) == 12)
    cunwind_set_arguments(architecture, &registers, [1, 2, 3, 4, 5, 6])
    let arguments = withUnsafeBytes(of: numbers.arguments) { Array($0.bindMemory(to: Int32.self)) }
    var expected = [numbers.sp: UInt64(11), numbers.pc: 12]
    for (index, number) in arguments.enumerated() { expected[number] = UInt64(index + 1) }
    #expect(known(&registers) == expected && expected.count == 8)
    cunwind_set_frame(architecture, &registers, 21, 22, 23, false)
    #expect(known(&registers) == [numbers.pc: 21, numbers.sp: 22])
    cunwind_set_frame(architecture, &registers, 21, 22, 23, true)
    #expect(known(&registers) == [numbers.pc: 21, numbers.sp: 22, numbers.frame_pointer: 23])
  }

  /// Instructions that change segments, control registers or the CPU mode do not occur in programs, and no instruction
  /// exceeds the maximum length.
  @Test func rejectsPrivilegedAndOverlongInstructions() {
    let two: [UInt8] = [
      0x04, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0c, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x30, 0x32, 0x33, 0x35,
      0x36,
      0x37, 0x39, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0xa0, 0xa1, 0xa8, 0xa9, 0xaa,
    ]
    let long = [UInt8](repeating: 0x66, count: Int(CODE_BYTES) / 2)
    for code in two.map({ [0x0f, $0, 0xc0] }) + [long + [0x90]] {
      var operations = [code_operation](repeating: code_operation(), count: Int(CODE_OPERATIONS))
      var count: Int32 = -1
      let bytes = code + [UInt8](repeating: 0x90, count: Int(CODE_BYTES))
      #expect(cunwind_x86_64.decode(bytes, 0x1000, &operations, &count) == 0, "\(code)")
    }
  }
}
