import CCulpritLinux
import CCulpritObserver
import Foundation
import Synchronization
import TestSupport
import TestWorkloads
import Testing

/// Calls `body` with a slot outside all tables.
private func withOwnSlot<Result>(_ body: (UnsafeMutablePointer<observer_slot>) throws -> Result) rethrows -> Result {
  var slot = observer_slot()
  return try withUnsafeMutablePointer(to: &slot) { try body($0) }
}

private func label(_ slot: UnsafeMutablePointer<observer_slot>) -> String {
  var label = observer_label()
  observer_slot_label(slot, &label)
  return withUnsafeBytes(of: label.text) { String(decoding: $0.prefix(Int(label.bytes)), as: UTF8.self) }
}

private let longestLabel = Int(OBSERVER_LABEL_WORDS) * 8

@Suite struct SlotOwnerTests {
  init() throws { try #require(canReadMemory) }

  @Test func ownersHaveDistinctGenerations() {
    withOwnSlot { slot in
      #expect(observer_slot_read(slot).generation == 0)
      for number: UInt32 in 1...3 {
        #expect(observer_slot_configure(slot, observer_limits(1, 2, 3, 4)) == number)
        #expect(observer_slot_read(slot).generation == number)
      }
    }
  }

  @Test func setsEachLimit() {
    withOwnSlot { slot in
      _ = observer_slot_configure(slot, observer_limits(11, 12, 13, 14, polled: true))
      var view = observer_slot_read(slot)
      #expect(view.limits.polled && view.limits.suspicion_ns == 11 && view.limits.threshold_ns == 12)
      #expect(
        view.limits.early_interval_ns == 13 && view.limits.interval_ns == 14 && observer_slot_suspicion_ns(slot) == 11
      )
      observer_slot_limit(slot, observer_limits(21, 22, 23, 24))
      view = observer_slot_read(slot)
      #expect(!view.limits.polled && view.limits.suspicion_ns == 21 && view.limits.threshold_ns == 22)
      #expect(view.limits.early_interval_ns == 23 && view.limits.interval_ns == 24 && view.generation == 1)
      observer_slot_disable(slot)
      view = observer_slot_read(slot)
      #expect(!view.limits.polled && [view.limits.suspicion_ns, view.limits.threshold_ns].allSatisfy { $0 == .max })
      #expect(
        [view.limits.early_interval_ns, view.limits.interval_ns].allSatisfy { $0 == .max } && view.generation == 1
      )
    }
  }

  @Test func usesExactClockBelowBound() {
    let bound = 125 * clinux_clock_coarse_error_ns()
    #expect(observer_slot_needs_exact(bound - 1) && !observer_slot_needs_exact(bound))
    for (threshold, isExact) in [(bound - 1, true), (bound, false)] {
      withOwnSlot { slot in
        _ = observer_slot_configure(slot, observer_limits(1, threshold, 1, 1))
        observer_slot_begin(slot)
        #expect(observer_slot_clock_error_ns(observer_slot_work_item(slot), 8) == (isExact ? 0 : 8))
      }
    }
  }

  @Test func nextOwnerStartsClean() {
    withOwnSlot { slot in
      let former = observer_slot_configure(slot, observer_limits(1, 2, 3, 4))
      observer_slot_set_addresses(slot, 4711, 4712)
      observer_slot_begin_since(slot, 1000, 77)
      #expect(observer_slot_want_end_time(slot, 1000))
      observer_slot_exempt(slot, former)
      observer_slot_exempt(slot, former)
      observer_slot_set_label(slot, former, "former", 6)
      let before = observer_slot_read(slot)
      #expect(before.owner.tid_address == 4711 && before.queue_head_address == 4712)
      #expect(before.unwatched_ns == 77 && before.exempt_ns < 0 && before.thread == nil && before.item == 1000)
      #expect(label(slot) == "former")

      #expect(observer_slot_retire(slot))
      #expect(observer_slot_read(slot).exempt_ns >= 0 && label(slot) == "")
      observer_slot_exempt(slot, former)
      observer_slot_set_label(slot, former, "late", 4)
      #expect(observer_slot_read(slot).exempt_ns >= 0 && label(slot) == "")

      let present = observer_slot_configure(slot, observer_limits(1, 2, 3, 4))
      let after = observer_slot_read(slot)
      #expect(after.owner.tid_address == 0 && after.queue_head_address == 0 && after.unwatched_ns == 0)
      #expect(after.exempt_ns == 0 && label(slot) == "" && !observer_slot_end_time_was_wanted(slot))
      observer_slot_end(slot)
      #expect(observer_slot_ended_ns(slot, 1000, present) == 0 && observer_slot_ended_ns(slot, 1000, former) == 0)
      observer_slot_exempt(slot, former)
      #expect(observer_slot_read(slot).exempt_ns >= 0)
      observer_slot_exempt(slot, present)
      observer_slot_exempt_no_more(slot, former)
      #expect(observer_slot_read(slot).exempt_ns < 0)
      observer_slot_exempt_no_more(slot, present)
      #expect(observer_slot_read(slot).exempt_ns >= 0)
    }
  }

  @Test func exemptTimeBelongsToItsOwner() {
    withOwnSlot { slot in
      final class Shared: @unchecked Sendable {
        // SAFETY: the slot's fields are atomic, and the slot outlives the threads.
        let slot: UnsafeMutablePointer<observer_slot>
        let generation = Atomic<UInt32>(0)
        let isOver = Atomic<Bool>(false)
        let ended = Atomic<Int>(0)
        init(_ slot: UnsafeMutablePointer<observer_slot>) { self.slot = slot }
      }
      let shared = Shared(slot)
      let began = clinux_clock_ns()
      shared.generation.store(observer_slot_configure(slot, observer_limits(1, 2, 3, 4)), ordering: .releasing)
      for _ in 0..<4 {
        Thread.detachNewThread {
          while !shared.isOver.load(ordering: .acquiring) {
            let generation = shared.generation.load(ordering: .acquiring)
            observer_slot_exempt(shared.slot, generation)
            observer_slot_exempt_no_more(shared.slot, generation)
          }
          shared.ended.add(1, ordering: .releasing)
        }
      }
      for _ in 0..<20_000 where observer_slot_retire(slot) {
        shared.generation.store(observer_slot_configure(slot, observer_limits(1, 2, 3, 4)), ordering: .releasing)
      }
      shared.isOver.store(true, ordering: .releasing)
      while shared.ended.load(ordering: .acquiring) < 4 { usleep(1000) }
      let sum = observer_slot_read(slot).exempt_ns
      // Each thread can be delayed between the clock and its scope. Counting a former owner's scope would add about the
      // uptime.
      let longest = 5 * Int64(clinux_clock_ns() - began)
      #expect(sum >= 0 && sum <= longest, "\(sum) of \(longest)")
      #expect(observer_slot_retire(slot))
    }
  }

  @Test func beginRecordsThread() {
    withOwnSlot { slot in
      _ = observer_slot_configure(slot, observer_limits(1, 2, 3, 4))
      let own = observer_thread_current()
      observer_slot_begin(slot)
      #expect(observer_slot_read(slot).thread == own)
      observer_slot_begin_for(slot, nil, 101)
      #expect(observer_slot_read(slot).thread == nil && observer_slot_work_item(slot) == 100)
      let before = clinux_clock_ns()
      observer_slot_begin_exact(slot)
      #expect(observer_slot_read(slot).thread == own)
      #expect((before - 1...clinux_clock_ns()).contains(observer_slot_work_item(slot)))
      observer_slot_begin_since(slot, 201, 5)
      #expect(observer_slot_read(slot).thread == nil && observer_slot_work_item(slot) == 200)
    }
  }

  @Test func recordsEndTimeOnRequest() {
    withOwnSlot { slot in
      let owner = observer_slot_configure(slot, observer_limits(1, 2, 3, 4))
      observer_slot_begin_for(slot, nil, 100)
      #expect(!observer_slot_end_time_was_wanted(slot) && !observer_slot_want_end_time(slot, 98))
      observer_slot_end(slot)
      #expect(observer_slot_ended_ns(slot, 100, owner) == 0 && !observer_slot_want_end_time(slot, 100))

      observer_slot_begin_for(slot, nil, 102)
      #expect(observer_slot_want_end_time(slot, 102) && observer_slot_end_time_was_wanted(slot))
      let before = clinux_clock_ns()
      observer_slot_end(slot)
      let ended = observer_slot_ended_ns(slot, 102, owner)
      #expect(observer_slot_end_time_was_wanted(slot))
      #expect((before...clinux_clock_ns()).contains(ended))
      #expect(observer_slot_ended_ns(slot, 100, owner) == 0 && observer_slot_ended_ns(slot, 102, owner &+ 1) == 0)

      observer_slot_begin_for(slot, nil, 104)
      #expect(observer_slot_want_end_time(slot, 104))
      #expect(observer_slot_ended_ns(slot, 104, owner) == 0)
      observer_slot_end(slot)
      #expect(observer_slot_ended_ns(slot, 104, owner) == 0 && observer_slot_ended_ns(slot, 102, owner) == ended)
      #expect(observer_slot_work_item(slot) == 0)
    }
  }

  @Test func ignoresEndTimeOfOtherWorkItem() {
    withOwnSlot { slot in
      let owner = observer_slot_configure(slot, observer_limits(1, 2, 3, 4))
      observer_slot_begin_for(slot, nil, 100)
      #expect(observer_slot_want_end_time(slot, 100))
      observer_slot_begin_for(slot, nil, 102)
      observer_slot_end_timed(slot)
      #expect(observer_slot_ended_ns(slot, 102, owner) == 0 && observer_slot_ended_ns(slot, 100, owner) == 0)
      observer_slot_end(slot)
      #expect(observer_slot_ended_ns(slot, 100, owner) == 0)
    }
  }

  @Test func keepsLabelsUpToMaximumLength() {
    withOwnSlot { slot in
      let owner = observer_slot_configure(slot, observer_limits(1, 2, 3, 4))
      let text = String((0..<80).map { Character(Unicode.Scalar(33 + UInt8($0))) })
      for length in (0...70) + [3, 0, 56] {
        observer_slot_set_label(slot, owner, text, length)
        #expect(label(slot) == String(text.prefix(min(length, longestLabel))), "\(length)")
      }
      observer_slot_set_label(slot, owner &+ 1, "other", 5)
      #expect(label(slot) == String(text.prefix(56)))
    }
  }

  @Test func readsOwnerFromWord() {
    var words: [UInt64] = [0xffff_ffff_8000_002a, 0x4000_0007]
    let (first, second) = words.withUnsafeMutableBytes { bytes in
      let start = UInt64(UInt(bitPattern: bytes.baseAddress))
      return (observer_slot_owner(start), observer_slot_owner(start + 8))
    }
    #expect((first, second) == (42, 7))
    #expect(observer_slot_owner(0) == 0 && observer_slot_owner(8) == 0)
    #expect(observer_slot_queue_head(0) == 0 && observer_slot_queue_head(8) == 0)
  }

  @Test func queueHeadsHaveDistinctHashes() {
    func small(_ word: UInt64) -> UInt32 {
      withUnsafeBytes(of: word) { observer_slot_queue_head(UInt64(UInt(bitPattern: $0.baseAddress))) }
    }
    let words = (0..<48).map { UInt64(1) << $0 } + (1...1000).map { 0x7f00_0000_0000 + 64 * UInt64($0) }
    #expect(Set(words.map(small)).count == words.count)
    #expect(small(words[7]) == small(words[7]))
  }

  @Test(.usesObserver) func exitingThreadEndsOnlyItsTurn() throws {
    try withSlot(0, ofLoop: true) { first in
      try withSlot(1, ofLoop: true) { second in
        let own = observer_thread_current()
        observer_slot_begin_for(first, own, 4000)
        workload_on_thread({ slot in observer_slot_begin(slot?.assumingMemoryBound(to: observer_slot.self)) }, second)
        #expect(observer_slot_work_item(first) == 4000 && observer_slot_work_item(second) == 0)
      }
    }
  }

  @Test(.usesObserver) func recordsEndTimeAtThreadExit() throws {
    try withSlot(0, ofLoop: true) { slot in
      let before = clinux_clock_ns()
      workload_on_thread(
        { slot in
          let slot = slot?.assumingMemoryBound(to: observer_slot.self)
          observer_slot_begin_for(slot, observer_thread_current(), 4000)
          _ = slot.map { observer_slot_want_end_time($0, 4000) }
        },
        slot
      )
      let ended = observer_slot_ended_ns(slot, 4000, observer_slot_read(slot).generation)
      #expect((before...clinux_clock_ns()).contains(ended))
    }
  }
}

