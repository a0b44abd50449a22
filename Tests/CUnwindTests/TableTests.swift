import CCulpritUnwind
import Testing

/// Unwind tables by DWARF 5, 6.4.2, and the Linux Standard Base Core, ".eh_frame".
@Suite struct TableTests {
  /// LEB128 of 2^64 - 2, and of 2 with redundant bytes.
  private static let long: [UInt8] = [0xfe] + [UInt8](repeating: 0xff, count: 8) + [0x01]
  private static let two: [UInt8] = [0x82, 0x80, 0x80, 0x00]
  /// The return address's register number. Operands in this file contain the bytes of its "undefined" instruction.
  private static let returnAddress: UInt8 = 16

  /// Instructions that do not concern the return address.
  private static let others: [(name: String, bytes: [UInt8])] = [
    ("nothing", []), ("nop", [0x00]), ("remember and restore", [0x0a, 0x0b]), ("def_cfa", [0x0c, 7, 16]),
    ("long def_cfa", [0x0c, 7] + long), ("def_cfa_register", [0x0d, 7]), ("def_cfa_offset", [0x0e, 7]),
    ("long def_cfa_offset", [0x0e] + long), ("def_cfa_expression", [0x0f, 2, 7, 16]),
    ("def_cfa_expression of a long length", [0x0f] + two + [7, 16]), ("def_cfa_sf", [0x12, 7, 0x7e]),
    ("long def_cfa_sf", [0x12, 7] + long), ("def_cfa_offset_sf", [0x13, 7]), ("offset", [0x83, 7]),
    ("long offset", [0x83] + long), ("restore", [0xc3]), ("offset_extended", [0x05, 7, 16]),
    ("long offset_extended", [0x05] + long + long), ("restore_extended", [0x06, 7]), ("undefined", [0x07, 7]),
    ("long undefined", [0x07] + long), ("same_value", [0x08, 7]), ("register", [0x09, 7, 16]),
    ("expression", [0x10, 7, 2, 7, 16]), ("long expression", [0x10] + long + two + [7, 16]),
    ("offset_extended_sf", [0x11, 7, 16]), ("val_offset", [0x14, 7, 16]), ("val_offset_sf", [0x15, 7, 16]),
    ("val_expression", [0x16, 7, 2, 7, 16]), ("negate_ra_state", [0x2d]), ("GNU_args_size", [0x2e, 7]),
    ("GNU_negative_offset_extended", [0x2f, 7, 16]),
  ]

  /// Unwinds a thread `distance` bytes after the start of a function with `rows` and without readable callers.
  private func end(_ rows: [UInt8], at distance: Int) throws -> String {
    var program = MadeUpProgram()
    program.add("work", rows: rows, [.bytes([UInt8](repeating: 0x90, count: 0x400)), .exit])
    var thread = MadeUpThread(program, at: "work")
    thread.pc += UInt64(distance)
    var stack = thread.recorded()
    stack.bytes = [UInt8](repeating: 0x11, count: stack.bytes.count)
    let found = try FixtureUnwinder("x86_64").unwind(stack)
    #expect(found.frames == thread.frames)
    return found.end
  }

  @Test(arguments: others.indices) func undefinedReturnAddressEndsStack(index: Int) throws {
    let (name, other) = Self.others[index]
    let advances: [(bytes: [UInt8], distance: Int)] = [
      ([0x41], 1), ([0x7f], 63), ([0x02, 1], 1), ([0x02, 0xff], 255), ([0x03, 0x34, 0x01], 0x134),
      ([0x04, 0x34, 0x02, 0, 0], 0x234), ([0x7f, 0x02, 0xc8, 0x03, 0xff, 0x00, 0x04, 1, 0, 0, 0], 63 + 200 + 255 + 1),
    ]
    for (advance, distance) in advances {
      let undefined = [0x07, Self.returnAddress]
      #expect(try end(other + advance + undefined, at: distance) == "outermost", "\(name) \(advance)")
      #expect(try end(other + advance + undefined, at: distance - 1) != "outermost", "\(name) \(advance)")
      #expect(try end(undefined + advance + [0x90, 1] + other, at: distance - 1) == "outermost", "\(name) \(advance)")
      #expect(try end(undefined + advance + [0x90, 1] + other, at: distance) != "outermost", "\(name) \(advance)")
    }
  }

