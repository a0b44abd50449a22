import CCulpritObserver
import CCulpritUnwind
import Culprit
import CulpritStallRecord
import Foundation
import Synchronization
import TestSupport
import TestWorkloads
import Testing

@Suite(.serialized, .usesObserver) struct ThreadStateTests {
  @Test func neverConfusesShortLivedThreads() throws {
    try prepareObserver()
    let count = 4
    let slots = try #require(observer_slot_table())
    for place in 0..<count { _ = observer_slot_configure(slots + place, observer_limits(10, 80, 4, 20, polled: true)) }
    defer { for place in 0..<count { observer_slot_disable(slots + place) } }
    let storm = workload_storm_start(
      Int32(count),
      { slots, place in
        guard let slots else { return 0 }
        let slot = slots.assumingMemoryBound(to: observer_slot.self) + Int(place)
        observer_slot_begin_exact(slot)
        return observer_slot_work_item(slot)
      },
      { slots, place in
        guard let slots else { return }
        observer_slot_end(slots.assumingMemoryBound(to: observer_slot.self) + Int(place))
      },
      slots
    )
    var signs: [UInt32: Int] = [:]
    var statuses: [UInt32: Int] = [:]
    var items: Set<UInt64> = []
    var round = 0
    while items.count < 100, signs[WORKLOAD_STORM_WRONG.rawValue] == nil {
      round += 1
      let place = round % count
      let view = observer_slot_read(slots + place)
      var seen = observer_thread_status()
      var copy: UnsafePointer<stack_copy>?
      // Captures mostly by signal, because short-lived threads are rarely blocked.
      let isPassive = round % 32 < count
      let status =
        isPassive
        ? observer_capture_passively(view.thread, slots + place, view.item, &seen, &copy)
        : observer_capture(view.thread, slots + place, view.item, 20_000_000, &copy)
      statuses[status.rawValue, default: 0] += 1
      guard let copy, status == OBSERVER_CAPTURED else { continue }
      // Ignores a copy that was made between two work items.
      if view.item != 0 {
        let sign = workload_storm_shows(copy.pointee.stack, copy.pointee.stack_bytes, Int32(place), view.item)
        signs[sign.rawValue, default: 0] += 1
        if sign == WORKLOAD_STORM_RIGHT { items.insert(view.item) }
      }
      observer_capture_release(copy)
    }
    workload_storm_stop(storm)
    #expect(signs[WORKLOAD_STORM_WRONG.rawValue] == nil, "\(signs) \(statuses)")
    for place in 0..<count { #expect(observer_slot_work_item(slots + place) == 0) }
  }

  @Test(.needsThreadIDs)
  func detectsReusedThreadID() throws {
    try prepareObserver()
    try withSlot(3020) { slot in
      let id = workload_leave_abruptly(
        { slot in
          observer_slot_begin(slot?.assumingMemoryBound(to: observer_slot.self))
        },
        slot
      )
      let gone = ObservedThread(slot: slot)
      #expect(gone.passively().status != OBSERVER_CAPTURED)
      #expect(gone.signalled(timeout: .milliseconds(50)).status != OBSERVER_CAPTURED)
      let other = try #require(workload_thread_with_id(id))
      defer { workload_thread_stop(other) }
      for _ in 0..<20 {
        #expect(gone.passively().status != OBSERVER_CAPTURED)
        let seen = gone.signalled(timeout: .milliseconds(50))
        #expect(seen.status != OBSERVER_CAPTURED, "\(seen.names)")
      }
    }
  }

  /// A thread in vfork(2) cannot be interrupted until its child has ended. The signal stays pending.
  @Test func samplesUninterruptibleThread() throws {
    try observing(slot: 3021, { workload_wait_for_child($0) }) { thread in
      defer { workload_end_child() }
      let seen = try thread.blocked()
      #expect(seen.threadStatus.activity == OBSERVER_IN_CALL && seen.threadStatus.call == workload_call_vfork)
      // The C library keeps the return address in a register, which the kernel reports as an argument of the call.
      #expect(seen.isComplete(showing: ["workload_wait_for_child"]), "\(seen.names) \(seen.end)")
      #expect(thread.signalled(timeout: .milliseconds(50)).status == OBSERVER_NO_ANSWER)
      #expect(!workload_child_has_ended())
      workload_end_child()
      while !workload_child_has_ended() { usleep(1000) }
      for _ in 0..<20 {
        let later = thread.signalled()
        #expect(later.isComplete(showing: ["workload_wait_for_child"]), "\(later.names) \(later.status)")
        #expect(later.names.contains("workload_spin") || later.names.first == "workload_wait_for_child")
      }
    }
  }

  @Test func samplesWaitingThreadThatBlocksSignal() throws {
    try observing(slot: 3022, { workload_wait_deaf($0) }) { thread in
      for _ in 0..<20 {
        let seen = try thread.blocked()
        #expect(seen.isComplete(showing: ["workload_wait_deaf"]), "\(seen.names) \(seen.end)")
      }
    }
  }

  @Test func reportsStateOfUnresponsiveThread() throws {
    let reports = Mutex<[StallReport]>([])
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50)))
    watchdog.onStall { report in reports.withLock { $0.append(report) } }
    let loop = try watchdog.watchLoop(named: "deaf")
    let thread = Thread {
      var deaf = sigset_t()
      sigemptyset(&deaf)
      sigaddset(&deaf, SIGPROF)
      pthread_sigmask(SIG_BLOCK, &deaf, nil)
      loop.withTurn { workload_spin(workload_now_ns() + 4_000_000_000, nil) }
      pthread_sigmask(SIG_UNBLOCK, &deaf, nil)
    }
    thread.start()
    while reports.withLock({ $0.isEmpty }) { usleep(10_000) }
    watchdog.stop()
    let found = reports.withLock { $0.first }
    let report = try #require(found)
    #expect(report.source.name == "deaf" && report.hasEnded)
    #expect(report.culprit == nil)
    #expect(!report.raw.stall.samples.isEmpty)
    for sample in report.raw.stall.samples where sample.stack == nil {
      #expect(sample.outcome == .noAnswer && sample.activity == .running)
      #expect((sample.cpuTime ?? .zero) > .zero)
    }
    #expect(report.description.contains(CaptureOutcome.noAnswer.explanation), "\(report)")
  }

  /// The handler computes or waits, on the interrupted stack or on an alternate one.
  @Test(arguments: [false, true], [false, true]) func unwindsThroughHandler(alternate: Bool, waits: Bool) throws {
    let bodies: [Workload] = [
      { workload_stay_in_handler(false, false, $0) }, { workload_stay_in_handler(false, true, $0) },
      { workload_stay_in_handler(true, false, $0) }, { workload_stay_in_handler(true, true, $0) },
    ]
    try observing(slot: 3023, bodies[(alternate ? 2 : 0) + (waits ? 1 : 0)]) { thread in
      while !workload_handler_has_begun() { sched_yield() }
      for _ in 0..<(waits ? 20 : 100) {
        let seen = waits ? try thread.blocked() : thread.signalled()
        let isComplete = seen.isComplete(showing: ["workload_stay", "workload_handler", "workload_stay_in_handler"])
        try #require(isComplete, "\(seen.names) \(seen.end) \(seen.status)")
        try checkKinds(seen)
      }
    }
  }

  /// Interrupted code and the trampoline have program counters, not return addresses, because neither made a call.
  private func checkKinds(_ seen: Sighting) throws {
    let trampoline = try #require(seen.names.firstIndex(of: "workload_handler")) + 1
    for (place, frame) in seen.frames.enumerated() {
      let isInterrupted = place == 0 || place == trampoline || place == trampoline + 1
      let expected = isInterrupted ? UNWIND_PROGRAM_COUNTER : UNWIND_RETURN_ADDRESS
      try #require(frame.kind == UInt64(expected.rawValue), "frame \(place) of \(seen.names)")
    }
  }

  /// The thread runs on before its stack is unwound. The result must show the stack at the signal.
  @Test func handlerStackIsConsistent() throws {
    try observing(slot: 3025, { workload_raise_in_turn($0) }) { thread in
      var complete = 0
      for _ in 0..<2000 {
        let seen = thread.signalled()
        try #require(seen.status == OBSERVER_CAPTURED)
        for (handler, other) in [("first", "second"), ("second", "first")]
        where seen.names.contains("workload_handle_\(handler)") {
          try #require(!seen.names.contains("workload_raise_\(other)"), "\(seen.names)")
          if seen.isComplete(showing: ["workload_handle_\(handler)", "workload_raise_\(handler)"]) { complete += 1 }
        }
      }
      #expect(complete > 200)
    }
  }
}

