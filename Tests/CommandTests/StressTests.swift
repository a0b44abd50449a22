import Testing

/// `tools/stress`, for seconds instead of an hour.
@Suite(.serialized) struct StressTests {
  @Test func aHarmedServiceWorksAndItsStallsAreNamed() throws {
    let outcome = try run("culprit-stress", ["--seconds=20"])
    let stalls = try figure("harm.stalls", in: outcome.out)
    #expect(stalls > 0, "\(outcome)")
    // Of so few one may be a hundredth.
    #expect(try figure("harm.named", in: outcome.out) >= stalls * 0.99 - 1, "\(outcome)")
    #expect(try figure("harm.false_reports", in: outcome.out) == 0, "\(outcome)")
    #expect(try figure("harm.service_errors", in: outcome.out) == 0, "\(outcome)")
    #expect(try figure("harm.acts", in: outcome.out) > 10)
  }

  /// A service that dies is counted and started anew, and one whose descriptors somebody closes and replaces notices.
  /// Captures of all threads, which wait for each of them, would be most of it beside load.
  @Test func whatGoesWrongIsNoticed() throws {
    let outcome = try run("culprit-stress", ["--seconds=20", "--with=death,damage", "--without=capture"])
    #expect(outcome.status == 1, "\(outcome)")
    #expect(outcome.error.contains("harm.service_errors is "), "\(outcome)")
    #expect(outcome.out.contains("# error: the service ended with -9 after death\n"), "\(outcome)")
    #expect(outcome.out.contains(" was damaged\n"), "\(outcome)")
    #expect(try figure("harm.launches", in: outcome.out) > 1, "\(outcome)")
  }

  @Test func mistakesAreTold() throws {
    #expect(try run("culprit-stress", ["now"]).status == 2)
    #expect(try run("culprit-stress", ["--without=floods"]).error.contains("there is no harm \"floods\""))
  }
}
