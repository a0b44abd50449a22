import CCulpritUnwind
import Testing

/// Frames that need the frame pointer, in blocked threads whose frame pointer is unknown.
@Suite
struct RecoveredFrameTests {
  /// A system call stub in which a thread is blocked at "back".
  private static let stub: [MadeUpInstruction] = [.bytes([0x0f, 0x05]), .label("back"), .exit]

  private func blocked(_ program: MadeUpProgram, _ change: (inout MadeUpThread) -> Void = { _ in }) -> MadeUpThread {
    var thread = MadeUpThread(program, at: "start")
    change(&thread)
    thread.run(to: "back")
    return thread
  }

  private func unwind(_ stack: RecordedStack) throws -> FixtureUnwinder.Found {
    try FixtureUnwinder("x86_64").unwind(stack)
  }

  @Test(arguments: [16, 32, 64, 128], [0, 1, 3, 5]) func findsAlignedFrames(alignment: Int, saved: Int)
    throws
  {
    for room in 0..<8 {
      var program = MadeUpProgram()
      program.add("start", isOutermost: true, [.set(.rbx, 0), .move(.rsp, by: -16 * room), .call("work"), .trap])
      let pushes: [MadeUpInstruction] = [.rbx, .r12, .r13, .r14, .r15].prefix(saved).map { .push($0) }
      program.add(
        "work",
        MadeUpInstruction.enter + pushes + [.align(.rsp, to: alignment), .move(.rsp, by: -48), .call("wait")]
          + [.point(.rsp, at: .rbp, 0), .pop(.rbp), .exit]
      )
      program.add("wait", Self.stub)
      let thread = blocked(program)
      let found = try unwind(thread.recorded(known: []))
      #expect(found.frames == thread.frames && found.end == "outermost", "\(room)")
    }
  }

  @Test func locatesFrameBySystemCallArgument() throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.set(.rbx, 0), .call("outer"), .trap])
    program.add("outer", MadeUpInstruction.enter + [.call("work"), .label("returned"), .leave, .exit])
    program.add(
      "work",
      MadeUpInstruction.enter + [.set(.rax, 256), .lower(.rsp, by: .rax), .point(.rdi, at: .rbp, -32)]
        + [.call("park"), .leave, .exit]
    )
    program.add("park", [.move(.rsp, by: -8), .call("wait"), .move(.rsp, by: 8), .exit])
    program.add("wait", Self.stub)
    var thread = blocked(program)
    for isLeftBehind in [false, true] {
      if isLeftBehind {
        thread.stack[thread[.rbp] - 128] = thread.stack[thread[.rbp]]
        thread.stack[thread[.rbp] - 120] = program["returned"]
      }
      let found = try unwind(thread.recorded(known: [.rdi]))
      #expect(found.frames == thread.frames && found.end == "outermost", "\(found.end)")
      let without = try unwind(thread.recorded(known: []))
      #expect((without.frames == thread.frames) == !isLeftBehind)
      #expect(without.frames == Array(thread.frames.prefix(without.frames.count)))
    }
  }

  /// A shift to the right and back aligns the address of a local variable. Its value then excludes the frame of an
  /// earlier call. Other shifts prove nothing.
  @Test(arguments: [(back: 4 as UInt8, isLeftBehind: true), (3, false)])
  func locatesFrameByShiftedAddress(back: UInt8, isLeftBehind: Bool) throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.set(.rbx, 0), .call("outer"), .trap])
    program.add("outer", MadeUpInstruction.enter + [.call("work"), .label("returned"), .leave, .exit])
    // shr $4, %r12; shl $back, %r12
    program.add(
      "work",
      MadeUpInstruction.enter + [.set(.rax, 256), .lower(.rsp, by: .rax), .point(.r12, at: .rbp, -40)]
        + [.bytes([0x49, 0xc1, 0xec, 4]), .bytes([0x49, 0xc1, 0xe4, back]), .call("wait"), .leave, .exit]
    )
    program.add("wait", Self.stub)
    var thread = blocked(program)
    thread[.r12] = (thread[.r12] >> 4) << UInt64(back)
    if isLeftBehind {
      thread.stack[thread[.rbp] - 128] = thread.stack[thread[.rbp]]
      thread.stack[thread[.rbp] - 120] = program["returned"]
    }
    let found = try unwind(thread.recorded(known: [.r12]))
    #expect(found.frames == thread.frames && found.end == "outermost", "\(found.end)")
  }

  /// Like a coroutine, the function continues on another stack and saves its frame's address there.
  @Test func findsFrameAcrossStackSwitch() throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.set(.rbx, 0), .call("switch"), .trap])
    program.add(
      "switch",
      MadeUpInstruction.enter + [.copy(to: .rsp, from: .rdi), .push(.rbp), .call("work"), .pop(.rbp), .leave, .exit]
    )
    program.add("work", [.move(.rsp, by: -16), .call("wait"), .move(.rsp, by: 16), .exit])
    program.add("wait", Self.stub)
    let other = MadeUpThread.stackEnd - 0x4000
    let thread = blocked(program) { $0[.rdi] = other }
    var stack = thread.recorded(known: [])
    (stack.ownLow, stack.ownStart) = (other + 0x2000, other + 0x3000)
    (stack.ownEnd, stack.stackEnd) = (MadeUpThread.stackEnd, other)
    stack.ownBytes = Array(stack.bytes[Int(stack.ownStart - stack.stackStart)...])
    stack.bytes.removeSubrange(Int(other - stack.stackStart)...)
    let found = try unwind(stack)
    #expect(found.frames == thread.frames && found.end == "outermost", "\(found.end)")
  }
}
