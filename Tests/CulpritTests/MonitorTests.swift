import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import Testing

@testable import Culprit

/// A monitor with separate tables, without thread and clock. The test sets the time.
private final class Watched {
  let control = ControlBlock()
  let slots: UnsafeMutablePointer<observer_slot>
  let stalls: UnsafeMutablePointer<observer_stall>
  let sampling: UnsafeMutablePointer<observer_sampling>
  let ring: OpaquePointer
  private let trackers: UnsafeMutablePointer<WorkItemTracker>
  private var monitor: Monitor
  private(set) var now: UInt64

  static let ms: UInt64 = 1_000_000

  init(slots count: Int = 1, polled: Bool = false, now: UInt64 = 1 << 60) throws {
    self.now = now
    slots = .allocate(capacity: count)
    stalls = .allocate(capacity: count)
    slots.initialize(repeating: observer_slot(), count: count)
    stalls.initialize(repeating: observer_stall(), count: count)
    trackers = .allocate(capacity: count)
    sampling = try #require(observer_sampling_create())
    ring = try #require(observer_ring_create(64 << 10))
    for index in 0..<count {
      _ = observer_slot_configure(
        slots + index,
        observer_limits(125 * Self.ms, 1000 * Self.ms, 10 * Self.ms, 10 * Self.ms, polled: polled)
      )
    }
    observer_control_use_slots(control.pointer, UInt32(count))
    observer_control_set_hang_delay_ns(control.pointer, 1000 * Self.ms)
    monitor = Monitor(
      control: control.pointer,
      slots: slots,
      stalls: stalls,
      sampling: sampling,
      trackers: trackers,
      ring: ring
    )
  }

  deinit {
    observer_ring_destroy(ring)
    observer_sampling_destroy(sampling)
    // SAFETY: allocated by the initializer and owned by this object; the elements are plain values.
    trackers.deallocate()
    stalls.deallocate()
    slots.deallocate()
  }

  func begin(_ index: Int = 0, thread: UnsafeMutablePointer<observer_thread>? = nil) {
    observer_slot_begin_for(slots + index, thread, now)
  }

  var wakeWord: UInt32 { observer_control_begin_tick(control.pointer) }

  var item: UInt64 { observer_slot_work_item(slots) }

  /// Ticks after `milliseconds`, charged in full. Returns the next wait in milliseconds.
  @discardableResult
  func tick(after milliseconds: UInt64) -> UInt64 {
    now += milliseconds * Self.ms
    let wait = monitor.check(
      WorkItemTracker.Tick(now: now, elapsed: milliseconds * Self.ms, allowed: max(250, milliseconds) * Self.ms)
    )
    return wait == .max ? .max : wait / Self.ms
  }

  func events() -> [observer_event] {
    var found: [observer_event] = []
    while let event = observer_ring_read(ring) {
      // SAFETY: an event is valid until it is consumed.
      found.append(event.pointee)
      observer_ring_consume(ring)
    }
    return found
  }

  func events(_ kind: observer_event_kind) -> [observer_event] { events().filter { $0.kind == kind.rawValue } }

  func fillRing() {
    var filler = observer_event()
    while observer_ring_write(ring, &filler, nil, 0) {}
  }

  var stall: observer_stall_snapshot {
    var view = observer_stall_snapshot()
    observer_stall_read(stalls, &view)
    return view
  }
}

