import CCulpritLinux
import Foundation
import SimulatedClock
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct HandlerQueueTests {
  private var late: UInt64 { clinux_clock_ns() &+ 60_000_000_000 }

  private final class Calls: Sendable {
    private let list = Mutex<[Int]>([])
    var all: [Int] { list.withLock { $0 } }
    func add(_ call: Int) { list.withLock { $0.append(call) } }
  }

  private func withWorkers(_ body: (Workers) throws -> Void) throws {
    let wake = WakeUp()
    let workers = Workers(supervisor: wake)
    let supervisor = try PosixThread(name: "supervisor") {
      while true {
        let seen = wake.seen
        if wake.isStopping { return }
        wake.wait(after: seen, until: workers.supervise())
      }
    }
    defer {
      workers.stop()
      wake.stop()
      supervisor.join(until: .max)
    }
    try body(workers)
  }

  @Test func callsInOrderAndAwaitsLastCall() throws {
    try withWorkers { workers in
      let queue = HandlerQueue(workers)
      let calls = Calls()
      for call in 0..<50 { #expect(queue.put { calls.add(call) }) }
      #expect(queue.join(until: late))
      #expect(calls.all == Array(0..<50))
      #expect(queue.dropped == 0)
    }
  }

  /// Repeated calls must not wrap the stored function in more and more thunks.
  @Test func searchesForSectionsAtConstantStackDepth() throws {
    try withWorkers { workers in
      let stack = Mutex((lowest: UInt.max, highest: UInt(0), searches: 0))
      workers.setSections {
        var local = 0
        let address = withUnsafeMutablePointer(to: &local) { UInt(bitPattern: $0) }
        stack.withLock { $0 = (min($0.lowest, address), max($0.highest, address), $0.searches + 1) }
        return []
      }
      let queue = HandlerQueue(workers)
      for _ in 0..<200 {
        queue.put {}
        #expect(queue.join(until: late))
      }
      let found = stack.withLock { $0 }
      #expect(found.searches >= 200 && found.highest - found.lowest < 2_048)
    }
  }

  @Test func joinReturnsAtOnceWhenUnused() throws {
    try withWorkers { workers in
      let queue = HandlerQueue(workers)
      #expect(queue.join(until: 0) && workers.threads == 0)
    }
  }

  @Test func joinWaitsForWork() throws {
    try withWorkers { workers in
      let queue = HandlerQueue(workers)
      let isFree = Promise<Bool>()
      #expect(workers.start() && workers.start())
      queue.put { _ = isFree.wait(until: .max) }
      #expect(!queue.join(until: clinux_clock_ns() &+ 20_000_000))
      isFree.fulfill(true)
      #expect(queue.join(until: late))
    }
  }

  @Test func joinReturnsInItsOwnHandler() throws {
    try withWorkers { workers in
      let queue = HandlerQueue(workers)
      let joined = Promise<Bool>()
      queue.put { joined.fulfill(queue.join(until: .max)) }
      #expect(joined.wait(until: late) == true)
    }
  }

  /// In addition to the running call, a queue holds 64 calls and 64 more vital calls.
  @Test func dropsCallsBeyondLimit() throws {
    try withWorkers { workers in
      let queue = HandlerQueue(workers)
      let (isCalled, isFree) = (Promise<Bool>(), Promise<Bool>())
      let calls = Calls()
      queue.put {
        isCalled.fulfill(true)
        _ = isFree.wait(until: .max)
      }
      _ = isCalled.wait(until: late)
      for call in 0..<64 { queue.put { calls.add(call) } }
      #expect(queue.dropped == 0)
      for call in 64..<67 { queue.put { calls.add(call) } }
      #expect(queue.dropped == 3)
      for call in 100..<165 { queue.put(isVital: true) { calls.add(call) } }
      #expect(queue.dropped == 4)
      isFree.fulfill(true)
      #expect(queue.join(until: late))
      #expect(calls.all == Array(0..<64) + Array(100..<164) && queue.dropped == 4)
    }
  }

  @Test func callsAllHandlersOnOneThread() throws {
    try withWorkers { workers in
      let handlers = Handlers<Int>(workers)
      #expect(handlers.isEmpty && !handlers.call(1))
      let (first, second) = (Calls(), Calls())
      let threads = Mutex<Set<Int32>>([])
      handlers.add { call in
        first.add(call)
        threads.withLock { _ = $0.insert(clinux_task_self()) }
      }
      handlers.add { call in
        second.add(call)
        threads.withLock { _ = $0.insert(clinux_task_self()) }
      }
      #expect(!handlers.isEmpty && handlers.call(2) && handlers.call(3))
      #expect(handlers.finish(until: late))
      #expect(first.all == [2, 3] && second.all == [2, 3])
      #expect(threads.withLock { $0.count == 1 && !$0.contains(clinux_task_self()) })
      #expect(handlers.isEmpty && !handlers.call(4) && handlers.finish(until: 0))
      #expect(first.all == [2, 3])
    }
  }

  @Test func startsThreadsForBlockedHandlers() throws {
    try withWorkers { workers in
      let (isCalled, isFree) = (Promise<Bool>(), Promise<Bool>())
      let called = Promise<UInt64>()
      let (blocked, other) = (HandlerQueue(workers), HandlerQueue(workers))
      blocked.put {
        isCalled.fulfill(true)
        _ = isFree.wait(until: .max)
      }
      _ = isCalled.wait(until: late)
      other.put { called.fulfill(clinux_clock_ns()) }
      #expect(called.wait(until: late) != nil)
      #expect(workers.threads == 2)
      isFree.fulfill(true)
      #expect(blocked.join(until: late) && other.join(until: late))
      clock.block(for: .nanoseconds(Workers.idleTime))
      #expect(workers.threads == 1)
    }
  }

  @Test func limitsThreadsOfBlockedHandlers() throws {
    try withWorkers { workers in
      let isFree = Promise<Bool>()
      let queues = (0...Workers.threadsMax).map { _ in HandlerQueue(workers) }
      for queue in queues { queue.put { _ = isFree.wait(until: .max) } }
      clock.block(for: .seconds(5))
      #expect(workers.threads == Workers.threadsMax)
      isFree.fulfill(true)
      #expect(queues.allSatisfy { $0.join(until: late) })
    }
  }

  @Test func removedHandlersGetEarlierCalls() throws {
    try withWorkers { workers in
      let handlers = Handlers<Int>(workers)
      let (kept, removed) = (Calls(), Calls())
      let isFree = Promise<Bool>()
      handlers.add { kept.add($0) }
      let queue = handlers.add { call in
        _ = isFree.wait(until: .max)
        removed.add(call)
      }
      handlers.call(1)
      handlers.call(2)
      handlers.remove(queue)
      handlers.remove(queue)
      handlers.call(3)
      isFree.fulfill(true)
      #expect(queue.join(until: late) && removed.all == [1, 2])
      #expect(handlers.finish(until: late) && kept.all == [1, 2, 3])
    }
  }

  @Test func addsDroppedCallsOfAllHandlers() throws {
    try withWorkers { workers in
      let handlers = Handlers<Int>(workers)
      let isFree = Promise<Bool>()
      let started = (0..<2).map { _ in Promise<Bool>() }
      let queues = started.map { isCalled in
        handlers.add { _ in
          isCalled.fulfill(true)
          _ = isFree.wait(until: .max)
        }
      }
      handlers.call(0)
      for isCalled in started { _ = isCalled.wait(until: late) }
      for call in 1...66 { handlers.call(call) }
      #expect(queues.map(\.dropped) == [2, 2] && handlers.dropped == 4)
      handlers.remove(queues[0])
      #expect(handlers.dropped == 4)
      handlers.remove(queues[1])
      #expect(handlers.dropped == 4)
      isFree.fulfill(true)
      for queue in queues { #expect(queue.join(until: late)) }
      let third = handlers.add { _ in }
      #expect(handlers.finish(until: late) && handlers.dropped == 4 && third.dropped == 0)
    }
  }

  @Test func callsCompletionAfterLastHandler() throws {
    try withWorkers { workers in
      let handlers = Handlers<Int>(workers)
      let isFree = Promise<Bool>()
      let calls = Calls()
      for place in 0..<3 {
        handlers.add { _ in
          if place == 1 { _ = isFree.wait(until: .max) }
          calls.add(place)
        }
      }
      let over = Promise<Bool>()
      handlers.call(1, then: { over.fulfill(true) })
      #expect(over.wait(until: clinux_clock_ns() &+ 20_000_000) == nil)
      isFree.fulfill(true)
      #expect(over.wait(until: late) == true)
      #expect(calls.all.sorted() == [0, 1, 2])
      handlers.finish(until: late)
    }
  }

  @Test func finishFailsWhileHandlerRuns() throws {
    try withWorkers { workers in
      let handlers = Handlers<Int>(workers)
      let isFree = Promise<Bool>()
      handlers.add { _ in }
      handlers.add { _ in _ = isFree.wait(until: .max) }
      handlers.call(1)
      #expect(!handlers.finish(until: clinux_clock_ns() &+ 20_000_000))
      isFree.fulfill(true)
    }
  }

  @Test func identifiesItsThreadsWhileTheyRun() throws {
    let (began, isFree) = (Promise<Int32>(), Promise<Bool>())
    let thread = try PosixThread(name: "culprit-tests-1234") {
      began.fulfill(clinux_task_self())
      _ = isFree.wait(until: .max)
    }
    let id = try #require(began.wait(until: late))
    #expect(PosixThread.isOurs(id) && !PosixThread.isOurs(clinux_task_self()) && !thread.isCurrent)
    #expect(try String(contentsOfFile: "/proc/self/task/\(id)/comm", encoding: .utf8) == "culprit-tests-1\n")
    let status = try String(contentsOfFile: "/proc/self/task/\(id)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("SigBlk:") })
    let mask = try #require(line.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) })
    #expect(mask & 1 << (SIGTERM - 1) != 0 && mask & 1 << (SIGSEGV - 1) == 0)
    #expect(!thread.join(until: clinux_clock_ns() &+ 20_000_000))
    isFree.fulfill(true)
    #expect(thread.join(until: late) && thread.join(until: 0))
    #expect(!PosixThread.isOurs(id))
  }

  @Test func blockingCallHasItsOwnThread() async {
    let own = clinux_task_self()
    let (thread, name) = await BlockingCall.run { () -> (Int32, String?) in
      let id = clinux_task_self()
      return (id, try? String(contentsOfFile: "/proc/self/task/\(id)/comm", encoding: .utf8))
    }
    #expect(thread != own && name == "culprit-async\n")
  }

  @Test func promiseWaitsUntilFulfilled() {
    let promise = Promise<Int>()
    #expect(promise.wait(until: 0) == nil)
    let start = clinux_clock_ns()
    #expect(promise.wait(until: start &+ 5_000_000) == nil)
    #expect(clinux_clock_ns() &- start == 5_000_000)
    promise.fulfill(7)
    #expect(promise.wait(until: 0) == 7 && promise.wait(until: .max) == 7)
  }
}
