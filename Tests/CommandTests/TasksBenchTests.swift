import Testing

/// `tools/bench tasks`, in a minute.
@Suite(.serialized) struct TasksBenchTests {
  /// Where the kernel lets writes be counted, jobs that compute are noticed as well.
  @Test func whatHoldsThePoolIsNamedAndNothingElse() throws {
    let outcome = try run("culprit-bench", ["tasks-briefly"])
    for name in ["of_two", "of_four", "one_of_four"] {
      let (trials, named) = (
        try figure("tasks.trials.\(name)", in: outcome.out), try figure("tasks.culprit_named.\(name)", in: outcome.out)
      )
      if name == "one_of_four", outcome.out.contains("computingJobs") { continue }
      #expect(trials == 6 && named == trials, "\(outcome)")
    }
    #expect(try figure("tasks.false_reports", in: outcome.out) == 0, "\(outcome)")
    #expect(try figure("tasks.healthy_tasks", in: outcome.out) > 0)
    #expect(try figure("tasks.culprit_named.sections", in: outcome.out) == 10, "\(outcome)")
    #expect(try figure("tasks.chains", in: outcome.out) == 20, "\(outcome)")
    #expect(try figure("tasks.chains_complete", in: outcome.out) >= 95, "\(outcome)")
    #expect(try figure("tasks.chains_wrong", in: outcome.out) == 0, "\(outcome)")
  }
}
