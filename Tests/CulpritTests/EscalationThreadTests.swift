import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Culprit

private let nextName = Atomic<Int>(0)

/// An escalation thread that the test runs step by step, with a test socket instead of systemd's.
private final class Escalated {
  let own = EscalationBlock()
  let control = ControlBlock()
  let stalls: UnsafeMutablePointer<observer_stall>
  let slots: UnsafeMutablePointer<observer_slot>
  private let target: UnsafeMutablePointer<cprocess_datagram>
  private let listener: SystemdListener
  private var thread: EscalationThread
  private let systemd: EscalationThread.Systemd
  var now: UInt64 = 1 << 50
  var ticks = true

  static let ms: UInt64 = 1_000_000

  /// `watchdog` is systemd's timeout in milliseconds.
  init(watchdog: UInt64 = 10_000) throws {
    stalls = .allocate(capacity: 3)
    stalls.initialize(repeating: observer_stall(), count: 3)
    slots = .allocate(capacity: 3)
    slots.initialize(repeating: observer_slot(), count: 3)
    target = .allocate(capacity: 1)
    target.initialize(to: cprocess_datagram())
    let number = nextName.wrappingAdd(1, ordering: .relaxed).newValue
    let name = "@culprit-test-\(getpid())-\(number)"
    listener = try SystemdListener(name)
    try #require(cprocess_datagram_open(target, name) == 0)
    for index in 0..<3 { _ = observer_slot_configure(slots + index, observer_limits(1, 2, 3, 4)) }
    observer_control_use_slots(control.pointer, 3)
    observer_control_set_hang_delay_ns(control.pointer, 1000 * Self.ms)
    systemd = EscalationThread.Systemd(target: target, watchdog: watchdog * Self.ms)
    thread = EscalationThread(
      own: own.pointer,
      control: control.pointer,
      stalls: stalls,
      slots: slots,
      systemd: systemd,
      phases: EscalationThread.PhaseSlots(launch: slots, shutdown: slots + 1, noticesTermination: false)
    )
  }

  /// The reason of the last termination.
  var reason: String {
    var request = cprocess_termination_request()
    return String(unsafeUninitializedCapacity: Int(CPROCESS_REASON_BYTES)) {
      _ = cprocess_escalation_read_termination(own.pointer, 0, &request, $0.baseAddress)
      return Int(request.reason_bytes)
    }
  }

  deinit {
    cprocess_datagram_close(target)
    // SAFETY: allocated by the initializer and owned by this object; the elements are plain values.
    target.deallocate()
    slots.deallocate()
    stalls.deallocate()
  }

  func heard() -> [String] { listener.heard() }

  func fill() { while cprocess_datagram_send(target, "filler", 6) == 0 {} }

  /// Advances the time, then pings. Returns the milliseconds to the next step, and the messages.
  func ping(after milliseconds: UInt64 = 0) -> (wait: UInt64, heard: [String]) {
    now += milliseconds * Self.ms
    if ticks { _ = observer_control_begin_tick(control.pointer) }
    let next = thread.ping(systemd, now)
    return ((next &- now) / Self.ms, heard().filter { $0 != "filler" })
  }

  func notify() -> UInt64 { thread.notify(systemd, now) }
  func followShutdown() -> UInt64 { thread.followShutdown(now) }
  func terminateIfDue() -> UInt64 { thread.terminateIfDue(now) }
  func veto(_ item: UInt64, _ index: Int) { thread.vetoed[index] = item }

  var lastRequest: UInt32 { thread.lastRequest }

  func request() -> EscalationRequest? {
    let number = thread.lastRequest
    return number == 0 ? nil : EscalationRequest(rawValue: number & 3)
  }

  /// Begins a stall in slot `index`, with a threshold of one second.
  func stall(_ index: Int, _ name: String, age milliseconds: UInt64, item: UInt64 = 6) {
    observer_slot_begin_for(slots + index, nil, item)
    observer_stall_set_name(stalls + index, 1, name, name.utf8.count)
    observer_stall_set(stalls + index, item, milliseconds * Self.ms, 1000 * Self.ms, 4711)
  }
}

private struct Veto {
  private let own: EscalationBlock

  init(_ own: EscalationBlock) throws {
    self.own = own
    _ = cprocess_escalation_add_handler(own.pointer)
    _ = try PosixThread(name: "veto") {
      while !cprocess_escalation_stopping(own.pointer) {
        let seen = cprocess_escalation_question_word(own.pointer)
        let question = cprocess_escalation_question(own.pointer)
        if question != 0 { cprocess_escalation_answer(own.pointer, question, true) }
        cprocess_escalation_wait_for_question(own.pointer, seen)
      }
    }
  }

  func end() { cprocess_escalation_stop(own.pointer) }
}