@Suite struct ControlTests {
  @Test func pausesNest() {
    var control = observer_control()
    #expect(observer_control_paused_ns(&control) >= 0)
    observer_control_resume(&control)
    #expect(observer_control_paused_ns(&control) >= 0)
    observer_control_pause(&control)
    observer_control_pause(&control)
    observer_control_resume(&control)
    #expect(observer_control_paused_ns(&control) < 0)
    observer_control_resume(&control)
    #expect(observer_control_paused_ns(&control) >= 0)
  }

  @Test func countsRequestsAndWakeups() {
    var control = observer_control()
    #expect(observer_control_want_threads(&control) == 1 && observer_control_want_threads(&control) == 2)
    #expect(observer_control_threads_wanted(&control) == 2)
    observer_control_set_hang_delay_ns(&control, 7)
    observer_control_use_slots(&control, 9)
    #expect(observer_control_hang_delay_ns(&control) == 7 && observer_control_slots_used(&control) == 9)
    #expect(!observer_control_stopping(&control))
    observer_control_stop(&control)
    #expect(observer_control_stopping(&control))
    _ = observer_control_begin_tick(&control)
    _ = observer_control_begin_tick(&control)
    #expect(observer_control_wakeups(&control) == 2)
  }

  @Test func wakesMonitorForEarlierDeadline() {
    var control = observer_control()
    // The monitor waits on the first word.
    func word() -> UInt32 { withUnsafeBytes(of: &control) { $0.load(as: UInt32.self) } }
    func isWoken(by time: UInt64) -> Bool {
      let before = word()
      observer_control_tick_by(&control, time)
      return word() != before
    }
    let seen = observer_control_begin_tick(&control)
    #expect(isWoken(by: 100) && isWoken(by: .max))
    observer_control_end_tick(&control, seen, 100)
    #expect(isWoken(by: 99) && !isWoken(by: 100) && !isWoken(by: 101))
    observer_control_end_tick(&control, seen, .max)
    #expect(isWoken(by: .max - 1))
  }
}

