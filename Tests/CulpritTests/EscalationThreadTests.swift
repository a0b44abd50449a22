import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Culprit

/// Tells sockets from each other.
private let nextName = Atomic<Int>(0)

/// An escalation thread that is none: a test says what time it is, and reads what systemd would.
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
  /// Whether the monitor is at work.
  var ticks = true

  static let ms: UInt64 = 1_000_000

  /// One whose systemd takes the service for dead after `watchdog` milliseconds.
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
    for index in 0..<3 { _ = observer_slot_configure(slots + index, false, 1, 2, 3, 4) }
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

  deinit {
    cprocess_datagram_close(target)
    // SAFETY: allocated by the initializer, and nobody else has them; their elements are plain values.
    target.deallocate()
    slots.deallocate()
    stalls.deallocate()
  }

  /// Everything that was said and not heard yet.
  func heard() -> [String] { listener.heard() }

  /// Says so much that nothing more can be said.
  func fill() { while cprocess_datagram_send(target, "filler", 6) == 0 {} }

  /// What is said so many milliseconds later, and in how many milliseconds the next look is to be.
  func ping(after milliseconds: UInt64 = 0) -> (wait: UInt64, heard: [String]) {
    now += milliseconds * Self.ms
    if ticks { _ = observer_control_begin_tick(control.pointer) }
    let next = thread.ping(systemd, now)
    return ((next &- now) / Self.ms, heard().filter { $0 != "filler" })
  }

  func tell() -> UInt64 { thread.tell(systemd, now) }
  func followShutdown() -> UInt64 { thread.followShutdown(now) }
  func terminateIfDue() -> UInt64 { thread.terminateIfDue(now) }
  func veto(_ item: UInt64, _ index: Int) { thread.vetoed[index] = item }

  var lastRequest: UInt32 { thread.lastRequest }

  /// The request that the blocking worker has been sent; `nil` when none is.
  func request() -> EscalationRequest? {
    let number = thread.lastRequest
    return number == 0 ? nil : EscalationRequest(rawValue: number & 3)
  }

  /// Stalls slot `index`, which is called `name` and may take a second.
  func stall(_ index: Int, _ name: String, age milliseconds: UInt64, item: UInt64 = 6) {
    observer_slot_begin_for(slots + index, nil, item)
    observer_stall_set_name(stalls + index, 1, name, name.utf8.count)
    observer_stall_set(stalls + index, item, milliseconds * Self.ms, 1000 * Self.ms, 4711)
  }
}

/// A handler that vetoes every end.
private final class Veto: Sendable {
  private let isOver = Atomic<Bool>(false)

  init(_ own: EscalationBlock) throws {
    _ = cprocess_escalation_add_handler(own.pointer)
    _ = try PosixThread(name: "veto") { [self] in
      while !isOver.load(ordering: .relaxed) {
        let question = cprocess_escalation_question(own.pointer)
        if question != 0 { cprocess_escalation_answer(own.pointer, question, true) }
        usleep(1000)
      }
    }
  }

  func end() { isOver.store(true, ordering: .relaxed) }
}

/// What is done about stalls that do not end, by simulated time.
@Suite struct EscalationThreadTests {
  @Test func pingsComeTwiceInSystemdsPatience() throws {
    let escalated = try Escalated()
    #expect(escalated.ping() == (5000, ["WATCHDOG=1"]))
    #expect(escalated.ping(after: 4999) == (1, []))
    #expect(escalated.ping(after: 1) == (5000, ["WATCHDOG=1"]))
    #expect(cprocess_escalation_pings(escalated.own.pointer, true) == 2)
    #expect(cprocess_escalation_pings(escalated.own.pointer, false) == 0)
  }

  /// A ping that could not be sent is sent again soon.
  @Test(arguments: [(UInt64(10_000), UInt64(100)), (400, 50)])
  func aPingThatIsNotSentIsSentAgain(watchdog: UInt64, wait: UInt64) throws {
    let escalated = try Escalated(watchdog: watchdog)
    escalated.fill()
    #expect(escalated.ping().wait == wait)
    #expect(cprocess_escalation_send_error(escalated.own.pointer) == EAGAIN)
    #expect(cprocess_escalation_pings(escalated.own.pointer, true) == 0)
    #expect(escalated.ping(after: wait).heard == ["WATCHDOG=1"])
    #expect(cprocess_escalation_send_error(escalated.own.pointer) == 0)
  }