@Suite(.serialized, .usesSimulatedClock) struct EscalationThreadTests {
  @Test func pingsTwicePerTimeout() throws {
    let escalated = try Escalated()
    #expect(escalated.ping() == (5000, ["WATCHDOG=1"]))
    #expect(escalated.ping(after: 4999) == (1, []))
    #expect(escalated.ping(after: 1) == (5000, ["WATCHDOG=1"]))
    #expect(cprocess_escalation_pings(escalated.own.pointer, true) == 2)
    #expect(cprocess_escalation_pings(escalated.own.pointer, false) == 0)
  }

  @Test(arguments: [(UInt64(10_000), UInt64(100)), (400, 50)])
  func retriesFailedPings(watchdog: UInt64, wait: UInt64) throws {
    let escalated = try Escalated(watchdog: watchdog)
    escalated.fill()
    #expect(escalated.ping().wait == wait)
    #expect(cprocess_escalation_send_error(escalated.own.pointer) == EAGAIN)
    #expect(cprocess_escalation_pings(escalated.own.pointer, true) == 0)
    #expect(escalated.ping(after: wait).heard == ["WATCHDOG=1"])
    #expect(cprocess_escalation_send_error(escalated.own.pointer) == 0)
  }

  @Test func hangStopsPings() throws {
    let escalated = try Escalated()
    _ = escalated.ping()
    escalated.stall(1, "http", age: 2000)
    observer_stall_set(escalated.stalls + 1, 7, 2000 * Escalated.ms - 1, 1000 * Escalated.ms, 4711)
    #expect(escalated.ping(after: 5000) == (5000, ["WATCHDOG=1"]))
    escalated.stall(1, "http", age: 2000)
    #expect(escalated.ping(after: 5000) == (250, ["STATUS=\"http\" has been stuck for 2.0 s"]))
    #expect(cprocess_escalation_pings(escalated.own.pointer, false) == 1 && escalated.request() == nil)
    #expect(escalated.ping(after: 2900) == (100, []) && escalated.request() == nil)
    #expect(escalated.ping(after: 100) == (250, []) && escalated.request() == .lastReport)
    let request = cprocess_escalation_next_request(escalated.own.pointer, 0)
    #expect(escalated.ping(after: 250) == (250, []))
    #expect(cprocess_escalation_next_request(escalated.own.pointer, 0) == request, "the report was requested twice")
    #expect(cprocess_escalation_pings(escalated.own.pointer, false) == 1)
    observer_stall_clear(escalated.stalls + 1)
    #expect(escalated.ping(after: 10) == (5000, ["STATUS=", "WATCHDOG=1"]))
    escalated.stall(1, "http", age: 2000, item: 8)
    #expect(escalated.ping(after: 8000).heard.count == 1)
    #expect(cprocess_escalation_next_request(escalated.own.pointer, request) != request)
    #expect(cprocess_escalation_pings(escalated.own.pointer, false) == 2)
  }

  @Test func reservesQuarterOfShortTimeoutForReport() throws {
    let escalated = try Escalated(watchdog: 1000)
    _ = escalated.ping()
    escalated.stall(0, "http", age: 2000)
    #expect(escalated.ping(after: 500).wait == 250 && escalated.request() == nil)
    #expect(escalated.ping(after: 249).wait == 1 && escalated.request() == nil)
    _ = escalated.ping(after: 1)
    #expect(escalated.request() == .lastReport)
  }

  @Test func namesLongestHang() throws {
    let escalated = try Escalated()
    escalated.stall(0, "young", age: 3000)
    escalated.stall(1, "old\n", age: 5050)
    escalated.stall(2, "stalled", age: 1999)
    #expect(escalated.ping().heard == ["STATUS=\"old?\" has been stuck for 5.1 s"])
    let fewer = try Escalated()
    fewer.stall(2, "unused", age: 5000)
    observer_control_use_slots(fewer.control.pointer, 2)
    #expect(fewer.ping().heard == ["WATCHDOG=1"])
    let never = try Escalated()
    never.stall(2, "never", age: 5000)
    observer_control_set_hang_delay_ns(never.control.pointer, .max)
    #expect(never.ping().heard == ["WATCHDOG=1"])
  }

  @Test func stuckMonitorStopsPings() throws {
    let escalated = try Escalated(watchdog: 2000)
    #expect(escalated.ping().heard == ["WATCHDOG=1"])
    escalated.ticks = false
    #expect(escalated.ping(after: 1000).heard == ["WATCHDOG=1"])
    #expect(escalated.ping(after: 999).heard == [])
    #expect(escalated.ping(after: 1).heard == ["STATUS=Culprit's monitor does not run"])
    escalated.ticks = true
    #expect(escalated.ping(after: 10).heard == ["STATUS=", "WATCHDOG=1"])
  }

