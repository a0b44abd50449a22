import Dispatch
import Foundation
import StallRecord
import Synchronization
import Testing

@testable import Culprit

/// Sources that are watched by pings: a known function stalls each, and is named.
@Suite(.serialized, .usesObserver) struct PingTests {
  private let quick = Configuration(stallThreshold: .milliseconds(400), sampleInterval: .milliseconds(50))

  /// Runs `body` with a watchdog, stops it and returns what it reported.
  private func reports(_ body: (Watchdog) throws -> Void) throws -> [StallReport] {
    let reports = Reports()
    let watchdog = try Watchdog(quick)
    watchdog.onStall { reports.add($0) }
    do { try body(watchdog) } catch {
      watchdog.stop()
      throw error
    }
    watchdog.stop()
    return reports.all
  }

  /// Waits until `condition` holds, for 20 s at most.
  private func wait(until condition: () -> Bool) {
    for _ in 0..<2000 where !condition() { usleep(10_000) }
  }

  @Test func theLayoutOfQueuesIsFoundOut() throws {
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

  @Test func aBlockedQueuesBlockIsNamed() throws {
    let queue = DispatchQueue(label: "orders")
    let found = try reports { watchdog in
      let watch = try watchdog.watch(queue)
      // Some pings first.
      usleep(200_000)
      queue.async { stallByComputing(for: .milliseconds(1200)) }
      queue.sync {}
      usleep(200_000)
      watch.stop()
    }
    let report = try #require(found.first)
    #expect(found.count == 1)
    #expect(report.stall.source == WatchedSource(kind: .queue, name: "orders"))
    #expect(report.culprit?.frame.function == "stallByComputing(for:)", "\(report)")
    print(report)
  }

  @Test func aCongestedQueueIsSaidToMove() throws {
    let queue = DispatchQueue(label: "busy")
    let found = try reports { watchdog in
      let watch = try watchdog.watch(queue)
      usleep(200_000)
      for _ in 0..<60 { queue.async { stallByComputing(for: .milliseconds(20)) } }
      queue.sync {}
      usleep(200_000)
      watch.stop()
    }
    let report = try #require(found.first)
    print(report)
  }

  @Test func theConcurrencyPoolsOccupantsAreNamed() throws {
    tasksLeft.store(64, ordering: .releasing)
    let found = try reports { watchdog in
      let watch = try watchdog.watchConcurrency()
      usleep(200_000)
      for _ in 0..<64 {
        Task.detached {
          stallByComputing(for: .milliseconds(60))
          tasksLeft.subtract(1, ordering: .releasing)
        }
      }
      wait { tasksLeft.load(ordering: .acquiring) == 0 }
      usleep(200_000)
      watch.stop()
    }
    let report = try #require(found.first)
    print(report)
    print(report.others.map { ($0.threads.count, $0.frames.map { $0.rawName }) })
  }

  @Test func theMainActorsWorkIsNamed() throws {
    let found = try reports { watchdog in
      let watch = try watchdog.watchMainActor()
      usleep(300_000)
      let done = Finished()
      Task { @MainActor in
        stallByComputing(for: .milliseconds(1200))
        done.set()
      }
      wait { done.isSet }
      usleep(200_000)
      watch.stop()
    }
    let report = try #require(found.first)
    print(report)
  }

  @Test func anEventLoopsWorkIsNamed() throws {
    let loop = ThreadLoop()
    let found = try reports { watchdog in
      let watch = try watchdog.watchLoop(named: "io") { ping in loop.execute(ping) }
      usleep(300_000)
      let done = Finished()
      loop.execute {
        stallByComputing(for: .milliseconds(1200))
        done.set()
      }
      wait { done.isSet }
      usleep(200_000)
      watch.stop()
    }
    let report = try #require(found.first)
    print(report)
  }
}

private let tasksLeft = Atomic<Int>(0)

/// An event loop as small as can be: closures, on a thread of its own.
final class ThreadLoop: SerialExecutor {
  private let waiting = Mutex<[@Sendable () -> Void]>([])
  private let signal = DispatchSemaphore(value: 0)

  init() {
    Thread.detachNewThread { [self] in
      while true {
        signal.wait()
        let next = waiting.withLock { $0.removeFirst() }
        next()
      }
    }
  }

  func execute(_ body: @escaping @Sendable () -> Void) {
    waiting.withLock { $0.append(body) }
    signal.signal()
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    execute { [self] in job.runSynchronously(on: asUnownedSerialExecutor()) }
  }
}
