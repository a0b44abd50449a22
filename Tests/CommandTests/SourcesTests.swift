import Testing

/// `tools/bench sources` and `tools/soak sources`, for seconds instead of minutes. Times depend on what else the machine does;
/// the rest must hold.
@Suite(.serialized) struct SourcesTests {
  @Test func everySourceIsTimed() throws {
    let outcome = try run("culprit-bench", ["sources-briefly"])
    #expect(outcome.status == 0 || outcome.status == 1 && outcome.error.contains(", but must be from "), "\(outcome)")
    for name in ["loop", "label", "section", "activity", "queue", "pool", "pinged", "run_loop"] {
      #expect(try figure("sources.\(name)_ns", in: outcome.out) > 0)
      #expect(try figure("sources.\(name)_unwatched_ns", in: outcome.out) > 0)
    }
    for name in ["monitor_share", "told_after_max", "duration_error_max"] {
      #expect(try figure("sources.\(name)", in: outcome.out) >= 0)
    }
  }

  @Test func healthyWorkIsNotReported() throws {
    let outcome = try run("culprit-soak", ["sources", "--seconds=8"])
    #expect(outcome.status == 0, "\(outcome)")
    #expect(try figure("sources.false_reports", in: outcome.out) == 0)
    #expect(try figure("sources.kinds", in: outcome.out) == 9)
    #expect(try figure("sources.near_items", in: outcome.out) > 1000)
  }
}