  @Test(arguments: [0x17, 0x1c, 0x30, 0x3f] as [UInt8]) func rejectsUnknownTableInstructions(instruction: UInt8)
    throws
  {
    #expect(try end([instruction, 0x07, Self.returnAddress], at: 0) != "outermost")
  }

  @Test func codeBeforeFirstFunctionIsUndescribed() throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.bytes([UInt8](repeating: 0x90, count: 64)), .trap])
    var thread = MadeUpThread(program, at: "start")
    thread.pc -= 32
    var stack = thread.recorded()
    let table = try #require(stack.memory.first { $0.address == MadeUpProgram.base })
    let distance = UInt32(thread.pc - MadeUpProgram.base)
    let entry = (0..<4).map { UInt8(truncatingIfNeeded: distance >> (8 * $0)) } + table.bytes[16..<20]
    stack.memory.append(.init(address: table.address + 12 + 8 * UInt64(UInt32.max), bytes: entry))
    for unwinder in try MadeUpCodeTests.unwinders() {
      let found = unwinder.unwind(stack)
      #expect(found.frames == thread.frames && found.end != "outermost")
    }
  }

  /// Unwinds a thread in "work", called by "start", with `rows` in the table, after `change`.
  private func callers(_ rows: [UInt8], _ change: (inout MadeUpThread) -> Void) throws -> (
    found: FixtureUnwinder.Found, frames: [RecordedStack.Frame]
  ) {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("work"), .trap])
    program.add("work", rows: rows, [.bytes([UInt8](repeating: 0x90, count: 32)), .exit])
    var thread = MadeUpThread(program, at: "start")
    thread.step()
    let frames = thread.frames
    change(&thread)
    return (try FixtureUnwinder("x86_64").unwind(thread.recorded()), frames)
  }

  /// The linker's row for PLT entries, also with DW_OP_neg and DW_OP_abs. After the push, from byte 11 of 16 on, the
  /// frame has another word.
  @Test(arguments: [0, 10, 11, 15] as [UInt64], [[], [0x1f, 0x19]] as [[UInt8]])
  func evaluatesExpressionOfStub(distance: UInt64, negation: [UInt8]) throws {
    let expression: [UInt8] = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33] + negation + [0x24, 0x22]
    let (found, frames) = try callers([0x0f, UInt8(expression.count)] + expression) {
      $0.pc += distance
      guard distance >= 11 else { return }
      $0[.rsp] -= 8
      $0.stack[$0[.rsp]] = 0x1234
    }
    #expect(found.frames.dropFirst() == frames.dropFirst() && found.end == "outermost")
  }

  @Test func findsReturnAddressInRegister() throws {
    let (found, frames) = try callers([0x0e, 0, 0x09, Self.returnAddress, 2]) {
      $0[.rcx] = $0.stack[$0[.rsp]] ?? 0
      $0.stack[$0[.rsp]] = 0
      $0[.rsp] += 8
    }
    #expect(found.frames == frames && found.end == "outermost")
  }

  /// A damaged table can contain any register number. A vector register's value is unknown.
  @Test(arguments: [[80], [0xc8, 0x01], [0xff, 0xff, 0xff, 0xff, 0x07], long] as [[UInt8]])
  func endsAtReturnAddressInUnknownRegister(number: [UInt8]) throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("work"), .trap])
    program.add("work", rows: [0x09, Self.returnAddress] + number, [.call("inner"), .trap])
    program.add("inner", [.bytes([UInt8](repeating: 0x90, count: 32)), .exit])
    var thread = MadeUpThread(program, at: "start")
    thread.step()
    thread.step()
    let found = try FixtureUnwinder("x86_64").unwind(thread.recorded())
    #expect(found.frames == Array(thread.frames.prefix(2)) && found.end != "outermost")
  }
}
