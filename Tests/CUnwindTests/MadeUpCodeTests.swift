import CCulpritUnwind
import Testing

/// Stacks of code that was made up for the purpose, at every instruction, against the account of its calls.
@Suite struct MadeUpCodeTests {
  /// Unwinders in plain mode, and with libunwind where it is there.
  static func unwinders() throws -> [FixtureUnwinder] {
    let isMissing = FixtureUnwinder.missing(for: "x86_64") != nil
    return try (isMissing ? [false] : [false, true]).map { try FixtureUnwinder("x86_64", usesTables: $0) }
  }

  @Test(arguments: [true, false]) func everyInstructionOfAChainHasItsCallers(isDescribed: Bool) throws {
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
    for (mode, unwinder) in try Self.unwinders().enumerated() {
      var thread = MadeUpThread(program, at: "start")
      repeat {
        let found = unwinder.unwind(thread.recorded())
        #expect(found.frames == thread.frames && found.end == "outermost", "\(mode) \(thread.pc)")
      } while thread.step()
      #expect(thread.calls.isEmpty && thread.pc == program.addresses(in: "start")[1] + 2)
    }
  }
}
