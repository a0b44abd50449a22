import Testing

/// `tools/bench causes`, of one stall for each cause.
@Suite(.serialized) struct CausesBenchTests {
  @Test func causesAreTold() throws {
    let outcome = try run("culprit-bench", ["causes-briefly"])
    let programs = try figure("causes.programs", in: outcome.out)
    #expect(programs + (try figure("causes.unavailable", in: outcome.out)) > 15, "\(outcome)")
    // The machine may be busy beside: of fifteen one may be told otherwise.
    #expect(try figure("causes.right", in: outcome.out) > 90, "\(outcome)")
    #expect(try figure("causes.culprit_right", in: outcome.out) > 90, "\(outcome)")
    #expect(try figure("causes.false_deadlocks", in: outcome.out) == 0, "\(outcome)")
    #expect(try figure("causes.wrong_sums", in: outcome.out) == 0, "\(outcome)")
  }
}
