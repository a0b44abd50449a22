import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import Glibc
import TestSupport
import TestWorkloads
import Testing

/// Calls `body` with slot `index` of the process, which no other test uses. Tests of the thread-exit hook need the
/// first slots, because the hook stops at a slot with generation 0.
func withSlot<Result>(
  _ index: Int,
  ofLoop: Bool = false,
  _ body: (UnsafeMutablePointer<observer_slot>) throws -> Result
) throws -> Result {
  let slot = try #require(observer_slot_table()) + index
  try #require(observer_slot_retire(slot))
  _ = observer_slot_configure(slot, observer_limits(10, 80, 4, 20, polled: ofLoop))
  defer {
    observer_slot_end(slot)
    observer_slot_disable(slot)
  }
  return try body(slot)
}

@Suite(.usesObserver) struct SlotTests {
  @Test func beginAndEndMarkTheSlot() throws {
    try withSlot(4000) { slot in
      #expect(observer_slot_work_item(slot) == 0)
      let before = clinux_clock_coarse_ns()
      observer_slot_begin(slot)
      let item = observer_slot_work_item(slot)
      #expect(item >= before && item <= clinux_clock_ns())
      let view = observer_slot_read(slot)
      #expect(view.item == item)
      #expect(view.thread == observer_thread_current())
      #expect((view.limits.suspicion_ns, view.limits.threshold_ns) == (10, 80))
      observer_slot_end(slot)
      #expect(observer_slot_work_item(slot) == 0)
    }
  }

  /// The coarse clock is too inexact for short thresholds.
  @Test func shortThresholdsUseExactClock() throws {
    try withSlot(4008) { slot in
      let second: UInt64 = 1_000_000_000
      for _ in 0..<1000 {
        let before = clinux_clock_ns()
        observer_slot_begin(slot)
        let item = observer_slot_work_item(slot)
        // A bit of the recorded time shows which clock was used.
        try #require(item + 1 >= before && item <= clinux_clock_ns() && observer_slot_clock_error_ns(item, 8) == 0)
        observer_slot_end(slot)
      }
      observer_slot_limit(slot, observer_limits(second, 4 * second, second, second, polled: true))
      observer_slot_begin(slot)
      #expect(observer_slot_clock_error_ns(observer_slot_work_item(slot), 8) == 8)
      observer_slot_end(slot)
      observer_slot_limit(slot, observer_limits(1, 10_000_000, 1, 1, polled: true))
      observer_slot_begin(slot)
      #expect(observer_slot_clock_error_ns(observer_slot_work_item(slot), 8) == 0)
      observer_slot_end(slot)
      observer_slot_limit(slot, observer_limits(second, 4 * second, second, second, polled: true))
      observer_slot_begin_exact(slot)
      #expect(observer_slot_clock_error_ns(observer_slot_work_item(slot), 8) == 0)
      observer_slot_begin_for(slot, nil, 4711)
      #expect(observer_slot_clock_error_ns(observer_slot_work_item(slot), 8) == 0)
      observer_slot_begin_since(slot, 4711, 0)
      #expect(observer_slot_clock_error_ns(observer_slot_work_item(slot), 8) == 0)
    }
  }

  @Test func deferredWorkIsNoStall() throws {
    try withSlot(4009) { slot in
      observer_slot_limit(slot, observer_limits(1, 1000, 2, 3))
      observer_slot_begin(slot)
      observer_slot_defer(slot, true)
      let view = observer_slot_read(slot)
      #expect(view.item != 0 && view.limits.threshold_ns == .max)
      #expect(view.limits.suspicion_ns == 1 && view.limits.early_interval_ns == 2 && view.limits.interval_ns == 3)
      observer_slot_defer(slot, false)
      #expect(observer_slot_read(slot).limits.threshold_ns == 1000)
      observer_slot_defer(slot, true)
      observer_slot_end(slot)
      #expect(observer_slot_retire(slot))
      _ = observer_slot_configure(slot, observer_limits(1, 1000, 2, 3))
      observer_slot_begin(slot)
      #expect(observer_slot_read(slot).limits.threshold_ns == 1000)
      observer_slot_end(slot)
    }
  }

  @Test func ignoresEndWithoutBegin() throws {
    try withSlot(4001) { slot in
      observer_slot_end(slot)
      observer_slot_end_timed(slot)
      #expect(observer_slot_work_item(slot) == 0)
    }
  }

