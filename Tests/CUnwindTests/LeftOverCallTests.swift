import CCulpritUnwind
import Testing

/// Blocked threads whose frames need the frame pointer, which is unknown. Earlier calls left frames on the stack.
@Suite
struct LeftOverCallTests {
  private typealias Code = [MadeUpInstruction]

  /// A call through `deeper`, with arguments on the stack. Its frames stay intact below the frames of later calls.
  private static let earlier: Code = [.move(.rsp, by: -64), .call("deeper"), .move(.rsp, by: 64)]
  private static let now: Code = [.set(.rdi, 128), .call("function")]
  private static let inALoop: Code = [.label("again")] + earlier + now + [.branch("again")]
  /// A frame whose size is known only at run time.
  private static let growing: Code = MadeUpInstruction.enter + [.lower(.rsp, by: .rdi), .call("wait"), .leave, .exit]

  private func program(main: Code, _ function: Code = growing, catches: Bool = false) -> MadeUpProgram {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("main"), .trap])
    program.add("main", MadeUpInstruction.enter + main + [.leave, .exit])
    program.add("deeper", MadeUpInstruction.enter + [.set(.rdi, 16), .call("function"), .pop(.rbp), .exit])
    program.add("function", catches: catches, function)
    program.add("wait", [.bytes([0x0f, 0x05]), .label("blocked"), .exit])  // syscall
    return program
  }

  private func check(_ thread: MadeUpThread, isFound: Bool = true, sourceLocation: SourceLocation = #_sourceLocation)
    throws
  {
    #expect(thread.pc == thread.program["blocked"], sourceLocation: sourceLocation)
    let found = try FixtureUnwinder("x86_64").unwind(thread.recorded(known: []))
    #expect(found.frames == (isFound ? thread.frames : Array(thread.frames.prefix(2))), sourceLocation: sourceLocation)
    #expect(found.end == (isFound ? "outermost" : "no-register"), sourceLocation: sourceLocation)
  }

  @Test(arguments: [
    ("sequence", earlier + now, true),
    ("optional earlier call", [.branch("skipped")] + earlier + [.label("skipped")] + now, true),
    ("loop", inALoop, false),
    ("jump back", [.label("again")] + earlier + now + [.branch("out"), .jump("again"), .label("out")], false),
    (
      "two-block loop", [.label("again")] + earlier + now + [.branch("in"), .nothing, .label("in"), .branch("again")],
      false
    ),
    ("possible loop by a jump table", [.label("again")] + earlier + now + [.jumpByTable(["again"])], false),
    ("no loop", earlier + now + [.branch("out"), .nothing, .label("out")], true),
  ]) func distinguishesLiveCallFromEarlierOne(flow: String, main: [MadeUpInstruction], isFound: Bool) throws {
    let thread = blockedAgain(program(main: main))
    try check(thread, isFound: isFound)
  }

  /// The thread of `program` at its second wait.
  private func blockedAgain(_ program: MadeUpProgram) -> MadeUpThread {
    var thread = MadeUpThread(program, at: "start")
    thread.run(to: "blocked")
    thread.step()
    thread.run(to: "blocked")
    return thread
  }

  @Test func findsFixedSizeFrame() throws {
    let function: Code = MadeUpInstruction.enter + [.move(.rsp, by: -128), .call("wait"), .leave, .exit]
    let thread = blockedAgain(program(main: Self.inALoop, function))
    try check(thread)
  }

  /// No code jumps to the exception handler, which uses its function's frame.
  @Test func findsFrameOfExceptionHandler() throws {
    let function: Code =
      MadeUpInstruction.enter + [
        .move(.rsp, by: -128), .call("throwing", pad: "caught"), .leave, .exit, .label("caught"), .call("wait"), .leave,
        .exit,
      ]
    var program = program(main: Self.inALoop, function, catches: true)
    program.add("throwing", [.label("thrown"), .exit])
    var thread = MadeUpThread(program, at: "start")
    thread.run(to: "thrown")
    thread.step()
    thread.run(to: "thrown")
    let isCaught = thread.raise()
    #expect(isCaught)
    thread.run(to: "blocked")
    try check(thread)
  }

  /// A jump table's targets have the frame of the jump.
  @Test func findsFrameAfterJumpTable() throws {
    let function: Code =
      MadeUpInstruction.enter + [
        .move(.rsp, by: -128), .jumpByTable(["one"]), .label("one"), .call("wait"), .leave, .exit,
      ]
    let thread = blockedAgain(program(main: Self.inALoop, function))
    try check(thread)
  }

  @Test func findsFrameOfColdPart() throws {
    let function: Code = MadeUpInstruction.enter + [.move(.rsp, by: -128), .branch("cold"), .leave, .exit]
    var program = program(main: Self.inALoop, function)
    program.add("cold", [.call("wait"), .leave, .exit])
    var thread = MadeUpThread(program, at: "start")
    var branches = 0
    thread.run(to: "blocked") { _ in
      branches += 1
      return branches == 2 ? 1 : 0
    }
    try check(thread)
  }

  @Test func acceptsJumpThroughRegister() throws {
    var program = program(main: [.set(.rdi, 128), .call("jumping")])
    program.add("jumping", [.jumpByTable(["function"])])
    var thread = MadeUpThread(program, at: "start")
    thread.run(to: "blocked")
    try check(thread)
  }

  @Test func ignoresCallOfOtherFunction() throws {
    var program = program(main: [.call("jumping")])
    program.add("jumping", [.jump("outer")])
    // Both functions have the same cache index.
    let distance: UInt64 = 1 << 12
    program.add(
      "outer",
      alignment: distance,
      MadeUpInstruction.enter + [.branch("early"), .move(.rsp, by: -64), .call("middle"), .move(.rsp, by: 64)]
        + [.set(.rdi, 128), .call("inner"), .label("early"), .leave, .exit]
    )
    program.add("middle", MadeUpInstruction.enter + [.call("jumping"), .pop(.rbp), .exit])
    program.add("inner", alignment: distance, Self.growing)
    var thread = MadeUpThread(program, at: "start")
    var branches = 0
    thread.run(to: "blocked") { _ in
      branches += 1
      return branches == 2 ? 1 : 0
    }
    #expect(branches == 2)
    try check(thread)
  }

  @Test func codeAddressIsNoReturnAddress() throws {
    let kept: Code = [.address(.rax, of: "address"), .push(.rax), .push(.rbp)]
    let loop: Code = [.label("again"), .nothing, .label("address")] + Self.now + [.branch("again")]
    var thread = MadeUpThread(program(main: kept + loop), at: "start")
    thread.run(to: "blocked")
    try check(thread)
  }
}
