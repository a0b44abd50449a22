import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import TestWorkloads
import Testing

@Suite struct SamplingTests {
  /// A sampler that reports itself ready after it was activated must stay active. Otherwise the monitor would rely on a
  /// sampler that waits as a spare.
  @Test func activatedSamplerStaysActive() throws {
    let sampling = try #require(observer_sampling_create())
    defer { observer_sampling_destroy(sampling) }
    observer_sampler_ready(sampling, 0)
    #expect(observer_sampler_state(sampling, 0) == OBSERVER_SAMPLER_SPARE)
    observer_sampler_activate(sampling, 0)
    observer_sampler_ready(sampling, 0)
    #expect(observer_sampler_state(sampling, 0) == OBSERVER_SAMPLER_ACTIVE)
  }

  @Test func delayedSamplerReturnsAsSpare() throws {
    let sampling = try #require(observer_sampling_create())
    defer { observer_sampling_destroy(sampling) }
    observer_sampler_ready(sampling, 0)
    observer_sampler_activate(sampling, 0)
    observer_sampler_begin_step(sampling, 0, 3, 4711)
    #expect(observer_sampler_give_up(sampling, 0) == 3)
    #expect(observer_sampling_avoids(sampling, 4711))
    #expect(observer_sampling_held_up(sampling) == 1)
    observer_sampler_end_step(sampling, 0)
    observer_sampler_come_back(sampling, 0)
    #expect(observer_sampler_state(sampling, 0) == OBSERVER_SAMPLER_SPARE)
    #expect(!observer_sampling_avoids(sampling, 4711))
  }

  private func withSampling(_ body: (UnsafeMutablePointer<observer_sampling>) throws -> Void) throws {
    let sampling = try #require(observer_sampling_create())
    defer { observer_sampling_destroy(sampling) }
    try body(sampling)
  }

  @Test func readsFollowedWorkItem() throws {
    try withSampling { sampling in
      #expect(observer_work_read(sampling.work(7)).item == 0)
      let view = observer_work_snapshot(item: 1, generation: 2, age_ns: 3, gap_ns: 4, tick_ns: 5)
      observer_work_follow(sampling.work(7), view)
      let found = observer_work_read(sampling.work(7))
      #expect((found.item, found.generation, found.age_ns, found.gap_ns, found.tick_ns) == (1, 2, 3, 4, 5))
      #expect(observer_work_read(sampling.work(6)).item == 0 && observer_work_read(sampling.work(8)).item == 0)
      observer_work_leave(sampling.work(7))
      #expect(observer_work_read(sampling.work(7)).item == 0)
    }
  }

  @Test func takesEachRequestOnce() throws {
    try withSampling { sampling in
      #expect(!observer_work_take(sampling.work(3)))
      for count in 1...3 {
        for _ in 0..<count { observer_work_want(sampling.work(3)) }
        #expect(!observer_work_take(sampling.work(2)))
        #expect(observer_work_take(sampling.work(3)) && !observer_work_take(sampling.work(3)))
      }
    }
  }

  @Test func countsLostSamplesPerWorkItem() throws {
    try withSampling { sampling in
      for count: UInt64 in 1...3 {
        observer_work_lose(sampling.work(3), 41)
        #expect(observer_work_lost(sampling.work(3), 41) == count)
      }
      #expect(observer_work_lost(sampling.work(3), 42) == 0 && observer_work_lost(sampling.work(4), 41) == 0)
      observer_work_lose(sampling.work(3), 42)
      #expect(observer_work_lost(sampling.work(3), 42) == 1 && observer_work_lost(sampling.work(3), 41) == 0)
    }
  }

  @Test func recordsThreadPerWorkItem() throws {
    try withSampling { sampling in
      observer_work_seen(sampling.work(3), 41, 4711)
      #expect(observer_work_tid(sampling.work(3), 41) == 4711)
      #expect(observer_work_tid(sampling.work(3), 42) == 0 && observer_work_tid(sampling.work(4), 41) == 0)
      observer_work_seen(sampling.work(3), 42, 4712)
      #expect(observer_work_tid(sampling.work(3), 42) == 4712 && observer_work_tid(sampling.work(3), 41) == 0)
    }
  }

