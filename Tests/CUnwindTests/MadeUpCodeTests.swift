import CCulpritUnwind
import SplitMix
import Testing

/// Unwinds generated code at every instruction, and compares the frames with the executed calls.
@Suite struct MadeUpCodeTests {
  static func unwinders() throws -> [FixtureUnwinder] { [try FixtureUnwinder("x86_64")] }

  @Test(arguments: [true, false]) func unwindsCallChainAtEveryInstruction(isDescribed: Bool) throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("framed"), .trap])
    program.add(
      "framed",
      isDescribed: isDescribed,
      MadeUpInstruction.enter + [
        .push(.rbx), .move(.rsp, by: -24), .branch("skipped"), .call("unframed"), .label("skipped"), .set(.rbx, 1),
        .callWord("unframed@got"), .move(.rsp, by: 24), .pop(.rbx), .pop(.rbp), .exit,
      ]
    )
    program.add(
      "unframed",
      isDescribed: isDescribed,
      [.push(.r12), .move(.rsp, by: -40), .call("leaf"), .move(.rsp, by: 40), .pop(.r12), .exit]
    )
    program.add("leaf", isDescribed: isDescribed, [.set(.rax, 1), .branch("early"), .nothing, .label("early"), .exit])
    program.words = [("unframed@got", "unframed")]
    try checkEveryInstruction(of: program)
  }

  private func checkEveryInstruction(of program: MadeUpProgram) throws {
    for (mode, unwinder) in try Self.unwinders().enumerated() {
      var thread = MadeUpThread(program, at: "start")
      repeat {
        let found = unwinder.unwind(thread.recorded())
        #expect(found.frames == thread.frames && found.end == "outermost", "\(mode) \(thread.pc)")
      } while thread.step()
      #expect(thread.calls.isEmpty && thread.pc == program.addresses(in: "start")[1] + 2)
    }
  }

  @Test(arguments: [true, false]) func unwindsRandomCodeAtEveryInstruction(isDescribed: Bool) throws {
    try checkRandomCode(isDescribed: isDescribed, hasTables: false) { found, thread in
      found.frames == thread.frames && found.end == "outermost"
    }
  }

  /// A jump table's target can be another function, so a stack can end there. Among the first 2000 seeds, only 1965 has
  /// a wrong frame: two functions with equal frame sizes are mistaken for one.
  @Test(arguments: [true, false]) func reportsNoWrongCallerInRandomCode(isDescribed: Bool) throws {
    try checkRandomCode(isDescribed: isDescribed, hasTables: true) { found, thread in
      found.frames == Array(thread.frames.prefix(found.frames.count))
    }
  }

  private func checkRandomCode(
    isDescribed: Bool,
    hasTables: Bool,
    isRight: (FixtureUnwinder.Found, MadeUpThread) -> Bool
  ) throws {
    let unwinders = try Self.unwinders()
    // The last seeds once had wrong frames.
    for seed in Array(1...30) + [75, 117, 224, 305, 337, 460, 480, 578, 1064] {
      var code = RandomCode(seed: UInt64(seed), isDescribed: isDescribed, hasTables: hasTables)
      var thread = MadeUpThread(code.program(functions: 6), at: "start")
      for _ in 0..<200 {
        for (mode, unwinder) in unwinders.enumerated() {
          let found = unwinder.unwind(thread.recorded())
          #expect(isRight(found, thread), "\(seed) \(mode) \(thread.pc)")
        }
        guard thread.step({ Int.random(in: 0..<$0, using: &code.numbers) }) else { break }
      }
    }
  }

  @Test func unwindsCodeOutsideModules() throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("main"), .trap])
    program.add("main", MadeUpInstruction.enter + [.call("made"), .leave, .exit])
    program.add(
      "made",
      isMadeAtRunTime: true,
      [.push(.rbx), .branch("skipped"), .set(.rax, 1), .label("skipped"), .pop(.rbx), .exit]
    )
    try checkEveryInstruction(of: program)
  }

  /// The frame pointer is used at an undecodable instruction, although the frame contains a stale return address.
  @Test func keepsFramePointerOfUndecodableFunction() throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("main"), .trap])
    program.add(
      "main",
      MadeUpInstruction.enter
        + [
          .move(.rsp, by: -64), .call("strange"), .move(.rsp, by: 64), .label("again"), .call("strange"), .leave, .exit,
        ]
    )
    let wrmsr: [UInt8] = [0x0f, 0x30]
    program.add(
      "strange",
      MadeUpInstruction.enter + [.move(.rsp, by: -128), .label("here"), .bytes(wrmsr), .leave, .exit]
    )
    for unwinder in try Self.unwinders() {
      var thread = MadeUpThread(program, at: "start")
      for place in ["again", "here"] { thread.run(to: place) }
      let found = unwinder.unwind(thread.recorded())
      #expect(found.frames == thread.frames && found.end == "outermost")
    }
  }

  /// A function that ends in a call seems to continue in the next function, whose frame is different. The end of this
  /// wrong frame contains the return address of an outer call.
  @Test func ignoresReturnAddressOfOuterCall() throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("main"), .trap])
    program.add("main", [.move(.rsp, by: -8), .call("caller"), .move(.rsp, by: 8), .exit])
    program.add("caller", [.move(.rsp, by: -24), .call("callee"), .move(.rsp, by: 24), .exit])
    program.add("between", [.move(.rsp, by: -40), .call("caller"), .move(.rsp, by: 40), .exit])
    program.add(
      "never",
      isDescribed: false,
      [.move(.rsp, by: -(24 + 8 + 40 + 8 + 56 + 8)), .nothing, .nothing, .nothing, .nothing, .call("between")]
    )
    program.add("callee", isDescribed: false, [.move(.rsp, by: -56), .call("between"), .move(.rsp, by: 56), .exit])
    program.add("last", [.trap])
    #expect(program["callee"] == program["never"] + 16)
    for (mode, unwinder) in try Self.unwinders().enumerated() {
      var thread = MadeUpThread(program, at: "start")
      for _ in 0..<40 {
        let found = unwinder.unwind(thread.recorded())
        #expect(found.frames == Array(thread.frames.prefix(found.frames.count)), "\(mode) \(thread.pc)")
        thread.step()
      }
    }
  }

  /// An unwinder is entering an exception handler. Below the handler's frame, an earlier call left a return address that
  /// looks like the caller of a second frame of this function.
  @Test(arguments: [true, false], ["nothing", "catching", "end"])
  func findsFrameEnteringExceptionHandler(isReplaced: Bool, decoy: String) throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("main"), .trap])
    program.add("main", [.move(.rsp, by: -8), .call("earlier"), .call("catching"), .move(.rsp, by: 8), .exit])
    program.add("earlier", [.move(.rsp, by: -40), .call("catching"), .move(.rsp, by: 40), .exit])
    program.add(
      "catching",
      [.move(.rsp, by: -24), .branch("handler"), .call("throw"), .nothing, .label("handler"), .move(.rsp, by: 24)]
        + [.exit, .label("end")]
    )
    program.add("throw", [.move(.rsp, by: -72), .call("unwind"), .trap])
    // CFA at the stack pointer + 16, rax saved below the return address.
    program.add("unwind", rows: [0x0e, 16, 0x80, 2], [.push(.rax), .label("handing over"), .pop(.rax), .exit])
    var thread = MadeUpThread(program, at: "start")
    var branches = 0
    thread.run(to: "handing over") { _ in
      branches += 1
      return branches == 1 ? 1 : 0
    }
    var frames = thread.frames
    frames.remove(at: 1)
    let sp = thread[.rsp]
    #expect(thread.stack[sp + 72].map { $0 > program["earlier"] && $0 < program["catching"] } == true)
    #expect(thread.stack[sp + 88] == frames[1].address)
    thread.stack[sp + 8] = frames[1].address
    thread.stack[sp + 40] = decoy == "nothing" ? 0 : program[decoy]
    if isReplaced { thread.stack[sp + 88] = program["handler"] }
    for unwinder in try Self.unwinders() {
      let found = unwinder.unwind(thread.recorded())
      #expect(found.frames == frames && found.end == "outermost")
    }
  }

  @Test(
    arguments: [
      // Saved. Other memory has a copy, and another register an address relative to it.
      [.store(.rbp, to: .rdx, 0), .point(.rax, at: .rbp, 8), .push(.rax), .push(.rbp)],
      // No longer saved.
      [.push(.rbp), .pop(.rcx)],
    ] as [[MadeUpInstruction]]
  ) func findsFramePointerOfCaller(begin: [MadeUpInstruction]) throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.call("framed"), .trap])
    program.add(
      "framed",
      MadeUpInstruction.enter + [.set(.rdi, 128), .lower(.rsp, by: .rdi), .call("saving"), .leave, .exit]
    )
    program.add("saving", isDescribed: false, begin + [.set(.rbp, 0), .label("here"), .nothing, .trap])
    var thread = MadeUpThread(program, at: "start")
    thread.run(to: "here")
    thread.stack[thread[.rsp] - 8] = 0
    for unwinder in try Self.unwinders() {
      let found = unwinder.unwind(thread.recorded())
      #expect(found.frames == thread.frames && found.end == "outermost")
    }
  }

  @Test func forgetsCallTargetsBetweenStacks() throws {
    func thread(_ jump: MadeUpInstruction) -> MadeUpThread {
      var program = MadeUpProgram()
      program.add("start", isOutermost: true, [.call("main"), .trap])
      program.add("main", isDescribed: false, [.move(.rsp, by: -8), .call("jumping"), .move(.rsp, by: 8), .exit])
      program.add("jumping", [jump])
      program.add(
        "function",
        alignment: 64,
        isDescribed: false,
        [.move(.rsp, by: -24), .label("here"), .set(.rax, 1), .trap]
      )
      var thread = MadeUpThread(program, at: "start")
      thread.run(to: "here")
      return thread
    }
    let (first, second) = (thread(.jumpByTable(["function"])), thread(.jump("function")))
    #expect(first.frames == second.frames)
    let unwinder = try FixtureUnwinder("x86_64")
    #expect(unwinder.unwind(first.recorded()).frames == Array(first.frames.prefix(1)))
    #expect(unwinder.unwind(second.recorded()).frames == second.frames)
  }
}

