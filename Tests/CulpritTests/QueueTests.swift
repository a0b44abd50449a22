import CCulpritLinux
import CulpritStallRecord
import Dispatch
import Foundation
import SourceLoads
import TestSupport
import Testing

@testable import Culprit

/// Queues and executors with real threads. Simulated time passes only while the test blocks such a thread.
@Suite(.serialized, .usesSimulatedClock) struct QueueTests {
  @Test func findsDrainingThreadOfQueue() throws {
    let layout = try #require(QueueLayout.current)
    let queue = DispatchQueue(label: "layout")
    #expect(queue.sync { layout.isDrainedByCaller(queue) })
    #expect(!layout.isDrainedByCaller(queue))
    let concurrent = DispatchQueue(label: "concurrent", attributes: .concurrent)
    let isDrained = Mutex(true)
    let done = DispatchSemaphore(value: 0)
    concurrent.async {
      isDrained.withLock { $0 = layout.isDrainedByCaller(concurrent) }
      done.signal()
    }
    done.wait()
    #expect(!isDrained.withLock { $0 })
  }

  /// The layout must be found even if the queue is the last object in mapped memory.
  @Test func layoutDoesNotDependOnNeighbours() throws {
    let layout = try #require(QueueLayout.current)
    let missed = Mutex<[QueueLayout?]>([])
    let done = DispatchSemaphore(value: 0)
    // A new thread has a separate arena, which grows by single pages.
    Thread.detachNewThread {
      var kept: [UnsafeMutableRawPointer?] = []
      for _ in 0..<3000 {
        // Takes all free chunks, to place the queue last.
        for _ in 0..<8 { kept.append(malloc(Int.random(in: 16...300))) }
        let found = QueueLayout()
        if found != layout { missed.withLock { $0.append(found) } }
      }
      for memory in kept { free(memory) }
      done.signal()
    }
    done.wait()
    #expect(missed.withLock { $0.count } == 0)
  }

  private func check(_ reports: [StallReport], _ source: StallReport.Source) throws -> StallReport {
    let report = try #require(reports.first)
    #expect(reports.count == 1)
    #expect(report.source == source)
    #expect(report.culprit?.function.name == "stallByWaiting(for:)", "\(report)")
    #expect(report.hasEnded)
    // The stall can begin before the probe, so the duration is a lower bound.
    #expect(report.description.contains("was stuck for at least "), "\(report)")
    return report
  }

  private func reports(
    _ watch: (Watchdog) throws -> WatchedProbe,
    by execute: (@escaping @Sendable () -> Void) -> Void,
    _ body: () -> Void
  ) throws -> [StallReport] {
    func runToEnd() {
      let done = DispatchSemaphore(value: 0)
      execute { done.signal() }
      done.wait()
    }
    return try WatchdogTests().reports { watchdog in
      let watch = try watch(watchdog)
      clock.settle()
      runToEnd()
      body()
      runToEnd()
      watch.stop()
    }
  }

  @Test func reportsBlockOfStuckQueue() throws {
    let queue = DispatchQueue(label: "orders")
    let caller = clinux_task_self()
    let isLast = Finished()
    let found = try reports({ try $0.watchQueue(queue) }, by: { queue.async(execute: $0) }) {
      queue.async {
        while !isLast.isSet || !isAsleep(caller) { usleep(100) }
        stallByWaiting(for: .milliseconds(1200))
      }
      for _ in 0..<20 { queue.async {} }
      isLast.set()
      queue.sync {}
    }
    let report = try check(found, StallReport.Source(kind: .queue, name: "orders"))
    #expect(report.queueProgress?.stoodStill == true, "\(report)")
    #expect(report.description.contains("QUEUE     stood still"))
    #expect(report.waitingWork?.count == 21 && report.waitingWork?.isLowerBound == false, "\(report)")
    #expect(report.description.contains("21 blocks waited at a time, the oldest for "), "\(report)")
  }

  @Test func reportsProgressOfCongestedQueue() throws {
    let queue = DispatchQueue(label: "busy")
    let found = try reports({ try $0.watchQueue(queue, named: "counter") }, by: { queue.async(execute: $0) }) {
      for _ in 0..<60 { queue.async { stallByWaiting(for: .milliseconds(20)) } }
    }
    let report = try check(found, StallReport.Source(kind: .queue, name: "counter"))
    let progress = try #require(report.queueProgress, "\(report)")
    #expect(!progress.stoodStill && progress.samples * 2 > progress.of)
    #expect(report.description.contains("QUEUE     moved on, with more work than it could do"))
  }

  @Test func reportsConcurrentQueueWithoutCulprit() throws {
    let queue = DispatchQueue(label: "many", attributes: .concurrent)
    let found = try reports({ try $0.watchQueue(queue) }, by: { queue.async(execute: $0) }) {
      queue.async(flags: .barrier) { stallByWaiting(for: .milliseconds(1000)) }
    }
    #expect(found.count == 1)
    let report = try #require(found.first)
    #expect(report.culprit == nil, "\(report)")
    let groups = try #require(report.otherThreads?.groups)
    #expect(groups.contains { $0.functions.contains { $0.name == "stallByWaiting(for:)" } }, "\(report)")
  }

  @Test func reportsWorkOfMainActor() throws {
    let execute = { (body: @escaping @Sendable () -> Void) in _ = Task { @MainActor in body() } }
    let found = try reports({ try $0.watchMainActor() }, by: execute) {
      execute { stallByWaiting(for: .milliseconds(1200)) }
    }
    _ = try check(found, StallReport.Source(kind: .executor, name: "main actor"))
  }

  @Test func reportsWorkOfExecutor() throws {
    let loop = ClosureLoop()
    let found = try reports({ try $0.watchExecutor(loop, named: "store") }, by: loop.execute) {
      loop.execute { stallByWaiting(for: .milliseconds(1200)) }
    }
    _ = try check(found, StallReport.Source(kind: .executor, name: "store"))
    loop.stop()
  }

  @Test func reportsWorkOfEventLoop() throws {
    let loop = ClosureLoop()
    let found = try reports(
      { try $0.watchLoops(named: "io", execute: [{ $0() }, { loop.execute($0) }, { $0() }]) },
      by: loop.execute
    ) { loop.execute { stallByWaiting(for: .milliseconds(1200)) } }
    _ = try check(found, StallReport.Source(kind: .probedLoop, name: "io #2"))
    loop.stop()
  }

  @Test func queuesCanBeWatchedAgain() throws {
    let queue = DispatchQueue(label: "gone")
    let found = try WatchdogTests().reports { watchdog in
      for number in 0..<200 {
        let watch = try watchdog.watchQueue(queue)
        if number.isMultiple(of: 4) { clock.block(for: .milliseconds(2)) }
        watch.stop()
        watch.stop()
      }
    }
    #expect(found.isEmpty)
  }
}
