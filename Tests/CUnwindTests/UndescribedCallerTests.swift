import CCulpritUnwind
import Testing

/// Threads blocked in callees of functions without unwind information. The outermost function's frame record always
/// fits, because a call through a pointer can reach any function.
@Suite
struct UndescribedCallerTests {
  private typealias Code = [MadeUpInstruction]

  /// A frame of variable size. Its rule needs the frame pointer, which is unknown.
  private static func growing(_ callee: String) -> Code {
    MadeUpInstruction.enter + [.lower(.rsp, by: .rdi), .call(callee), .leave, .exit]
  }

  /// A frame of variable size that keeps the caller's frame pointer.
  private static func growingWithoutFramePointer(_ callee: String) -> Code {
    [
      .push(.rbx), .copy(to: .rbx, from: .rsp), .lower(.rsp, by: .rdi), .call(callee), .copy(to: .rsp, from: .rbx),
      .pop(.rbx), .exit,
    ]
  }

  /// A thread that is blocked below `run`, which calls `callee` and was called through a register.
  private func blocked(callee: String = "bare", _ addFunctions: (inout MadeUpProgram) -> Void) -> MadeUpThread {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.callRegister(.rdx), .trap])
    program.add("run", MadeUpInstruction.enter + [.address(.rax, of: "block"), .call(callee), .leave, .exit])
    addFunctions(&program)
    var thread = MadeUpThread(program, at: "start")
    thread[.rdx] = program["run"]
    thread[.rdi] = 128
    thread.run(to: "blocked")
    return thread
  }

  /// A system call stub.
  private static let wait: Code = [.bytes([0x0f, 0x05]), .label("blocked"), .exit]

  private func checkComplete(_ thread: MadeUpThread, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let found = try FixtureUnwinder("x86_64").unwind(thread.recorded(known: []))
    #expect(found.frames == thread.frames && found.end == "outermost", sourceLocation: sourceLocation)
  }

  /// Checks that the stack ends after the frame whose frame pointer is unknown.
  private func checkCut(_ thread: MadeUpThread, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let found = try FixtureUnwinder("x86_64").unwind(thread.recorded(known: []))
    #expect(found.frames == Array(thread.frames.prefix(2)), sourceLocation: sourceLocation)
    #expect(found.end == "no-register", sourceLocation: sourceLocation)
  }

  @Test func findsFrameOfUndescribedFunction() throws {
    let thread = blocked {
      $0.add("bare", isDescribed: false, Self.growing("wait"))
      $0.add("block", Self.growing("wait"))
      $0.add("wait", Self.wait)
    }
    try checkComplete(thread)
  }

  @Test func followsPathThroughUndescribedFunction() throws {
    let thread = blocked {
      $0.add("bare", isDescribed: false, MadeUpInstruction.enter + [.call("block"), .leave, .exit])
      $0.add("block", Self.growing("wait"))
      $0.add("wait", Self.wait)
    }
    try checkComplete(thread)
  }

  /// The correct frame record leads to no known caller, so the outermost record is the only candidate.
  @Test func rejectsOutermostRecordIfAnotherPathIsLost() throws {
    let thread = blocked {
      $0.add("bare", isDescribed: false, Self.growingWithoutFramePointer("block"))
      $0.add("block", Self.growing("wait"))
      $0.add("wait", Self.wait)
    }
    try checkCut(thread)
  }

  /// The undescribed function itself has no frame record. The jump and the unaligned stack hide the call that led to it,
  /// so the outermost record is the only candidate. Without the nop, the caller would be taken for a thunk.
  @Test func rejectsOutermostRecordForFunctionWithoutFrameRecord() throws {
    let thread = blocked(callee: "unaligned") {
      $0.add("unaligned", [.nothing, .call("jumping"), .exit])
      $0.add("jumping", [.jump("bare")])
      $0.add("bare", isDescribed: false, Self.growingWithoutFramePointer("wait"))
      $0.add("block", [.exit])
      $0.add("wait", Self.wait)
    }
    try checkCut(thread)
  }

  /// The caller uses the frame pointer for a number, so its frame record is not recognized.
  @Test func rejectsOutermostRecordBelowCodeMadeAtRunTime() throws {
    let thread = blocked {
      $0.add("block", Self.growing("wait"))
      $0.add("wait", Self.wait)
      $0.add("bare", isMadeAtRunTime: true, [.push(.rbp), .set(.rbp, 5), .call("block"), .pop(.rbp), .exit])
    }
    try checkCut(thread)
  }

  /// A retpoline overwrites its own return address with the address in %rax.
  @Test(arguments: [true, false]) func callThunkCanLeadToAnyFunction(isDescribed: Bool) throws {
    let retpoline: [UInt8] = [
      0xe8, 0x07, 0, 0, 0,  // call of the mov
      0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9,  // pause; lfence; jmp
      0x48, 0x89, 0x04, 0x24, 0xc3,  // mov %rax, (%rsp); ret
    ]
    let thread = blocked(callee: "thunk") {
      // The made-up thread skips these bytes.
      $0.add("thunk", isDescribed: isDescribed, [.bytes(retpoline)])
      $0.add("block", alignment: 1, Self.growing("wait"))
      $0.add("wait", Self.wait)
    }
    try checkComplete(thread)
  }

  /// The call skips the function's first instructions.
  @Test func callCanLeadIntoFunction() throws {
    let thread = blocked(callee: "entry") {
      $0.add("block", [.nothing, .nothing, .label("entry")] + Self.growing("wait"))
      $0.add("wait", Self.wait)
    }
    try checkComplete(thread)
  }

  /// The current frame contains the return address of a finished call to another function.
  @Test func ignoresFinishedCallOfUndescribedFunction() throws {
    let thread = blocked(callee: "loop") {
      $0.add(
        "loop",
        MadeUpInstruction.enter + [
          .label("again"), .move(.rsp, by: -64), .call("bare"), .move(.rsp, by: 64), .call("block"), .branch("again"),
          .leave, .exit,
        ]
      )
      $0.add("bare", isDescribed: false, MadeUpInstruction.enter + [.set(.rax, 1), .leave, .exit])
      $0.add("block", Self.growing("wait"))
      $0.add("wait", Self.wait)
    }
    try checkComplete(thread)
  }
}
