import CCulpritLinux
import CulpritStallRecord
import Foundation
import Synchronization
import Testing

@testable import Culprit

/// Run loops with real threads. Simulated time passes only while the test blocks such a thread.
extension WatchdogTests {
  @Test func reportsStuckRunLoopIteration() throws {
    struct RunningLoop: @unchecked Sendable {
      // SAFETY: timers can be added on any thread; `keepAlive` is used on the loop's thread.
      var loop: RunLoop
      var keepAlive: Timer
      var thread: pid_t
    }
    let found = try reports { watchdog in
      let stalled = Mutex<RunningLoop?>(nil)
      let hasEnded = DispatchSemaphore(value: 0)
      Thread.detachNewThread {
        let watch = try? watchdog.watchCurrentRunLoop(named: "worker")
        let keepAlive = Timer(fire: .distantFuture, interval: 0, repeats: false) { _ in }
        let running = RunningLoop(loop: .current, keepAlive: keepAlive, thread: clinux_task_self())
        RunLoop.current.add(keepAlive, forMode: .default)
        RunLoop.current.perform {
          stallByWaiting(for: .milliseconds(600))
          stalled.withLock { $0 = running }
        }
        _ = RunLoop.current.run(mode: .default, before: .distantFuture)
        watch?.stop()
        hasEnded.signal()
      }
      // The loop waits for longer than the threshold, which is no stall.
      while stalled.withLock({ $0.map { isAsleep($0.thread) } }) != true { usleep(100) }
      let running = stalled.withLock { $0 }
      clock.block(for: .seconds(1))
      if let running {
        running.loop.add(
          Timer(timeInterval: 0, repeats: false) { _ in running.keepAlive.invalidate() },
          forMode: .default
        )
      }
      hasEnded.wait()
    }
    #expect(found.map(\.source) == [StallReport.Source(kind: .runLoop, name: "worker")])
    #expect(found.first?.culprit?.function.name == "stallByWaiting(for:)")
    #expect(found.first?.duration == .milliseconds(600))
  }

  @Test func ignoresBusyRunLoop() throws {
    let found = try reports { watchdog in
      let hasEnded = DispatchSemaphore(value: 0)
      Thread.detachNewThread {
        let loop = try? watchdog.watchCurrentRunLoop(named: "busy")
        let turns = Atomic(0)
        let timer = Timer(timeInterval: 0.0001, repeats: true) { timer in
          clock.block(for: .milliseconds(15))
          if turns.add(1, ordering: .relaxed).newValue == 80 { timer.invalidate() }
        }
        RunLoop.current.add(timer, forMode: .default)
        while RunLoop.current.run(mode: .default, before: .distantFuture) {}
        loop?.stop()
        hasEnded.signal()
      }
      hasEnded.wait()
    }
    #expect(found.isEmpty)
  }

  @Test func mainRunLoopCanBeWatchedFromAnyThread() throws {
    let found = try reports { watchdog in
      let watch = try watchdog.watchMainRunLoop()
      #expect(throws: WatchdogError.alreadyWatched("main")) { try watchdog.watchMainRunLoop() }
      watch.stop()
      try watchdog.watchMainRunLoop().stop()
    }
    #expect(found.isEmpty)
  }
}
