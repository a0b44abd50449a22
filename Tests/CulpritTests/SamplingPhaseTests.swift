import CulpritStallRecord
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Culprit

/// Work that cycles with the time between samples.
@Suite(.serialized, .usesObserver) struct SamplingPhaseTests {
  /// 22.5 of each 50 ms in one function, the rest in another, while a sample is due every 50 ms: before the threshold, and after
  /// it. Samples at fixed distances see one phase of it over and over.
  @Test func workThatCyclesWithTheSamplesHasItsTrueShare() throws {
    let reports = Reports()
    let watchdog = try Watchdog(
      Watchdog.Configuration(threshold: .seconds(1), interval: .milliseconds(50))
    )
    watchdog.onStall { reports.add($0) }
    let loop = try watchdog.watchLoop(named: "cycle")
    var truth = 0.0
    let enough = watchdog.status.captures + 240
    loop.withTurn {
      truth = cycle(period: .milliseconds(50), part: 0.45) { watchdog.status.captures >= enough }
    }
    watchdog.stopPatiently()
    let report = try #require(reports.all.first)
    let samples = report.raw.stall.samples.filter { $0.stack != nil }
    #expect(samples.count >= 150)
    // Some 240 samples at random: one in 5,000 runs is further off.
    let seen = share(of: "workInThePart(until:)", in: report)
    #expect(abs(seen - truth) < 0.13, "seen \(seen), true \(truth): \(report)")
  }

  /// The share of the time in which `function` was on the stack.
  private func share(of function: String, in report: StallReport) -> Double {
    var time = Duration.zero
    var nodes = report.raw.blame.tree
    while let node = nodes.popLast() {
      if node.frame.function == function { time += node.time } else { nodes += node.children }
    }
    return time / report.raw.blame.duration
  }
}

/// Works in turns of `period`, of which the first `part` is spent in a function of its own, until it `isEnough`. Returns how much of
/// the time that was.
@inline(never)
private func cycle(period: Duration, part: Double, isEnough: () -> Bool) -> Double {
  let start = ContinuousClock.now
  var inPart = Duration.zero
  var turn = start
  while !isEnough() {
    let began = ContinuousClock.now
    workInThePart(until: turn + period * part)
    inPart += ContinuousClock.now - began
    turn += period
    workInTheRest(until: turn)
  }
  return inPart / (ContinuousClock.now - start)
}

@inline(never)
private func workInThePart(until end: ContinuousClock.Instant) {
  while ContinuousClock.now < end { computed.wrappingAdd(1, ordering: .relaxed) }
}

@inline(never)
private func workInTheRest(until end: ContinuousClock.Instant) {
  while ContinuousClock.now < end { computed.wrappingAdd(3, ordering: .relaxed) }
}
