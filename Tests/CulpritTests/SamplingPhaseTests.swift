import CulpritStallRecord
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct SamplingPhaseTests {
  @Test func measuresTrueShareOfPeriodicWork() throws {
    let reports = Reports()
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .seconds(1), interval: .milliseconds(50)))
    watchdog.onStall { reports.add($0) }
    let loop = try watchdog.watchLoop(named: "cycle")
    loop.withTurn {
      for _ in 0..<500 {
        workInThePart()
        workInTheRest()
      }
    }
    watchdog.stopPatiently()
    let report = try #require(reports.all.first)
    #expect(report.raw.stall.samples.count >= 400)
    let seen = share(of: "workInThePart()", in: report)
    #expect(abs(seen - 0.45) < 0.13, "seen \(seen): \(report)")
  }

  private func share(of function: String, in report: StallReport) -> Double {
    var time = Duration.zero
    var nodes = report.tree
    while let node = nodes.popLast() {
      if node.function.frame?.function == function { time += node.time } else { nodes += node.children }
    }
    return time / report.duration
  }
}

@inline(never)
private func workInThePart() {
  clock.block(for: .microseconds(22_500))
  computed.wrappingAdd(1, ordering: .relaxed)
}

@inline(never)
private func workInTheRest() {
  clock.block(for: .microseconds(27_500))
  computed.wrappingAdd(3, ordering: .relaxed)
}