  /// A stall is no hang before its delay has passed; then the pings stop, systemd gets the name, and the last report is
  /// asked for while there is time.
  @Test func aHangStopsThePings() throws {
    let escalated = try Escalated()
    _ = escalated.ping()
    escalated.stall(1, "http", age: 2000)
    observer_stall_set(escalated.stalls + 1, 7, 2000 * Escalated.ms - 1, 1000 * Escalated.ms, 4711)
    #expect(escalated.ping(after: 5000) == (5000, ["WATCHDOG=1"]))
    escalated.stall(1, "http", age: 2000)
    // Two seconds before systemd's patience ends.
    #expect(escalated.ping(after: 5000) == (250, ["STATUS=\"http\" has been stuck for 2.0 s"]))
    #expect(cprocess_escalation_pings(escalated.own.pointer, false) == 1 && escalated.request() == nil)
    #expect(escalated.ping(after: 2900) == (100, []) && escalated.request() == nil)
    #expect(escalated.ping(after: 100) == (250, []) && escalated.request() == .lastReport)
    let request = cprocess_escalation_next_request(escalated.own.pointer, 0)
    #expect(escalated.ping(after: 250) == (250, []))
    #expect(cprocess_escalation_next_request(escalated.own.pointer, 0) == request, "once")
    #expect(cprocess_escalation_pings(escalated.own.pointer, false) == 1)
    observer_stall_clear(escalated.stalls + 1)
    #expect(escalated.ping(after: 10) == (5000, ["STATUS=", "WATCHDOG=1"]))
    // The next hang has a report of its own.
    escalated.stall(1, "http", age: 2000, item: 8)
    #expect(escalated.ping(after: 8000).heard.count == 1)
    #expect(cprocess_escalation_next_request(escalated.own.pointer, request) != request)
    #expect(cprocess_escalation_pings(escalated.own.pointer, false) == 2)
  }

  /// Where systemd is impatient, a quarter of its patience is left for the report.
  @Test func aShortPatienceLeavesAQuarter() throws {
    let escalated = try Escalated(watchdog: 1000)
    _ = escalated.ping()
    escalated.stall(0, "http", age: 2000)
    #expect(escalated.ping(after: 500).wait == 250 && escalated.request() == nil)
    #expect(escalated.ping(after: 249).wait == 1 && escalated.request() == nil)
    _ = escalated.ping(after: 1)
    #expect(escalated.request() == .lastReport)
  }

  @Test func theLongestHangIsNamed() throws {
    let escalated = try Escalated()
    escalated.stall(0, "young", age: 3000)
    escalated.stall(1, "old\n", age: 5050)
    escalated.stall(2, "stalled", age: 1999)
    #expect(escalated.ping().heard == ["STATUS=\"old?\" has been stuck for 5.1 s"])
    // A slot that is not in use any more counts for nothing; nor does a delay that overflows.
    let fewer = try Escalated()
    fewer.stall(2, "unused", age: 5000)
    observer_control_use_slots(fewer.control.pointer, 2)
    #expect(fewer.ping().heard == ["WATCHDOG=1"])
    let never = try Escalated()
    never.stall(2, "never", age: 5000)
    observer_control_set_hang_delay_ns(never.control.pointer, .max)
    #expect(never.ping().heard == ["WATCHDOG=1"])
  }

  /// Who keeps the time is watched, too.
  @Test func aMonitorThatStandsStillStopsThePings() throws {
    let escalated = try Escalated(watchdog: 2000)
    #expect(escalated.ping().heard == ["WATCHDOG=1"])
    escalated.ticks = false
    #expect(escalated.ping(after: 1000).heard == ["WATCHDOG=1"])
    #expect(escalated.ping(after: 999).heard == [])
    #expect(escalated.ping(after: 1).heard == ["STATUS=Culprit's monitor does not run"])
    escalated.ticks = true
    #expect(escalated.ping(after: 10).heard == ["STATUS=", "WATCHDOG=1"])
  }

  @Test func whatIsToBeSaidIsSaidOnce() throws {
    let escalated = try Escalated()
    let own = escalated.own.pointer
    #expect(escalated.tell() == .max && escalated.heard() == [])
    cprocess_escalation_add_notices(own, CPROCESS_NOTICE_READY.rawValue | CPROCESS_NOTICE_STOPPING.rawValue)
    cprocess_text_put(cprocess_escalation_status(own), 0, "STATUS=fine", 11)
    escalated.fill()
    #expect(escalated.tell() == escalated.now + 100 * Escalated.ms)
    #expect(escalated.heard().allSatisfy { $0 == "filler" })
    #expect(escalated.tell() == .max && escalated.heard() == ["READY=1", "STOPPING=1", "STATUS=fine"])
    #expect(escalated.tell() == .max && escalated.heard() == [])
  }

