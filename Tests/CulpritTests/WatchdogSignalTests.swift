import Foundation
import Testing

@testable import Culprit

@Suite(.serialized, .usesObserver) struct WatchdogSignalTests {
  private func reports(_ body: (Watchdog) throws -> Void) throws -> [StallReport] {
    let reports = Reports()
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(400), interval: .milliseconds(50)))
    watchdog.onStall { reports.add($0) }
    try body(watchdog)
    watchdog.stopPatiently()
    return reports.all
  }

  @Test func samplesBesideThreadsThatBlockSignals() throws {
    let found = try reports { watchdog in
      let isOver = Finished()
      let (begun, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      for number in 0..<12 {
        Thread.detachNewThread {
          var signals = sigset_t()
          sigemptyset(&signals)
          sigaddset(&signals, SIGPROF)
          pthread_sigmask(SIG_BLOCK, &signals, nil)
          let loop = try? watchdog.watchLoop(named: "deaf \(number)")
          loop?.begin()
          begun.signal()
          while !isOver.isSet { sched_yield() }
          loop?.end()
          ended.signal()
        }
      }
      for _ in 0..<12 { begun.wait() }
      watchdog.withSection("victim", threshold: .milliseconds(200)) {
        // Extends the section until three more samples are collected.
        let end = watchdog.status.captures + 3
        stallByComputing(for: .milliseconds(300))
        while watchdog.status.captures < end { stallByComputing(for: .milliseconds(10)) }
      }
      isOver.set()
      for _ in 0..<12 { ended.wait() }
    }
    let victim = found.first { $0.source.name == "victim" }
    #expect(victim?.culprit?.function.name == "stallByComputing(for:)")
    #expect((victim?.evidence.stackCount ?? 0) > 1)
  }

  /// Sampling a sleeping thread must not interrupt the sleep with a signal.
  @Test func doesNotInterruptSleeps() throws {
    let found = try reports { watchdog in
      watchdog.withSection("asleep", threshold: .milliseconds(200)) { sleepOnce() }
    }
    #expect(slept == 0)
    #expect(found.first?.culprit?.function.name == "sleepOnce()")
    #expect(found.first?.culprit?.waiting.map { $0.samples * 2 > $0.of } == true)
    #expect(found.first?.description.contains("blocked in ") == true)
    #expect(found.first?.description.contains("nanosleep") == true)
  }
}
