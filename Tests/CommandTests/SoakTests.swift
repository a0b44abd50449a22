import Foundation
import Testing

/// `tools/soak observer`, for seconds instead of minutes.
@Suite(.serialized) struct SoakTests {
  /// How many calls of each kind were interrupted, from the remarks "# nanosleep: 5 calls, 0 woken, 0 interrupted, …".
  private func interrupted(in text: String) -> [String: Int] {
    var kinds: [String: Int] = [:]
    for line in text.split(separator: "\n") {
      guard let match = line.firstMatch(of: /^# (\w+): \d+ calls, \d+ woken, (\d+) interrupted/) else { continue }
      kinds[String(match.1)] = Int(match.2) ?? 0
    }
    return kinds
  }

  @Test func noCallIsDisturbedByTheObserver() throws {
    let outcome = try run("culprit-soak", ["observer", "--samples=3000"])
    #expect(outcome.status == 0, "\(outcome)")
    #expect(try figure("soak.samples", in: outcome.out) >= 3000)
    #expect(try figure("soak.passive", in: outcome.out) > 0)
    #expect(try figure("soak.signalled", in: outcome.out) > 0)
    #expect(try figure("soak.calls", in: outcome.out) > 1000)
    #expect(try figure("soak.interrupted", in: outcome.out) == 0)
    #expect(try figure("soak.early", in: outcome.out) == 0)
  }

  /// An observer that signals whatever is in its way is found out, by every kind of call that does not restart.
  @Test func anObserverThatDisturbsIsNoticed() throws {
    let outcome = try run("culprit-soak", ["observer", "--samples=3000", "--signal=at-once"])
    #expect(outcome.status == 1, "\(outcome)")
    #expect(outcome.error.contains("soak.interrupted is "))
    #expect(try figure("soak.interrupted", in: outcome.out) > 100)
    #expect(try figure("soak.unexpected", in: outcome.out) == 0)
    let kinds = interrupted(in: outcome.out)
    let restarting: Set = ["pthread_cond_timedwait", "read", "accept", "flock", "sem_wait"]
    // Where a sandbox allows no rings, there is one kind less.
    #expect(kinds.count == (outcome.out.contains("soak.io_uring_calls") ? 18 : 17))
    for (kind, count) in kinds { #expect((count == 0) == restarting.contains(kind), "\(kind): \(outcome)") }
  }

  /// Not its figure of how wrong a duration may be: that depends on what else the machine does.
  @Test func theNextLaunchNamesWhatWasKilled() throws {
    let outcome = try run(
      "culprit-soak",
      ["blackbox-kills", "blackbox-damage", "--kills=8", "--corruptions=2000", "--cuts=200"]
    )
    #expect(try figure("blackbox.hangs", in: outcome.out) == 4)
    #expect(try figure("blackbox.reported", in: outcome.out) == 4, "\(outcome)")
    #expect(try figure("blackbox.false_hangs", in: outcome.out) == 0)
    #expect(try figure("blackbox.untold", in: outcome.out) == 0)
    #expect(try figure("blackbox.duration_error_max", in: outcome.out) > 0)
    // Whatever becomes of the files, nobody is blamed who is not to blame.
    #expect(try figure("blackbox.damaged", in: outcome.out) >= 20, "\(outcome)")
    #expect(try figure("blackbox.cuts", in: outcome.out) > 4000)
    #expect(try figure("blackbox.corruptions", in: outcome.out) == 2000)
    #expect(try figure("blackbox.unread", in: outcome.out) == 0, "\(outcome)")
    #expect(try figure("blackbox.wrong", in: outcome.out) == 0, "\(outcome)")
  }

  @Test func mistakesAreTold() throws {
    #expect(try run("culprit-soak", ["nothing"]).status == 2)
    #expect(
      try run("culprit-soak", ["observer", "--signal=later"]).error.contains("--signal takes as-shipped or at-once")
    )
  }
}
