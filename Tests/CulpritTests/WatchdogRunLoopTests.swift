import CulpritStallRecord
import Foundation
import Synchronization
import Testing

@testable import Culprit

/// Run loops.
extension WatchdogTests {
  @Test func runLoopIterationsAreWatched() throws {
    let computing = Mutex(Duration.zero)
    let found = try reports { watchdog in
      let thread = Thread {
        let loop = try? watchdog.watchCurrentRunLoop(named: "worker")
        let timer = Timer(timeInterval: 0.05, repeats: false) { _ in
          let took = ContinuousClock().measure { stallByComputing(for: .milliseconds(600)) }
          computing.withLock { $0 = took }
        }
        RunLoop.current.add(timer, forMode: .common)
        // Waiting takes longer than the threshold, and is no stall.
        let end = Date(timeIntervalSinceNow: 1.6)
        RunLoop.current.add(Timer(fire: end, interval: 0, repeats: false) { _ in }, forMode: .common)
        while Date() < end { _ = RunLoop.current.run(mode: .default, before: end) }
        loop?.stop()
        done.store(true, ordering: .releasing)
      }
      done.store(false, ordering: .releasing)
      thread.start()
      while !done.load(ordering: .acquiring) { Thread.sleep(forTimeInterval: 0.02) }
    }
    #expect(found.map(\.source) == [StallReport.Source(kind: .runLoop, name: "worker")])
    #expect(found.first?.culprit?.function.name == "stallByComputing(for:)")
    // The wait that follows is not part of it.
    #expect((found.first?.duration ?? .seconds(9)) <= computing.withLock { $0 } + .milliseconds(100))
  }

  /// A run loop that is busy without ever waiting turns over all the time: congested, not stuck.
  @Test func aBusyRunLoopThatTurnsOverIsNotStuck() throws {
    let found = try reports { watchdog in
      let thread = Thread {
        let loop = try? watchdog.watchCurrentRunLoop(named: "busy")
        let timer = Timer(timeInterval: 0.0001, repeats: true) { _ in computeAfterwards(for: .milliseconds(15)) }
        RunLoop.current.add(timer, forMode: .common)
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 1.2))
        timer.invalidate()
        loop?.stop()
        done.store(true, ordering: .releasing)
      }
      done.store(false, ordering: .releasing)
      thread.start()
      while !done.load(ordering: .acquiring) { Thread.sleep(forTimeInterval: 0.02) }
    }
    #expect(found.isEmpty)
  }

  @Test func theMainRunLoopCanBeWatchedFromAnywhere() throws {
    let found = try reports { watchdog in
      let watch = try watchdog.watchMainRunLoop()
      #expect(throws: WatchdogError.alreadyWatched("main")) { try watchdog.watchMainRunLoop() }
      watch.stop()
      try watchdog.watchMainRunLoop().stop()
    }
    #expect(found.isEmpty)
  }
}
