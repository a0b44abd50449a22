import Testing

/// `tools/bench observer`, for seconds instead of minutes. Its times depend on what else the machine does; the rest must hold.
@Suite(.serialized) struct ObserverBenchTests {
  @Test func whatDoesNotDependOnTimeHolds() throws {
    let outcome = try run("culprit-bench", ["observer-briefly"])
    // A bound that is missed is told, with the figure's name; anything else is an error.
    #expect(outcome.status == 0 || outcome.status == 1 && outcome.error.contains(", but must be from "), "\(outcome)")
    for name in ["handler.stack", "threads.captured", "threads.lost", "bystander.captured.900"] {
      #expect(!outcome.error.contains("\(name) is "), "\(outcome)")
    }
    #expect(try figure("handler.stack", in: outcome.out) <= 1024)
    #expect(try figure("threads.captured", in: outcome.out) >= 2000)
    #expect(try figure("threads.lost", in: outcome.out) == 0)
    let figures = [
      "handler.p99", "handler.vs_unwind_cold", "bystander.ratio.8", "bystander.ratio.64", "bystander.ratio.900",
    ]
    for name in figures { #expect(try figure(name, in: outcome.out) > 0, "\(name)") }
  }
}