  /// Without the exit hook, a loop whose thread exits without `end` would be stuck forever.
  @Test func threadExitEndsTurn() throws {
    try withSlot(0, ofLoop: true) { slot in
      workload_on_thread({ slot in observer_slot_begin(slot?.assumingMemoryBound(to: observer_slot.self)) }, slot)
      #expect(observer_slot_work_item(slot) == 0)
      let thread = try #require(observer_slot_read(slot).thread)
      #expect(observer_thread_id(thread) == 0 || thread == observer_thread_current())
    }
  }

  /// Work other than a turn can end on another thread. The slot forgets an exited thread, whose entry can be reused.
  @Test func otherWorkOutlivesItsThread() throws {
    try withSlot(0) { slot in
      workload_on_thread({ slot in observer_slot_begin_exact(slot?.assumingMemoryBound(to: observer_slot.self)) }, slot)
      let item = observer_slot_work_item(slot)
      #expect(item != 0)
      #expect(observer_slot_read(slot).thread == nil)
      let own = observer_thread_current()
      observer_slot_begin_for(slot, own, item)
      workload_on_thread({ _ in _ = observer_thread_current() }, nil)
      #expect(observer_slot_work_item(slot) == item && observer_slot_read(slot).thread == own)
    }
  }

  @Test func exitedThreadCannotBeHeld() throws {
    try withSlot(1, ofLoop: true) { slot in
      workload_on_thread({ slot in observer_slot_begin(slot?.assumingMemoryBound(to: observer_slot.self)) }, slot)
      let thread = try #require(observer_slot_read(slot).thread)
      // Tests that use the observer run one at a time, so the entry is still free.
      try #require(observer_thread_id(thread) == 0)
      #expect(!observer_thread_hold(thread))
    }
  }

  @Test func requestedEndTimeBelongsToItsOwner() throws {
    try withSlot(4007) { slot in
      observer_slot_begin(slot)
      let item = observer_slot_work_item(slot)
      #expect(observer_slot_want_end_time(slot, item))
      observer_slot_end(slot)
      #expect(observer_slot_retire(slot))
      let former = observer_slot_read(slot).generation
      let present = observer_slot_configure(slot, observer_limits(10, 80, 4, 20))
      #expect(observer_slot_ended_ns(slot, item, present) == 0)
      // The monitor can still read the end time of the former work item.
      #expect(observer_slot_ended_ns(slot, item, former) != 0)
    }
  }

  @Test func heldThreadCanExit() throws {
    try withSlot(0, ofLoop: true) { slot in
      workload_on_thread(
        { slot in
          let slot = slot?.assumingMemoryBound(to: observer_slot.self)
          observer_slot_begin(slot)
          _ = observer_thread_current().map { observer_thread_hold($0) }
        },
        slot
      )
      // The call above waits for the thread's end.
      let held = try #require(observer_slot_read(slot).thread)
      #expect(observer_thread_id(held) == 0)
      #expect(!observer_thread_hold(held))
      let use = observer_thread_use(held)
      for _ in 0..<50 { workload_on_thread({ _ in _ = observer_thread_current() }, nil) }
      #expect(observer_thread_use(held) == use)
      observer_thread_let_go(held)
      for _ in 0..<50 where observer_thread_use(held) == use {
        workload_on_thread({ _ in _ = observer_thread_current() }, nil)
      }
      #expect(observer_thread_use(held) == use &+ 1)
    }
  }

  /// A thread that exits by the bare system call runs no exit hook, so its entry stays marked as used.
  @Test func detectsThreadThatBypassedExitHook() throws {
    try withSlot(0, ofLoop: true) { slot in
      workload_on_bare_thread({ slot in observer_slot_begin(slot?.assumingMemoryBound(to: observer_slot.self)) }, slot)
      let thread = try #require(observer_slot_read(slot).thread)
      let id = observer_thread_id(thread)
      try #require(id != 0)
      // The kernel wakes the waiter before it removes the thread.
      while access("/proc/self/task/\(id)", F_OK) == 0 { usleep(1000) }
      #expect(!observer_thread_remains(thread))
      let own = try #require(observer_thread_current())
      #expect(observer_thread_remains(own))
    }
  }

