import Testing

/// `tools/bench blame`, with a dozen stalls of kinds that every build names, in the build of the tests.
@Suite(.serialized) struct BlameTrialsTests {
  @Test func knownCulpritsAreNamed() throws {
    let outcome = try run("culprit-bench", ["blame-briefly"])
    // A bound that is missed is told, with the figure's name; anything else is an error.
    #expect(outcome.status == 0 || outcome.status == 1 && outcome.error.contains(", but must be from "), "\(outcome)")
    // A stall that others held up may not be what it was to be.
    #expect(try figure("blame.trials", in: outcome.out) + figure("blame.void", in: outcome.out) == 12, "\(outcome)")
    #expect(try figure("blame.trials", in: outcome.out) > 0, "\(outcome)")
    #expect(try figure("blame.culprit_named", in: outcome.out) == 100, "\(outcome)")
    #expect(try figure("blame.invented", in: outcome.out) == 0, "\(outcome)")
    #expect(try figure("blame.no_verdict", in: outcome.out) == 0, "\(outcome)")
  }

  @Test func mistakesAreTold() throws {
    #expect(try run("culprit-bench", ["blame", "--builds=fast"]).error.contains("there is no build \"fast\""))
  }
}