@Suite struct StallEntryTests {
  private func read(_ entry: inout observer_stall) -> observer_stall_snapshot {
    var view = observer_stall_snapshot()
    observer_stall_read(&entry, &view)
    return view
  }

  private func name(_ view: observer_stall_snapshot) -> String {
    var view = view
    let bytes = (0..<Int(view.name_bytes)).map { UInt8(bitPattern: observer_stall_name_byte(&view, $0)) }
    return String(decoding: bytes, as: UTF8.self)
  }

  @Test func readsStallEntry() {
    var entry = observer_stall()
    #expect(!observer_stall_is_stalled(&entry) && read(&entry).item == 0)
    observer_stall_set(&entry, 41, 42, 43, 44)
    var view = read(&entry)
    #expect(observer_stall_is_stalled(&entry))
    #expect((view.item, view.age_ns, view.threshold_ns, view.tid) == (41, 42, 43, 44))
    observer_stall_set(&entry, 45, 46, 47, 0)
    view = read(&entry)
    #expect((view.item, view.age_ns, view.threshold_ns, view.tid) == (45, 46, 47, 44))
    observer_stall_clear(&entry)
    #expect(!observer_stall_is_stalled(&entry) && read(&entry).item == 0)
  }

  @Test func recordsTimeOfSuspicion() {
    var entry = observer_stall()
    var before = clinux_clock_ns()
    let used = clinux_clock_thread_cpu_ns(clinux_task_self())
    observer_stall_suspect(&entry, clinux_task_self())
    var view = read(&entry)
    #expect((before...clinux_clock_ns()).contains(view.suspected_ns) && view.tid == clinux_task_self())
    #expect((used...clinux_clock_thread_cpu_ns(clinux_task_self())).contains(view.suspected_cpu))
    before = clinux_clock_ns()
    observer_stall_suspect(&entry, 0)
    view = read(&entry)
    #expect(view.suspected_cpu == 0 && view.tid == 0 && view.suspected_ns >= before)
  }