  @Test func avoidsWorkThatBlockedSampler() throws {
    try withSampling { sampling in
      for number: UInt32 in 0..<2 { observer_sampler_ready(sampling, number) }
      observer_sampler_activate(sampling, 1)
      observer_work_follow(
        sampling.work(5),
        observer_work_snapshot(item: 41, generation: 1, age_ns: 0, gap_ns: 0, tick_ns: 1)
      )
      let steps = observer_sampler_steps(sampling, 1)
      observer_sampler_begin_step(sampling, 1, 5, 4711)
      #expect(observer_sampler_steps(sampling, 1) == steps + 1)
      #expect(observer_sampler_give_up(sampling, 1) == 5)
      #expect(observer_work_is_avoided(sampling.work(5), 41) && !observer_work_is_avoided(sampling.work(5), 42))
      #expect(!observer_work_is_avoided(sampling.work(4), 41))
      #expect(observer_sampling_avoids(sampling, 4711) && !observer_sampling_avoids(sampling, 4712))
      #expect(!observer_sampling_avoids(sampling, 0))
      #expect(observer_sampling_held_up(sampling) == 1 && observer_sampling_count(sampling) == 2)
      observer_sampler_end_step(sampling, 1)
      #expect(observer_sampler_steps(sampling, 1) == steps + 2)
      // Without a slot, there is no work to avoid.
      observer_sampler_activate(sampling, 0)
      observer_sampler_begin_step(sampling, 0, -1, 0)
      #expect(observer_sampler_give_up(sampling, 0) == -1)
      #expect(observer_sampling_held_up(sampling) == 2 && !observer_sampling_avoids(sampling, 0))
      observer_sampler_come_back(sampling, 1)
      #expect(!observer_sampling_avoids(sampling, 4711))
      #expect(observer_work_is_avoided(sampling.work(5), 41))
    }
  }

  @Test func countsSamplersByState() throws {
    try withSampling { sampling in
      #expect(observer_sampling_count(sampling) == 0)
      observer_sampler_activate(sampling, 0)
      observer_sampler_come_back(sampling, 0)
      #expect(observer_sampler_state(sampling, 0) == OBSERVER_SAMPLER_ABSENT)
      for number: UInt32 in 0..<2 {
        observer_sampler_ready(sampling, number)
        #expect(observer_sampling_count(sampling) == number + 1)
      }
      #expect(observer_sampling_held_up(sampling) == 0)
      let word = observer_sampler_word(sampling, 1)
      observer_sampler_activate(sampling, 1)
      #expect(observer_sampler_word(sampling, 1) != word)
      observer_sampler_end(sampling, 1)
      #expect(observer_sampling_count(sampling) == 1)
    }
  }

  @Test func stopWakesAllSamplers() throws {
    try withSampling { sampling in
      let numbers = 0..<UInt32(OBSERVER_SAMPLERS_MAX)
      let words = numbers.map { observer_sampler_word(sampling, $0) }
      #expect(!observer_sampling_stopping(sampling))
      observer_sampling_stop(sampling)
      #expect(observer_sampling_stopping(sampling))
      #expect(zip(numbers, words).allSatisfy { observer_sampler_word(sampling, $0) != $1 })
    }
  }

  @Test func captureServesEarlierRequests() throws {
    try withSampling { sampling in
      #expect(!observer_capture_all_is_wanted(sampling, 0) && observer_capture_all_is_wanted(sampling, 1))
      observer_sampling_stall_declared(sampling)
      #expect(observer_capture_all_is_wanted(sampling, 0))
      let first = observer_capture_all_begin(sampling, 1)
      #expect(observer_capture_all_is_wanted(sampling, 1), "the capture is running")
      observer_sampling_stall_declared(sampling)
      observer_capture_all_end(sampling, first)
      #expect(observer_capture_all_is_wanted(sampling, 1), "a stall was declared after the capture began")
      let second = observer_capture_all_begin(sampling, 1)
      #expect(second != first)
      // Another sampler has restarted the capture, so the end of the earlier capture is ignored.
      let third = observer_capture_all_begin(sampling, 2)
      observer_capture_all_end(sampling, second)
      #expect(observer_capture_all_is_wanted(sampling, 2))
      observer_capture_all_end(sampling, third)
      #expect(!observer_capture_all_is_wanted(sampling, 2) && observer_capture_all_is_wanted(sampling, 3))
    }
  }
}

@Suite struct RingRoomTests {
  private func event(_ number: UInt64 = 0) -> observer_event {
    var event = observer_event()
    event.kind = OBSERVER_EVENT_SAMPLE.rawValue
    event.item = number
    return event
  }

  private static let frames = [unwind_frame](
    repeating: unwind_frame(address: 1, kind: 0, offset: UNWIND_NO_OFFSET),
    count: Int(UNWIND_FRAMES_MAX)
  )

  private func drain(_ ring: OpaquePointer) { while observer_ring_read(ring) != nil { observer_ring_consume(ring) } }

  @Test(arguments: [1, 2, 5] as [UInt32]) func reportedRoomFitsLongestEvents(events: UInt32) throws {
    let ring = try #require(observer_ring_create(64 << 10))
    defer { observer_ring_destroy(ring) }
    var found = 0
    for step in 0..<500 {
      // Shifts the position of the next event.
      for _ in 0..<step % 5 {
        var small = event()
        _ = observer_ring_write(ring, &small, Self.frames, UInt32(step * 7 % 100))
      }
      if step % 3 == 0 { drain(ring) }
      guard observer_ring_has_room(ring, events) else {
        drain(ring)
        continue
      }
      found += 1
      for _ in 0..<events {
        var longest = event()
        #expect(observer_ring_write(ring, &longest, Self.frames, UInt32(Self.frames.count)), "step \(step)")
      }
    }
    #expect(found > 100)
  }