@Suite struct MonitorTests {
  @Test func recordsEventsInOrder() throws {
    let watched = try Watched()
    watched.begin()
    let item = watched.item
    for _ in 0..<25 { watched.tick(after: 100) }
    observer_slot_end(watched.slots)
    watched.tick(after: 100)
    let events = watched.events().filter { $0.kind != OBSERVER_EVENT_SAMPLE.rawValue }
    #expect(
      events.map(\.kind) == [
        OBSERVER_EVENT_STALL_BEGAN.rawValue
      ] + Array(repeating: OBSERVER_EVENT_GOES_ON.rawValue, count: 9)
        + [OBSERVER_EVENT_HANG.rawValue, OBSERVER_EVENT_GOES_ON.rawValue]
        + Array(repeating: OBSERVER_EVENT_GOES_ON.rawValue, count: 5)
        + [OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue]
    )
    #expect(events.allSatisfy { $0.item == item && $0.generation == 1 && $0.slot == 0 })
    #expect(events.first?.threshold_ns == 1000 * Watched.ms && events.first?.age_ns == 1000 * Watched.ms)
    #expect(zip(events, events.dropFirst()).allSatisfy { $0.age_ns <= $1.age_ns && $0.time_ns <= $1.time_ns })
    #expect(events.dropLast().allSatisfy { $0.time_ns - $0.age_ns == item })
    // The slot's end time is from the real clock, far before simulated time, so the last sighting counts.
    #expect(events.last?.age_ns == 2500 * Watched.ms)
  }

  @Test func countsLostSamples() throws {
    let watched = try Watched()
    watched.begin()
    let item = watched.item
    for _ in 0..<3 { watched.tick(after: 100) }
    #expect(watched.events().allSatisfy { $0.lost == 0 })
    for _ in 0..<3 { observer_work_lose(watched.sampling.pointee.work, item) }
    for _ in 0..<20 { watched.tick(after: 100) }
    observer_slot_end(watched.slots)
    watched.tick(after: 10)
    let events = watched.events()
    #expect(events.count > 10 && events.allSatisfy { $0.lost == 3 })
    watched.begin()
    for _ in 0..<12 { watched.tick(after: 100) }
    let next = watched.events(OBSERVER_EVENT_STALL_BEGAN)
    #expect(next.count == 1 && next.allSatisfy { $0.lost == 0 })
  }

  @Test func recordsProgressOfManyStallsLessOften() throws {
    let watched = try Watched(slots: 200)
    observer_sampler_ready(watched.sampling, 0)
    for index in 0..<200 { watched.begin(index) }
    for _ in 0..<15 {
      watched.tick(after: 100)
      _ = watched.events()
    }
    let events = (0..<24).flatMap { _ in
      watched.tick(after: 50)
      return watched.events(OBSERVER_EVENT_GOES_ON)
    }
    // With 200 stalls, each has one event per 400 ms.
    #expect(Dictionary(grouping: events, by: \.slot).values.allSatisfy { $0.count <= 4 })
    #expect(Set(events.map(\.slot)).count > 90)
  }

  @Test func ticksLessOftenWithManyLateItems() {
    let gaps = [0, 1, 100, 1000, 4096].map { Monitor.gap(sampled: $0) / Watched.ms }
    #expect(gaps == [1, 1, 4, 30, 30])
  }

  @Test func stopEndsTickWait() {
    let control = ControlBlock()
    let began = clinux_clock_ns()
    observer_control_wake(control.pointer)
    observer_control_wait_out(control.pointer, began + 2 * Watched.ms)
    #expect(clinux_clock_ns() >= began + 2 * Watched.ms)
    observer_control_stop(control.pointer)
    observer_control_wait_out(control.pointer, .max)
  }

  @Test func reservesRingRoomForThreads() throws {
    let watched = try Watched(slots: 200)
    observer_sampler_ready(watched.sampling, 0)
    for index in 0..<199 {
      observer_slot_set_task(watched.slots + index, 4096, 1)
      watched.begin(index)
    }
    watched.begin(199)
    for _ in 0..<10 { watched.tick(after: 100) }
    let began = watched.events(OBSERVER_EVENT_STALL_BEGAN)
    #expect(began.count < 199 && began.last?.slot == 199)
    var slots = Set(began.map(\.slot))
    for _ in 0..<40 {
      watched.tick(after: 10)
      slots.formUnion(watched.events(OBSERVER_EVENT_STALL_BEGAN).map(\.slot))
    }
    #expect(slots.count == 200)
  }

  @Test func countsSparedSamples() throws {
    let watched = try Watched()
    observer_sampler_ready(watched.sampling, 0)
    watched.begin()
    for _ in 0..<4 { watched.tick(after: 100) }
    #expect(observer_sampling_spared(watched.sampling) == 0)
    observer_sampling_set_sparing(watched.sampling, true)
    for _ in 0..<4 { watched.tick(after: 100) }
    #expect(observer_sampling_spared(watched.sampling) == 4)
    #expect(observer_work_take(watched.sampling.pointee.work))
    for _ in 0..<12 { watched.tick(after: 100) }
    observer_slot_end(watched.slots)
    watched.tick(after: 100)
    let spared = observer_sampling_spared(watched.sampling)
    #expect(spared > 5 && watched.events().last?.spared == spared)
  }

  @Test func recordsEachHangOfSlot() throws {
    let watched = try Watched()
    for _ in 0..<3 {
      watched.begin()
      for _ in 0..<21 { watched.tick(after: 100) }
      observer_slot_end(watched.slots)
      watched.tick(after: 10)
      let events = watched.events()
      for kind in [OBSERVER_EVENT_STALL_BEGAN, OBSERVER_EVENT_HANG, OBSERVER_EVENT_WORK_ITEM_ENDED] {
        #expect(events.filter { $0.kind == kind.rawValue }.count == 1)
      }
    }
  }

  @Test func retriesEventsWhenRingIsFull() throws {
    let watched = try Watched()
    observer_sampler_ready(watched.sampling, 0)
    watched.begin()
    watched.tick(after: 900)
    watched.tick(after: 1)
    _ = watched.events()
    watched.fillRing()
    watched.tick(after: 200)
    observer_slot_limit(watched.slots, observer_limits(125 * Watched.ms, 1000 * Watched.ms, 1 << 50, 1 << 50))
    watched.tick(after: 40)
    #expect(watched.tick(after: 1) == Monitor.longestSleep / Watched.ms)
    _ = watched.events()
    watched.tick(after: 10)
    #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).count == 1)
    watched.fillRing()
    #expect(watched.tick(after: 1200) == Monitor.longestSleep / Watched.ms)
    _ = watched.events()
    watched.tick(after: 10)
    #expect(watched.events(OBSERVER_EVENT_HANG).count == 1)
    watched.fillRing()
    observer_slot_end(watched.slots)
    #expect(watched.tick(after: 10) == Monitor.longestSleep / Watched.ms)
    watched.begin()
    let second = watched.item
    watched.tick(after: 10)
    _ = watched.events()
    watched.tick(after: 10)
    let ends = watched.events()
    #expect(ends.map(\.kind) == [OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue] && ends.first?.item != second)
    for _ in 0..<11 { watched.tick(after: 100) }
    #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).map(\.item) == [second])
  }

  @Test func progressEventsLeaveRingRoom() throws {
    let watched = try Watched(slots: 2)
    watched.begin(0)
    watched.begin(1)
    observer_slot_limit(watched.slots + 1, observer_limits(.max, .max, .max, .max))
    for _ in 0..<3000 { watched.tick(after: 100) }
    #expect(observer_ring_is_half_free(watched.ring) == false)
    #expect(watched.stall.item != 0)
    observer_slot_end(watched.slots)
    watched.tick(after: 100)
    #expect(watched.stall.item == 0)
    watched.begin(0)
    let second = watched.item
    for _ in 0..<11 { watched.tick(after: 100) }
    #expect(watched.stall.item == second && watched.stall.age_ns >= 1000 * Watched.ms)
    let events = watched.events()
    #expect(events.filter { $0.kind == OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue }.count == 1)
    #expect(events.filter { $0.kind == OBSERVER_EVENT_STALL_BEGAN.rawValue }.map(\.item).last == second)
  }

  @Test func recordsStallBetweenTicks() throws {
    // Slots record the end of work with the real clock.
    let watched = try Watched(now: clinux_clock_ns() - 1200 * Watched.ms)
    watched.begin()
    watched.tick(after: 500)
    _ = watched.events()
    observer_slot_end(watched.slots)
    watched.fillRing()
    watched.tick(after: 3_600_000)
    _ = watched.events()
    watched.tick(after: 100)
    let events = watched.events()
    #expect(events.map(\.kind) == [OBSERVER_EVENT_STALL_BEGAN.rawValue, OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue])
    #expect(events.allSatisfy { (1200 * Watched.ms..<3_600_000 * Watched.ms).contains($0.age_ns) })
    #expect(events.first?.age_ns == events.last?.age_ns)
    #expect(events.first?.threshold_ns == 1000 * Watched.ms)
  }

  @Test func publishesStallProgress() throws {
    let watched = try Watched()
    let own = observer_thread_current()
    watched.begin(thread: own)
    watched.tick(after: 999)
    #expect(watched.stall.item == 0)
    #expect(watched.stall.tid == clinux_task_self() && watched.stall.suspected_ns > 0)
    watched.tick(after: 1)
    #expect(watched.stall.item == watched.item && watched.stall.tid == clinux_task_self())
    #expect(watched.stall.age_ns == 1000 * Watched.ms && watched.stall.threshold_ns == 1000 * Watched.ms)
    watched.tick(after: 70)
    #expect(watched.stall.age_ns == 1070 * Watched.ms)
    #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).map(\.tid) == [clinux_task_self()])
    observer_slot_end(watched.slots)
    watched.tick(after: 10)
    #expect(watched.stall.item == 0)
  }

  @Test func usesThreadSeenBySampler() throws {
    let watched = try Watched()
    observer_slot_set_addresses(watched.slots, 4096, 0)
    watched.begin(thread: observer_thread_current())
    watched.tick(after: 900)
    observer_work_seen(watched.sampling.pointee.work, watched.item, 4711)
    watched.tick(after: 100)
    #expect(watched.stall.tid == 4711)
    #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).map(\.tid) == [4711])
  }

  @Test func publishesSampledWork() throws {
    let watched = try Watched()
    watched.begin()
    watched.tick(after: 124)
    #expect(observer_work_read(watched.sampling.pointee.work).item == 0)
    watched.tick(after: 1)
    let view = observer_work_read(watched.sampling.pointee.work)
    #expect(view.item == watched.item && view.generation == 1 && view.tick_ns == watched.now)
    #expect(view.age_ns == 125 * Watched.ms && view.gap_ns == 0)
    observer_slot_end(watched.slots)
    watched.tick(after: 10)
    #expect(observer_work_read(watched.sampling.pointee.work).item == 0)
  }

  @Test func recordsSamplesWithoutSampler() throws {
    let watched = try Watched()
    watched.begin(thread: observer_thread_current())
    watched.tick(after: 200)
    let missing = watched.events()
    #expect(missing.map(\.kind) == [OBSERVER_EVENT_SAMPLE.rawValue])
    #expect(missing.first?.status == OBSERVER_SAMPLER_STOPPED.rawValue && missing.first?.tid == clinux_task_self())
    #expect(missing.first.map { $0.cpu_ns > 0 && $0.run_delay_ns == .max && $0.call == -1 } == true)
    #expect(!observer_work_take(watched.sampling.pointee.work))

    observer_sampler_ready(watched.sampling, 0)
    watched.tick(after: 1)
    let word = observer_sampler_word(watched.sampling, 0)
    _ = watched.events()
    watched.tick(after: 100)
    #expect(watched.events().isEmpty)
    #expect(observer_work_take(watched.sampling.pointee.work) && !observer_work_take(watched.sampling.pointee.work))
    #expect(observer_sampler_word(watched.sampling, 0) != word)
  }

  @Test func requestsCaptureOfAllThreads() throws {
    let watched = try Watched()
    observer_sampler_ready(watched.sampling, 0)
    watched.begin()
    watched.tick(after: 999)
    #expect(!observer_capture_all_is_wanted(watched.sampling, 0))
    watched.tick(after: 1)
    #expect(observer_capture_all_is_wanted(watched.sampling, 0))
    observer_capture_all_end(watched.sampling, observer_capture_all_begin(watched.sampling, 0))
    for _ in 0..<30 { watched.tick(after: 100) }
    #expect(!observer_capture_all_is_wanted(watched.sampling, 0))
    observer_slot_end(watched.slots)
    for _ in 0..<5 { watched.tick(after: 200) }
    let idle = observer_sampler_word(watched.sampling, 0)
    #expect(watched.tick(after: 200) == .max)
    #expect(observer_sampler_word(watched.sampling, 0) == idle)
    _ = observer_control_want_threads(watched.control.pointer)
    watched.tick(after: 200)
    #expect(observer_sampler_word(watched.sampling, 0) != idle)
    let once = observer_sampler_word(watched.sampling, 0)
    watched.tick(after: 200)
    #expect(observer_sampler_word(watched.sampling, 0) == once)
  }

  @Test func excludesPausedTime() throws {
    for isPaused in [true, false] {
      let watched = try Watched()
      watched.begin()
      watched.tick(after: 200)
      if isPaused { observer_control_pause(watched.control.pointer) } else { observer_slot_exempt(watched.slots, 1) }
      for _ in 0..<20 { watched.tick(after: 100) }
      #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).isEmpty)
      if isPaused {
        observer_control_resume(watched.control.pointer)
      } else {
        observer_slot_exempt_no_more(watched.slots, 1)
      }
      for _ in 0..<8 { watched.tick(after: 100) }
      #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).map(\.age_ns) == [1000 * Watched.ms])
    }
  }

  @Test func sleepsDuringPauses() throws {
    for isPaused in [true, false] {
      let watched = try Watched()
      observer_sampler_ready(watched.sampling, 0)
      watched.begin()
      #expect(watched.tick(after: 124) == 1)
      if isPaused { observer_control_pause(watched.control.pointer) } else { observer_slot_exempt(watched.slots, 1) }
      #expect(watched.tick(after: 1) == .max && watched.tick(after: 200) == .max)
      let word = watched.wakeWord
      if isPaused {
        observer_control_pause(watched.control.pointer)
        observer_control_resume(watched.control.pointer)
        #expect(watched.wakeWord == word)
        observer_control_resume(watched.control.pointer)
        #expect(watched.wakeWord != word)
      } else {
        observer_slot_exempt(watched.slots, 1)
        #expect(!observer_slot_exempt_no_more(watched.slots, 1) && observer_slot_exempt_no_more(watched.slots, 1))
        #expect(!observer_slot_exempt_no_more(watched.slots, 1))
      }
      #expect(watched.tick(after: 0) == 1)
    }
  }

  @Test func pendingEventsDoNotBlockTracking() throws {
    let watched = try Watched()
    watched.begin()
    let first = watched.item
    for _ in 0..<3 { watched.tick(after: 100) }
    _ = watched.events()
    watched.fillRing()
    observer_slot_end(watched.slots)
    watched.tick(after: 100)
    watched.begin()
    let second = watched.item
    for _ in 0..<13 { watched.tick(after: 100) }
    #expect(watched.stall.item == second && watched.stall.age_ns == 1300 * Watched.ms)
    // The pending end of the first work item is dropped, because it was no stall.
    observer_slot_end(watched.slots)
    watched.tick(after: 100)
    #expect(watched.stall.item == 0)
    // The end of a stall is never dropped for the end of another work item.
    for _ in 0..<2 {
      watched.begin()
      for _ in 0..<12 { watched.tick(after: 100) }
      observer_slot_end(watched.slots)
      watched.tick(after: 100)
    }
    #expect(observer_control_stalls_lost(watched.control.pointer) == 2)
    watched.begin()
    let last = watched.item
    for _ in 0..<11 { watched.tick(after: 100) }
    _ = watched.events()
    watched.tick(after: 100)
    watched.tick(after: 100)
    let reported = watched.events().filter { $0.kind != OBSERVER_EVENT_SAMPLE.rawValue }
    let (began, ended) = (OBSERVER_EVENT_STALL_BEGAN.rawValue, OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue)
    #expect(reported.prefix(3).map(\.kind) == [began, ended, began])
    #expect(reported.prefix(3).map(\.item) == [second, second, last] && !reported.contains { $0.item == first })
    #expect(reported.first?.age_ns == 1300 * Watched.ms && reported.first?.threshold_ns == 1000 * Watched.ms)
  }

  @Test func checksEverySlotInUse() throws {
    let watched = try Watched(slots: 3)
    observer_control_use_slots(watched.control.pointer, 1)
    for index in 0..<3 { watched.begin(index) }
    watched.tick(after: 1000)
    #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).map(\.slot) == [0])
    observer_control_use_slots(watched.control.pointer, 3)
    // Time before a slot's use counts as one tick at most.
    watched.tick(after: 250)
    #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).isEmpty)
    watched.tick(after: 750)
    #expect(watched.events(OBSERVER_EVENT_STALL_BEGAN).map(\.slot) == [1, 2])
    for index in 0..<3 { observer_slot_end(watched.slots + index) }
    watched.tick(after: 10)
    #expect(watched.events(OBSERVER_EVENT_WORK_ITEM_ENDED).map(\.slot) == [0, 1, 2])
    watched.begin(2)
    #expect(watched.tick(after: 25) == 100)
  }

  @Test func limitsSleepWithPolledSlots() throws {
    for isPolled in [true, false] {
      let watched = try Watched(polled: isPolled)
      observer_sampler_ready(watched.sampling, 0)
      #expect(watched.tick(after: 10) == (isPolled ? 125 : .max))
    }
  }

  @Test func boundsChargeOfLateTicks() {
    #expect(Monitor.allowance(planned: 0) == 10_000_000)
    #expect(Monitor.allowance(planned: 80_000_000) == 90_000_000)
    #expect(Monitor.allowance(planned: 160_000_000) == 180_000_000)
    // The longest planned sleep is charged in full even after the longest delay.
    #expect(Monitor.allowance(planned: Monitor.longestSleep) <= Monitor.longestTick)
    #expect(Monitor.longestSleep > 200_000_000)
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