private struct RandomCode {
  var numbers: SplitMix
  let isDescribed: Bool
  let hasTables: Bool
  private var labels = 0
  private var last = 0

  init(seed: UInt64, isDescribed: Bool, hasTables: Bool) {
    numbers = SplitMix(seed)
    self.isDescribed = isDescribed
    self.hasTables = hasTables
  }

  private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &numbers) }

  private mutating func label() -> String {
    labels += 1
    return "L\(labels)"
  }

  /// A program whose functions call later functions.
  mutating func program(functions count: Int) -> MadeUpProgram {
    var program = MadeUpProgram()
    last = count
    program.add("start", isOutermost: true, [.call("f1"), .trap])
    for number in 1...count {
      // Functions with tables can be adjacent.
      let alignment: UInt64 = isDescribed && below(2) == 0 ? 1 : 16
      program.add("f\(number)", alignment: alignment, isDescribed: isDescribed, function(number))
      program.words.append(("f\(number)@got", "f\(number)"))
    }
    return program
  }

  private mutating func function(_ number: Int) -> [MadeUpInstruction] {
    let isFramed = below(3) == 0
    let saved = [MadeUpRegister.rbx, .r12, .r13].filter { _ in below(2) == 0 }
    let room = 16 * below(4) + ((isFramed ? 1 : 0) + saved.count + 1) % 2 * 8
    let begin =
      (isFramed ? MadeUpInstruction.enter : []) + saved.map { .push($0) } + (room > 0 ? [.move(.rsp, by: -room)] : [])
    let end =
      (room > 0 ? [.move(.rsp, by: room)] : []) + saved.reversed().map { MadeUpInstruction.pop($0) }
      + (isFramed ? [.pop(.rbp)] : [])
    return begin + [.set(.rax, number)] + statements(number, depth: 2, end: end) + end + leaving(number)
  }

  /// A return, or a tail call of a later function.
  private mutating func leaving(_ number: Int) -> [MadeUpInstruction] {
    number < last && below(4) == 0 ? [.jump("f\(number + 1)")] : [.exit]
  }

  private mutating func statements(_ number: Int, depth: Int, end: [MadeUpInstruction]) -> [MadeUpInstruction] {
    var result: [MadeUpInstruction] = []
    for _ in 0...below(3) { result += statement(number, depth: depth, end: end) }
    return result
  }

  private mutating func statement(_ number: Int, depth: Int, end: [MadeUpInstruction]) -> [MadeUpInstruction] {
    let (one, other, behind) = (label(), label(), label())
    let callee = number < last ? "f\(number + 1 + below(last - number))" : nil
    switch below(depth == 0 ? 4 : hasTables ? 9 : 8) {
    case 0: return [.set(.rcx, below(100))]
    case 1: return callee.map { [.call($0)] } ?? [.nothing]
    case 2: return callee.map { [.callWord($0 + "@got")] } ?? [.nothing]
    case 3: return callee.map { [.address(.rax, of: $0), .callRegister(.rax)] } ?? [.nothing]
    case 4: return [.branch(one)] + statements(number, depth: depth - 1, end: end) + [.label(one)]
    case 5: return [.branch(one)] + end + leaving(number) + [.label(one)]
    case 6: return [.label(one)] + statements(number, depth: depth - 1, end: end) + [.branch(one)]
    case 7: return [.branch(one, isTaken: true), .trap, .label(one)]
    default:
      return [.jumpByTable([one, other]), .label(one)] + statements(number, depth: depth - 1, end: end)
        + [.jump(behind), .label(other)] + statements(number, depth: depth - 1, end: end) + [.label(behind)]
    }
  }
}
