import CCulpritLinux
import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

/// Threads that call handlers, without a watchdog.
@Suite(.serialized, .usesSimulatedClock) struct HandlerThreadTests {
  /// A deadline that is not reached.
  private var late: UInt64 { clinux_clock_ns() &+ 60_000_000_000 }

  /// Collects calls.
  private final class Calls: Sendable {
    private let list = Mutex<[Int]>([])
    var all: [Int] { list.withLock { $0 } }
    func add(_ call: Int) { list.withLock { $0.append(call) } }
  }

  @Test func callsInOrderAndWaitsForTheLast() {
    let thread = HandlerThread()
    let calls = Calls()
    for call in 0..<50 { #expect(thread.put { calls.add(call) }) }
    thread.stop()
    #expect(thread.join(until: late))
    #expect(calls.all == Array(0..<50))
    #expect(thread.dropped == 0)
  }

  @Test func unstartedThreadHasEnded() {
    let thread = HandlerThread()
    #expect(thread.join(until: 0))
    thread.stop()
    #expect(thread.join(until: 0))
  }

  @Test func joinWaitsForWork() {
    let thread = HandlerThread()
    let isFree = Promise<Bool>()
    #expect(thread.start() && thread.start())
    thread.put { _ = isFree.wait(until: .max) }
    thread.stop()
    #expect(!thread.join(until: clinux_clock_ns() &+ 20_000_000))
    isFree.fulfill(true)
    #expect(thread.join(until: late))
  }

  @Test func joinReturnsInItsOwnHandler() {
    let thread = HandlerThread()
    let joined = Promise<Bool>()
    thread.put { joined.fulfill(thread.join(until: .max)) }
    #expect(joined.wait(until: late) == true)
    thread.stop()
  }

  /// 64 calls wait beside the one under way, and 64 more that are vital.
  @Test func dropsCallsBeyondTheLimit() {
    let thread = HandlerThread()
    let (isCalled, isFree) = (Promise<Bool>(), Promise<Bool>())
    let calls = Calls()
    thread.put {
      isCalled.fulfill(true)
      _ = isFree.wait(until: .max)
    }
    _ = isCalled.wait(until: late)
    for call in 0..<64 { thread.put { calls.add(call) } }
    #expect(thread.dropped == 0)
    for call in 64..<67 { thread.put { calls.add(call) } }
    #expect(thread.dropped == 3)
    for call in 100..<165 { thread.put(isVital: true) { calls.add(call) } }
    #expect(thread.dropped == 4)
    isFree.fulfill(true)
    thread.stop()
    #expect(thread.join(until: late))
    #expect(calls.all == Array(0..<64) + Array(100..<164) && thread.dropped == 4)
  }

  @Test func eachHandlerHasItsOwnThread() {
    let handlers = Handlers<Int>()
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
    #expect(threads.withLock { $0.count == 2 && !$0.contains(clinux_task_self()) })
    #expect(handlers.isEmpty && !handlers.call(4) && handlers.finish(until: 0))
    #expect(first.all == [2, 3])
  }

  @Test func removedHandlersGetEarlierCalls() {
    let handlers = Handlers<Int>()
    let (kept, removed) = (Calls(), Calls())
    let isFree = Promise<Bool>()
    handlers.add { kept.add($0) }
    let thread = handlers.add { call in
      _ = isFree.wait(until: .max)
      removed.add(call)
    }
    handlers.call(1)
    handlers.call(2)
    handlers.remove(thread)
    handlers.remove(thread)
    handlers.call(3)
    isFree.fulfill(true)
    #expect(thread.join(until: late) && removed.all == [1, 2])
    #expect(handlers.finish(until: late) && kept.all == [1, 2, 3])
  }

  @Test func addsDroppedCallsOfAllHandlers() {
    let handlers = Handlers<Int>()
    let isFree = Promise<Bool>()
    let started = (0..<2).map { _ in Promise<Bool>() }
    let threads = started.map { isCalled in
      handlers.add { _ in
        isCalled.fulfill(true)
        _ = isFree.wait(until: .max)
      }
    }
    handlers.call(0)
    for isCalled in started { _ = isCalled.wait(until: late) }
    for call in 1...66 { handlers.call(call) }
    #expect(threads.map(\.dropped) == [2, 2] && handlers.dropped == 4)
    handlers.remove(threads[0])
    #expect(handlers.dropped == 4)
    handlers.remove(threads[1])
    #expect(handlers.dropped == 4)
    isFree.fulfill(true)
    for thread in threads { #expect(thread.join(until: late)) }
    let third = handlers.add { _ in }
    #expect(handlers.finish(until: late) && handlers.dropped == 4 && third.dropped == 0)
  }

  @Test func reporterAddsDroppedCallsOfAllKinds() throws {
    let settings = ReportSettings(Watchdog.Configuration())
    let limits = ReportLimiter(perMinute: 60, perCulprit: 5)
    let reporter = Reporter(settings, limits: limits, servers: nil, problems: ProblemList())
    let isFree = Promise<Bool>()
    func drop<Subject>(_ count: Int, of handlers: Handlers<Subject>, _ subject: Subject) {
      let isCalled = Promise<Bool>()
      handlers.add { _ in
        isCalled.fulfill(true)
        _ = isFree.wait(until: .max)
      }
      handlers.call(subject)
      _ = isCalled.wait(until: late)
      for _ in 0..<64 + count { handlers.call(subject) }
    }
    let stall = Stall(
      id: 1,
      source: WatchedSource(kind: .loop, name: "main"),
      thread: ObservedThread(id: 1, name: "main"),
      threshold: .seconds(1),
      began: WallTime(nanosecondsSince1970: 0)
    )
    let event = StallEvent(stall, of: nil, isHang: false) { nil }
    let recording = Recording(process: nil, stalls: [stall])
    drop(1, of: reporter.begun, event)
    drop(2, of: reporter.hung, event)
    drop(4, of: reporter.ended, settings.report(of: stall, in: recording, settings.symbolizer(of: recording)))
    #expect(reporter.dropped == 7)
    isFree.fulfill(true)
    #expect(reporter.begun.finish(until: late) && reporter.hung.finish(until: late))
    #expect(reporter.ended.finish(until: late))
  }

  @Test func lastCallEndsWithTheLastHandler() {
    let handlers = Handlers<Int>()
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

  @Test func finishFailsWhileAHandlerRuns() {
    let handlers = Handlers<Int>()
    let isFree = Promise<Bool>()
    handlers.add { _ in }
    handlers.add { _ in _ = isFree.wait(until: .max) }
    handlers.call(1)
    #expect(!handlers.finish(until: clinux_clock_ns() &+ 20_000_000))
    isFree.fulfill(true)
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
