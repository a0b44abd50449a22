import CCulpritObserver
import CulpritStallRecord
import Dispatch
import Foundation
import SourceLoads
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct PingTests {
  private func reports(_ body: (Watchdog) throws -> Void) throws -> [StallReport] {
    try WatchdogTests().reports(nil, body)
  }

  @Test func ignoresSlowProbeClosure() throws {
    let pings = Atomic(0)
    let found = try reports { watchdog in
      let watch = try watchdog.watchLoop(named: "slow closure") { ping in
        clock.block(for: .milliseconds(700))
        ping()
        pings.add(1, ordering: .relaxed)
      }
      clock.wait { pings.load(ordering: .relaxed) == 2 }
      watch.stop()
    }
    #expect(found.isEmpty, "\(found)")
  }

  @Test func reportsBlockedProbeClosure() throws {
    let turnstile = Turnstile()
    let found = try reports { watchdog in
      watchdog.onStallBegan { _ in turnstile.open() }
      let watch = try watchdog.watchLoop(named: "blocked closure") { ping in
        turnstile.pass()
        ping()
      }
      clock.block(for: .seconds(3))
      watch.stop()
    }
    #expect(found.map(\.source.name) == ["blocked closure"])
  }

  /// A closure that returns and blocks again must not delay the other closure.
  @Test func blockedProbeClosuresDoNotDelayEachOther() throws {
    let (first, second) = (Turnstile(), Turnstile())
    _ = try reports { watchdog in
      let loops = try [(first, "first"), (second, "second")].map { turnstile, name in
        try watchdog.watchLoop(named: name) { ping in
          turnstile.pass()
          ping()
        }
      }
      #expect(clock.wait { first.arrived == 1 && second.arrived == 1 && watchdog.status.problems.count == 2 })
      clock.block(for: .milliseconds(1_200))
      first.letOneIn()
      #expect(clock.wait { first.arrived == 2 })
      second.letOneIn()
      #expect(clock.wait { second.arrived == 2 })
      for turnstile in [first, second] { turnstile.open() }
      for loop in loops { loop.stop() }
    }
  }

  @Test func limitsThreadsInBlockedProbeClosures() throws {
    let turnstiles = (0..<10).map { _ in Turnstile() }
    _ = try reports { watchdog in
      let loops = try turnstiles.enumerated().map { number, turnstile in
        try watchdog.watchLoop(named: "stuck \(number)") { ping in
          turnstile.pass()
          ping()
        }
      }
      #expect(clock.wait { watchdog.status.problems.contains { $0.hasPrefix("no probes in other event loops") } })
      #expect(turnstiles.count { $0.arrived > 0 } == 8)
      for turnstile in turnstiles { turnstile.open() }
      for loop in loops { loop.stop() }
    }
  }

  @Test func blockedProbeClosuresDoNotDelayOtherSources() throws {
    let turnstiles = [Turnstile(), Turnstile()]
    let healthy = ClosureLoop()
    let queue = DispatchQueue(label: "healthy queue")
    let isStalled = Finished()
    var problems: [String] = []
    let found = try reports { watchdog in
      var watches = try zip(turnstiles, ["stuck", "also stuck"]).map { turnstile, name in
        try watchdog.watchLoop(named: name) { ping in
          turnstile.pass()
          ping()
        }
      }
      watches.append(
        try watchdog.watchLoop(named: "healthy") { ping in isStalled.isSet ? healthy.execute(ping) : ping() }
      )
      #expect(clock.wait { watchdog.status.problems.count { $0.contains("stuck\"") } == 2 })
      problems = watchdog.status.problems
      watches += [try watchdog.watchQueue(queue), try watchdog.watchExecutor(healthy, named: "also healthy")]
      isStalled.set()
      healthy.execute { stallByWaiting(for: .milliseconds(1500)) }
      queue.async { stallByWaiting(for: .milliseconds(1500)) }
      healthy.wait {}
      queue.sync {}
      for turnstile in turnstiles { turnstile.open() }
      #expect(clock.wait { watchdog.status.problems.isEmpty })
      for watch in watches { watch.stop() }
    }
    #expect(Set(found.map(\.source.name)) == ["stuck", "also stuck", "healthy", "also healthy", "healthy queue"])
    for name in ["stuck", "also stuck"] {
      let sentence = "no probes in event loop \"\(name)\": its closure has not returned for "
      #expect(problems.contains { $0.hasPrefix(sentence) }, "\(problems)")
    }
    healthy.stop()
  }

  @Test func stoppedSourcesFreeTheirName() throws {
    let found = try reports { watchdog in
      let stuck = try watchdog.watchLoop(named: "stuck") { _ in }
      clock.block(for: .milliseconds(100))
      stuck.stop()
      clock.block(for: .milliseconds(500))
      try watchdog.watchLoop(named: "stuck") { ping in ping() }.stop()
    }
    #expect(found.isEmpty)
  }

  @Test(arguments: [false, true]) func stoppedSourcesReturnTheirSlots(isProbeWaiting: Bool) throws {
    func isSlotTaken() -> Bool {
      (0..<Int(OBSERVER_SLOTS_MAX)).contains { SlotRegistry.shared.source($0)?.name == "returned" }
    }
    let waiting = Mutex<[@Sendable () -> Void]>([])
    let found = try reports { watchdog in
      let watch = try watchdog.watchLoop(named: "returned") { probe in
        if isProbeWaiting { waiting.withLock { $0.append(probe) } } else { probe() }
      }
      clock.block(for: .milliseconds(100))
      #expect(isSlotTaken())
      watch.stop()
      #expect(isSlotTaken() == isProbeWaiting)
      for probe in waiting.withLock({ $0 }) { probe() }
      #expect(!isSlotTaken())
    }
    #expect(found.isEmpty)
  }

  @Test func probesCanRunTwice() throws {
    let found = try reports { watchdog in
      let watch = try watchdog.watchLoop(named: "twice") { ping in
        ping()
        ping()
      }
      clock.block(for: .milliseconds(600))
      watch.stop()
    }
    #expect(found.isEmpty)
  }
}

private final class Turnstile: Sendable {
  private let count = Atomic<Int>(0)
  private let isOpen = Atomic<Bool>(false)
  private let gate = DispatchSemaphore(value: 0)

  var arrived: Int { count.load(ordering: .relaxed) }

  func pass() {
    count.add(1, ordering: .relaxed)
    if !isOpen.load(ordering: .relaxed) { clock.whileIdle { gate.wait() } }
  }

  func letOneIn() { gate.signal() }

  func open() {
    isOpen.store(true, ordering: .relaxed)
    gate.signal()
  }
}