  @Test func reusesThreadEntries() throws {
    try withSlot(0, ofLoop: true) { slot in
      var entries: Set<UnsafeMutablePointer<observer_thread>> = []
      for _ in 0..<200 {
        workload_on_thread({ slot in observer_slot_begin(slot?.assumingMemoryBound(to: observer_slot.self)) }, slot)
        if let thread = observer_slot_read(slot).thread { entries.insert(thread) }
      }
      #expect(!entries.isEmpty && entries.count < 20)
    }
  }
}

@Suite struct RingTests {
  private func event(_ number: UInt64) -> observer_event {
    var event = observer_event()
    event.kind = OBSERVER_EVENT_SAMPLE.rawValue
    event.item = number
    return event
  }

  private func frames(_ count: Int, _ seed: UInt64) -> [unwind_frame] {
    (0..<count)
      .map {
        unwind_frame(address: seed &* 1000 &+ UInt64($0), kind: UInt32($0 & 1), offset: UNWIND_NO_OFFSET)
      }
  }

  /// Events of many lengths reach the end of the buffer at many offsets.
  @Test func readsWholeEventsInOrder() throws {
    let ring = try #require(observer_ring_create(64 << 10))
    defer { observer_ring_destroy(ring) }
    var (written, read) = (UInt64(0), UInt64(0))
    while read < 20_000 {
      for _ in 0..<7 {
        var next = event(written)
        let content = frames(Int(written % 200), written)
        if !observer_ring_write(ring, &next, content, UInt32(content.count)) { break }
        written += 1
      }
      for _ in 0..<5 {
        guard let found = observer_ring_read(ring) else { break }
        #expect(found.pointee.item == read)
        let expected = frames(Int(read % 200), read)
        #expect(found.pointee.count == UInt32(expected.count))
        let content = UnsafeBufferPointer(start: observer_event_frames(found), count: expected.count)
        #expect(zip(content, expected).allSatisfy { $0.address == $1.address && $0.kind == $1.kind })
        observer_ring_consume(ring)
        read += 1
      }
    }
  }

  @Test func fullRingRefusesWrites() throws {
    let ring = try #require(observer_ring_create(64 << 10))
    defer { observer_ring_destroy(ring) }
    let content = frames(100, 1)
    var count: UInt64 = 0
    while true {
      var next = event(count)
      guard observer_ring_write(ring, &next, content, 100) else { break }
      count += 1
    }
    let bytes = MemoryLayout<observer_event>.stride + 100 * MemoryLayout<unwind_frame>.stride
    #expect(count >= UInt64((64 << 10) * 9 / 10 / bytes) && count <= UInt64((64 << 10) / bytes))
    for number in 0..<count {
      #expect(observer_ring_read(ring)?.pointee.item == number)
      observer_ring_consume(ring)
    }
    #expect(observer_ring_read(ring) == nil)
    var next = event(7)
    #expect(observer_ring_write(ring, &next, content, 100))
  }

  @Test func rejectsInvalidSizes() {
    #expect(observer_ring_create(1 << 12) == nil)
    #expect(observer_ring_create((64 << 10) + 8) == nil)
  }

  @Test func supportsConcurrentWriterAndReader() throws {
    let ring = try #require(observer_ring_create(64 << 10))
    defer { observer_ring_destroy(ring) }
    let writer = workload_thread_start(
      { ring, stop in
        var number: UInt64 = 0
        while number < 50_000, stop?.pointee == 0 {
          var next = observer_event()
          next.kind = OBSERVER_EVENT_SAMPLE.rawValue
          next.item = number
          if observer_ring_write(OpaquePointer(ring), &next, nil, 0) { number += 1 }
        }
      },
      UnsafeMutableRawPointer(ring)
    )
    var expected: UInt64 = 0
    while expected < 50_000 {
      let seen = observer_ring_published(ring)
      guard let found = observer_ring_read(ring) else {
        observer_ring_wait(ring, seen)
        continue
      }
      if found.pointee.item != expected { break }
      observer_ring_consume(ring)
      expected += 1
    }
    workload_thread_stop(writer)
    #expect(expected == 50_000)
  }
}

extension observer_limits {
  init(_ suspicion: UInt64, _ threshold: UInt64, _ early: UInt64, _ interval: UInt64, polled: Bool = false) {
    self.init(
      suspicion_ns: suspicion,
      threshold_ns: threshold,
      early_interval_ns: early,
      interval_ns: interval,
      polled: polled
    )
  }
}
