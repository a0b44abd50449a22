import CCulpritUnwind
import Testing

/// Bounds of functions without unwind tables, called through pointers.
@Suite struct FunctionStartTests {
  /// Unwinds from the label "here" in `body`, which is between `nops` nops and the described function `next`.
  private func check(nops: Int = 0, _ body: [MadeUpInstruction], next: [MadeUpInstruction], isFound: Bool = true) throws
  {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.set(.rbx, 0), .callWord("work@got"), .trap])
    program.add("nops", alignment: 1, isDescribed: false, [.bytes([UInt8](repeating: 0x90, count: nops))])
    program.add("work", alignment: 1, isDescribed: false, body)
    program.add("next", alignment: 1, next)
    program.words = [("work@got", "work"), ("end@got", "next")]
    var thread = MadeUpThread(program, at: "start")
    thread.run(to: "here")
    for (mode, unwinder) in try MadeUpCodeTests.unwinders().enumerated() {
      let found = unwinder.unwind(thread.recorded())
      #expect((found.frames == thread.frames) == isFound, "\(mode)")
      #expect((found.end == "outermost") == isFound, "\(mode)")
    }
  }

  @Test func endsFunctionBeforeNextOne() throws {
    let notCode = MadeUpInstruction.bytes([0x0f, 0x04, 0xc0])
    try check([.push(.rbx), .label("here"), .set(.rbx, 1), .pop(.rbx)], next: [notCode, .exit])
  }

  /// For one number of nops, the address after the first return is a multiple of 16.
  @Test(arguments: 0..<16) func includesJumpTargetsAfterReturn(nops: Int) throws {
    let early: [MadeUpInstruction] = [.push(.rbx), .branch("behind", isTaken: true), .pop(.rbx), .exit]
    let late: [MadeUpInstruction] = [.label("behind"), .nothing, .label("here"), .set(.rbx, 1), .pop(.rbx), .exit]
    try check(nops: nops, early + late, next: [.exit])
  }

  @Test func unwindsStubs() throws {
    try check([.label("here"), .jumpWord("end@got")], next: [.exit])
  }

  /// The decoder reads at most 64 KiB of code per frame.
  @Test(arguments: [(1, true), (0x8000, true), (0x1_0000, true), (0x1_0001, false), (0x1_1000, false)])
  func findsStartWithinCodeLimit(nops: Int, isFound: Bool) throws {
    // The function does not return, so only its start identifies the call.
    let body: [MadeUpInstruction] = [.label("here"), .set(.rbx, 1), .callRegister(.rbx), .jump("here")]
    try check(nops: nops, body, next: [.exit], isFound: isFound)
  }
}