  /// The shutdown begins once, ends the launch, and is as old as was said.
  @Test func theShutdownBeginsOnce() throws {
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

  /// When the next look is to be, where a stall may end the process: when the youngest that can is old enough, but not
  /// all the time.
  @Test func theEndIsLookedForInTime() throws {
    let escalated = try Escalated()
    #expect(escalated.terminateIfDue() == .max)
    cprocess_escalation_set_terminate_after_ns(escalated.own.pointer, 8000 * Escalated.ms)
    // What was used is noted 32 times meanwhile.
    #expect(escalated.terminateIfDue() == escalated.now + 250 * Escalated.ms)
    escalated.stall(1, "http", age: 7900)
    #expect(escalated.terminateIfDue() == escalated.now + 100 * Escalated.ms)
    escalated.stall(2, "store", age: 7999)
    #expect(escalated.terminateIfDue() == escalated.now + 10 * Escalated.ms)
    // One that was vetoed does not count any more, however old it is; another work item of the slot does.
    escalated.veto(6, 2)
    escalated.stall(2, "store", age: 9000)
    #expect(escalated.terminateIfDue() == escalated.now + 100 * Escalated.ms)
    // Nor does one that has ended, which the monitor tells at its next tick only.
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

  /// Requests have numbers that differ, and say which they are.
  @Test func requestsAreToldApart() throws {
    let escalated = try Escalated()
    cprocess_escalation_set_terminate_after_ns(escalated.own.pointer, 8000 * Escalated.ms)
    // The watchdog is being stopped: it asks for the last words, and leaves it at that.
    cprocess_escalation_stop(escalated.own.pointer)
    escalated.stall(1, "http", age: 8000)
    #expect(escalated.terminateIfDue() == 0 && escalated.request() == .lastWords)
    let termination = escalated.own.pointer.pointee.termination
    #expect(termination.slot == 1 && termination.item == 6 && termination.tid == 4711)
    #expect(termination.limit_ns == 8000 * Escalated.ms)
  }

  /// While the worker is waited for systemd is told that all is well, and who does not want the end any more is heard; who
  /// wants it again, too.
  @Test func theWaitForTheWorkerHoldsNothingUp() throws {
    let escalated = try Escalated()
    let own = escalated.own
    observer_control_set_hang_delay_ns(escalated.control.pointer, .max)
    _ = observer_control_begin_tick(escalated.control.pointer)
    cprocess_escalation_begin_shutdown(own.pointer, escalated.now)
    // Were the change to come too late, this would keep the process.
    let veto = try Veto(own)
    defer { veto.end() }
    var last: UInt32 = 0
    for limit in [8001 * Escalated.ms, 0] {
      escalated.stall(2, "http", age: 8000, item: limit == 0 ? 8 : 6)
      cprocess_escalation_set_terminate_after_ns(own.pointer, 8000 * Escalated.ms)
      let before = last
      let change = try PosixThread(name: "change") {
        _ = cprocess_escalation_next_request(own.pointer, before)
        for _ in 0..<1000 where cprocess_escalation_pings(own.pointer, true) == 0 { usleep(1000) }
        cprocess_escalation_set_terminate_after_ns(own.pointer, limit)
      }
      #expect(escalated.terminateIfDue() == 0)
      let request = escalated.lastRequest
      try #require(request != last, "asked again")
      change.join(until: .max)
      last = request
    }
    #expect(escalated.heard() == ["STOPPING=1", "WATCHDOG=1"])
  }

  /// The worker's answer counts that is about this stall, and not about the one before, which it was at still.
  @Test(arguments: [true, false]) func theCulpritIsThatOfTheStall(isItsOwn: Bool) throws {
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
    var request = cprocess_termination_request()
    _ = cprocess_escalation_read_termination(own.pointer, 0, &request)
    let reason = withUnsafeBytes(of: request.reason) { String(decoding: $0.prefix(Int(request.bytes)), as: UTF8.self) }
    #expect(reason.contains(isItsOwn ? "Culprit so far: slow()." : "Who is to blame could not be told in time."))
    #expect(reason.contains("slow") == isItsOwn, "\(reason)")
    // The veto holds for the work item.
    #expect(escalated.terminateIfDue() > 0)
  }

  /// The worker is waited for two seconds, longer while it computes, and ten at most.
  @Test(arguments: [
    // When it computes for the last time, and when it is given up, in milliseconds.
    (last: UInt64(0), end: UInt64(2000)), (1300, 2000), (1400, 2100), (2400, 3100), (9200, 9900), (9400, 10_000),
    (20_000, 10_000),
  ])
  func aWorkerThatComputesIsWaitedFor(last: UInt64, end: UInt64) {
    let begin = UInt64(1 << 50)
    var patience = WorkerPatience(since: begin)
    var now: UInt64 = 0
    while !patience.ends(begin + now * 1_000_000, used: 7 + min(now, last) * 50_000) {
      now += WorkerPatience.interval / 1_000_000
    }
    #expect(now == end)
  }

  /// One that looks again and again whether a lock is free computes nothing.
  @Test func aWorkerThatOnlyLooksIsNotWaitedForLong() {
    var patience = WorkerPatience(since: 5)
    var now: UInt64 = 0
    while !patience.ends(5 + now, used: now / 1000) { now += WorkerPatience.interval }
    #expect(now == WorkerPatience.least)
  }

  /// One that has never computed is not there.
  @Test func aWorkerThatIsNotThereIsNotWaitedForLong() {
    var patience = WorkerPatience(since: 5)
    let (early, late) = (
      patience.ends(4 + WorkerPatience.least, used: 0), patience.ends(5 + WorkerPatience.least, used: 0)
    )
    #expect(!early && late)
  }
}