  @Test func sendsNoticesOnce() throws {
    let escalated = try Escalated()
    let own = escalated.own.pointer
    #expect(escalated.notify() == .max && escalated.heard() == [])
    cprocess_escalation_add_notices(own, CPROCESS_NOTICE_READY.rawValue | CPROCESS_NOTICE_STOPPING.rawValue)
    cprocess_text_put(cprocess_escalation_status(own), 0, "STATUS=fine", 11)
    escalated.fill()
    #expect(escalated.notify() == escalated.now + 100 * Escalated.ms)
    #expect(escalated.heard().allSatisfy { $0 == "filler" })
    #expect(escalated.notify() == .max && escalated.heard() == ["READY=1", "STOPPING=1", "STATUS=fine"])
    #expect(escalated.notify() == .max && escalated.heard() == [])
  }

  @Test func shutdownBeginsOnceAndEndsLaunch() throws {
    let escalated = try Escalated()
    observer_slot_begin_for(escalated.slots, nil, 4000)
    #expect(escalated.followShutdown() == .max && observer_slot_work_item(escalated.slots + 1) == 0)
    let since = escalated.now - 300 * Escalated.ms
    cprocess_escalation_begin_shutdown(escalated.own.pointer, since)
    _ = escalated.followShutdown()
    let view = observer_slot_read(escalated.slots + 1)
    #expect(view.item == since & ~1 && view.unwatched_ns == 300 * Escalated.ms)
    #expect(observer_slot_work_item(escalated.slots) == 0)
    #expect(cprocess_escalation_notices(escalated.own.pointer) == CPROCESS_NOTICE_STOPPING.rawValue)
    var (base, thread) = (cprocess_cpu(), UInt64(0))
    #expect(cprocess_escalation_shutdown_base(escalated.own.pointer, &base, &thread) && base.taken_ns > 0 && thread > 0)
    observer_slot_end(escalated.slots + 1)
    cprocess_escalation_remove_notices(escalated.own.pointer, CPROCESS_NOTICE_STOPPING.rawValue)
    _ = escalated.followShutdown()
    #expect(
      observer_slot_work_item(escalated.slots + 1) == 0 && cprocess_escalation_notices(escalated.own.pointer) == 0
    )
  }

  @Test func schedulesTerminationChecks() throws {
    let escalated = try Escalated()
    #expect(escalated.terminateIfDue() == .max)
    cprocess_escalation_set_terminate_after_ns(escalated.own.pointer, 8000 * Escalated.ms)
    // CPU time is recorded 32 times before termination.
    #expect(escalated.terminateIfDue() == escalated.now + 250 * Escalated.ms)
    escalated.stall(1, "http", age: 7900)
    #expect(escalated.terminateIfDue() == escalated.now + 100 * Escalated.ms)
    escalated.stall(2, "store", age: 7999)
    #expect(escalated.terminateIfDue() == escalated.now + 10 * Escalated.ms)
    escalated.veto(6, 2)
    escalated.stall(2, "store", age: 9000)
    #expect(escalated.terminateIfDue() == escalated.now + 100 * Escalated.ms)
    // The work has ended before the next tick of the monitor.
    escalated.stall(1, "http", age: 9000, item: 8)
    observer_slot_end(escalated.slots + 1)
    #expect(escalated.terminateIfDue() == escalated.now + 250 * Escalated.ms)
    #expect(escalated.request() == nil)
    for (limit, interval) in [(UInt64(100), UInt64(20)), (640, 20), (672, 21), (32_000, 1000), (64_000, 1000)] {
      let other = try Escalated()
      cprocess_escalation_set_terminate_after_ns(other.own.pointer, limit * Escalated.ms)
      #expect(other.terminateIfDue() == other.now + interval * Escalated.ms, "\(limit)")
    }
  }

  @Test func requestsLastWordsWhileStopping() throws {
    let escalated = try Escalated()
    cprocess_escalation_set_terminate_after_ns(escalated.own.pointer, 8000 * Escalated.ms)
    cprocess_escalation_stop(escalated.own.pointer)
    escalated.stall(1, "http", age: 8000)
    #expect(escalated.terminateIfDue() == 0 && escalated.request() == .lastWords)
    let termination = escalated.own.pointer.pointee.termination
    #expect(termination.slot == 1 && termination.item == 6 && termination.tid == 4711)
    #expect(termination.limit_ns == 8000 * Escalated.ms)
  }

  @Test func keepsPingingWhileWaitingForWorker() throws {
    let escalated = try Escalated()
    let own = escalated.own
    observer_control_set_hang_delay_ns(escalated.control.pointer, .max)
    _ = observer_control_begin_tick(escalated.control.pointer)
    cprocess_escalation_begin_shutdown(own.pointer, escalated.now)
    // Without the veto, a failing test would end the process.
    let veto = try Veto(own)
    defer { veto.end() }
    var last: UInt32 = 0
    for limit in [8001 * Escalated.ms, 0] {
      escalated.stall(2, "http", age: 8000, item: limit == 0 ? 8 : 6)
      cprocess_escalation_set_terminate_after_ns(own.pointer, 8000 * Escalated.ms)
      let before = last
      let change = try PosixThread(name: "change") {
        _ = cprocess_escalation_next_request(own.pointer, before)
        while cprocess_escalation_pings(own.pointer, true) == 0 { clock.block(for: .milliseconds(10)) }
        cprocess_escalation_set_terminate_after_ns(own.pointer, limit)
      }
      #expect(escalated.terminateIfDue() == 0)
      let request = escalated.lastRequest
      try #require(request != last, "the change caused no new request")
      change.join(until: .max)
      last = request
    }
    #expect(escalated.heard() == ["STOPPING=1", "WATCHDOG=1"])
  }

  /// A culprit reported late, for an earlier stall, must be ignored.
  @Test(arguments: [true, false]) func acceptsCulpritOnlyForItsStall(isItsOwn: Bool) throws {
    let escalated = try Escalated()
    let own = escalated.own
    cprocess_escalation_set_terminate_after_ns(own.pointer, 8000 * Escalated.ms)
    escalated.stall(1, "http", age: 8000)
    let veto = try Veto(own)
    defer { veto.end() }
    let worker = try PosixThread(name: "worker") {
      let request = cprocess_escalation_next_request(own.pointer, 0)
      let culprit = "Culprit so far: slow()."
      cprocess_text_put(
        cprocess_escalation_culprit(own.pointer),
        isItsOwn ? request : request - 4,
        culprit,
        culprit.utf8.count
      )
      cprocess_escalation_done(own.pointer, request)
    }
    #expect(escalated.terminateIfDue() == 0)
    worker.join(until: .max)
    let reason = escalated.reason
    #expect(
      reason.contains(
        isItsOwn ? "Culprit so far: slow()." : "The culprit is unknown: the report was not finished in time."
      )
    )
    #expect(reason.contains("slow") == isItsOwn, "\(reason)")
    #expect(escalated.terminateIfDue() > 0)
  }

  @Test func reportsCulpritFromComputingWorker() throws {
    let escalated = try Escalated()
    let own = escalated.own
    cprocess_escalation_set_terminate_after_ns(own.pointer, 8000 * Escalated.ms)
    escalated.stall(1, "http", age: 8000)
    let veto = try Veto(own)
    defer { veto.end() }
    let worker = try PosixThread(name: "worker") {
      cprocess_escalation_set_worker(own.pointer)
      let request = cprocess_escalation_next_request(own.pointer, 0)
      for _ in 0..<30 {
        let end = clinux_clock_thread_cpu_ns(clinux_task_self()) + 2 * WorkerPatience.step
        while clinux_clock_thread_cpu_ns(clinux_task_self()) < end {}
        clock.block(for: .milliseconds(100))
      }
      cprocess_text_put(cprocess_escalation_culprit(own.pointer), request, "slow().", 7)
      cprocess_escalation_done(own.pointer, request)
    }
    let time = clock.measure { _ = escalated.terminateIfDue() }
    worker.join(until: .max)
    #expect(time == .seconds(3))
    let reason = escalated.reason
    #expect(reason.contains("slow()."), "\(reason)")
  }

  @Test(arguments: [
    // Milliseconds until the worker stops computing, and until the wait must end.
    (last: UInt64(0), end: UInt64(2000)), (1300, 2000), (1400, 2100), (2400, 3100), (9200, 9900), (9400, 10_000),
    (20_000, 10_000),
  ])
  func waitsForComputingWorkers(last: UInt64, end: UInt64) {
    let begin = UInt64(1 << 50)
    var patience = WorkerPatience(since: begin)
    var now: UInt64 = 0
    while !patience.ends(begin + now * 1_000_000, used: 7 + min(now, last) * 50_000) {
      now += WorkerPatience.interval / 1_000_000
    }
    #expect(now == end)
  }

  @Test func boundsWaitForIdleWorkers() {
    var patience = WorkerPatience(since: 5)
    var now: UInt64 = 0
    while !patience.ends(5 + now, used: now / 1000) { now += WorkerPatience.interval }
    #expect(now == WorkerPatience.least)
  }

  @Test func boundsWaitForMissingWorkers() {
    var patience = WorkerPatience(since: 5)
    let (early, late) = (
      patience.ends(4 + WorkerPatience.least, used: 0), patience.ends(5 + WorkerPatience.least, used: 0)
    )
    #expect(!early && late)
  }
}