  @Test func resetKeepsOnlyName() {
    var entry = observer_stall()
    observer_stall_set_name(&entry, 3, "store", 5)
    observer_stall_suspect(&entry, clinux_task_self())
    observer_stall_set(&entry, 41, 42, 43, 44)
    observer_stall_reset(&entry)
    let view = read(&entry)
    #expect((view.item, view.age_ns, view.threshold_ns, view.tid) == (0, 0, 0, 0))
    #expect((view.suspected_ns, view.suspected_cpu) == (0, 0))
    #expect(name(view) == "store" && view.kind == 3)
  }

  @Test func truncatesNamesBetweenCharacters() {
    let longest = Int(OBSERVER_NAME_WORDS) * 8
    for character in ["x", "ß", "日", "🙂"] {
      for head in 0..<4 {
        for count in [0, 1, 20, 23, 24, 25, 31, 32, 33, 47, 48, 49, 95, 96, 97, 120] {
          let text = String(repeating: "a", count: head) + String(repeating: character, count: count)
          var entry = observer_stall()
          observer_stall_set_name(&entry, 1, text, text.utf8.count)
          // The expected result is the longest prefix of whole characters that fits.
          var expected = ""
          for next in text where expected.utf8.count + next.utf8.count <= longest { expected.append(next) }
          #expect(name(read(&entry)) == expected)
        }
      }
    }
    var entry = observer_stall()
    observer_stall_set_name(&entry, 1, "store", 5)
    var view = read(&entry)
    #expect(observer_stall_name_byte(&view, 5) == 0 && observer_stall_name_byte(&view, -1) == 0)
    observer_stall_set_name(&entry, 1, "io", 2)
    #expect(name(read(&entry)) == "io")
  }
}