@Suite(.ownThread) struct StoppedProcessTests {
  @TemporaryDirectory private var directory: String

  /// A signal or the freezer of cgroup v1 or v2 stops the process. At most one tick of this time counts as stall.
  @Test(arguments: [("stopped", false), ("stopped", true), ("frozen", false), ("frozen2", true)])
  func stallExcludesTimeStopped(way: String, computes: Bool) throws {
    let manner = computes ? "computing" : "waiting"
    let process = try ChildProcess(ChildProcess.built("stalling-process"), [way, manner, directory])
    try #require(process.hasExited && process.status == 0, "\(process)")
    if way != "stopped", process.fact("possible") == "false" {
      try Test.cancel("no permission to use the freezer of this cgroup version")
    }
    let elapsed = try #require(process.fact("elapsed").flatMap { Int64($0) })
    let stopped = try #require(process.fact("stopped").flatMap { Int64($0) })
    let stall = try #require(namedStalls(in: directory).first?.stall)
    #expect(stall.hasEnded)
    // One tick plus the resolution of the coarse clock.
    let tolerance = Duration.milliseconds(250 + 20)
    #expect(stall.duration <= .nanoseconds(elapsed - stopped) + tolerance)
    #expect(stall.gap >= .nanoseconds(stopped) - tolerance)
  }
}