  @Test func reportsRoomOfEmptyAndFullRings() throws {
    let ring = try #require(observer_ring_create(64 << 10))
    defer { observer_ring_destroy(ring) }
    // The longest event takes about 8 KiB, and one event's space can stay unused.
    #expect(observer_ring_has_room(ring, 6) && !observer_ring_has_room(ring, 8))
    var filler = event()
    while observer_ring_write(ring, &filler, nil, 0) {}
    #expect(!observer_ring_has_room(ring, 1) && !observer_ring_has_room(ring, 0))
    drain(ring)
    #expect(observer_ring_has_room(ring, 6) && !observer_ring_has_room(ring, 8))
  }

  @Test func usesRingToLastByte() throws {
    let ring = try #require(observer_ring_create(64 << 10))
    defer { observer_ring_destroy(ring) }
    let bytes = MemoryLayout<observer_event>.stride + 8
    let frame = MemoryLayout<unwind_frame>.stride
    let count = (64 << 10) / bytes
    let rest = (64 << 10) % bytes
    for number in 1...count {
      var next = event()
      let isLast = number == count
      #expect(!isLast || !observer_ring_write(ring, &next, Self.frames, UInt32(rest / frame + 1)))
      #expect(observer_ring_write(ring, &next, Self.frames, isLast ? UInt32(rest / frame) : 0))
    }
    var one = event()
    #expect(!observer_ring_write(ring, &one, nil, 0))
    observer_ring_consume(ring)
    drain(ring)
    #expect(observer_ring_write(ring, &one, nil, 0) && observer_ring_read(ring) != nil)
  }

  @Test func numbersEventsAcrossRings() throws {
    let first = try #require(observer_ring_create(64 << 10))
    let second = try #require(observer_ring_create_beside(64 << 10, first))
    defer {
      observer_ring_destroy(second)
      observer_ring_destroy(first)
    }
    let published = observer_ring_published(first)
    for number: UInt64 in 0..<6 {
      var next = event(number)
      #expect(observer_ring_write(number % 2 == 0 ? first : second, &next, nil, 0))
    }
    #expect(observer_ring_published(first) == published + 6 && observer_ring_published(second) == published + 6)
    for number: UInt64 in 0..<6 {
      let ring = number % 2 == 0 ? first : second
      #expect(observer_ring_read(ring)?.pointee.order == number && observer_ring_read(ring)?.pointee.item == number)
      observer_ring_consume(ring)
    }
    observer_ring_wake_reader(second)
    #expect(observer_ring_published(first) == published + 7)
  }

  @Test(arguments: [(64 << 10, true), (128 << 10, true), (32 << 10, false), (96 << 10, false), (0, false)])
  func requiresPowerOfTwoSize(bytes: Int, isGood: Bool) {
    let ring = observer_ring_create(bytes)
    #expect((ring != nil) == isGood)
    if let ring { observer_ring_destroy(ring) }
  }
}

/// The formats of /proc/PID/syscall in proc(5).
@Suite struct ThreadStatusTests {
  private func parse(_ text: String) -> observer_thread_status { observer_thread_status_parse(text, text.utf8.count) }

  private func arguments(_ status: observer_thread_status) -> [UInt64] {
    withUnsafeBytes(of: status.arguments) { Array($0.bindMemory(to: UInt64.self)) }
  }

  @Test func parsesKernelFormats() {
    #expect(parse("running\n").activity == OBSERVER_RUNNING)
    let blocked = parse("-1 0x7ffd1234 0x55aa99ff\n")
    #expect(blocked.activity == OBSERVER_BLOCKED && blocked.call == -1)
    #expect((blocked.sp, blocked.pc) == (0x7ffd_1234, 0x55aa_99ff))
    let inCall = parse("202 0x1 0xabcdef 0x0 0x9 0xffffffffffffffff 0x10 0x7fff0000 0x7f00a9\n")
    #expect(inCall.activity == OBSERVER_IN_CALL && inCall.call == 202)
    #expect(arguments(inCall) == [1, 0xab_cdef, 0, 9, .max, 16])
    #expect((inCall.sp, inCall.pc) == (0x7fff_0000, 0x7f_00a9))
    #expect(parse("0 0x0 0x1 0x2 0x3 0x4 0x5 0x6 0x7").activity == OBSERVER_IN_CALL)
  }

  @Test func rejectsTruncatedText() {
    let text = "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7 "
    for length in 0...text.utf8.count {
      #expect(parse(String(text.prefix(length))).activity.rawValue == 0, "\(length)")
    }
    for other in ["", "runnin", "-1", "-1 ", "-1 0x5", "-", "-2 0x1 0x2", "x", "12 z", "-1 y 0x2"] {
      #expect(parse(other).activity == OBSERVER_ACTIVITY_UNKNOWN, "\(other)")
    }
  }
}

extension UnsafeMutablePointer where Pointee == observer_sampling {
  fileprivate func work(_ index: Int) -> UnsafeMutablePointer<observer_work> { pointee.work + index }
}
