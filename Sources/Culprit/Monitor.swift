import CObserver

/// The thread that looks at every target slot on its tick and captures the stacks of what takes too long.
///
/// It must go on working when every pool, the allocator and the loader are stuck. Everything it needs is allocated before
/// it starts, and `@_noLocks` makes the compiler reject whatever could take a lock of the runtime or allocate.
struct Monitor: ~Copyable {
  /// One tick adds no more than this to the age of a unit of work, however long the process was stopped, frozen or
  /// suspended since the last one.
  static let longestTick: UInt64 = 250_000_000

  /// How long the monitor plans to sleep at most: so much less than a tick that an ordinary delay in waking up is still
  /// counted in full.
  static let longestSleep: UInt64 = longestTick / 9 * 8

  /// How long a thread has to answer.
  static let captureTimeout: UInt64 = 100_000_000

  private let control: UnsafeMutablePointer<observer_control>
  private let slots: UnsafeMutablePointer<observer_slot>
  private let ring: OpaquePointer
  private let trackers: UnsafeMutablePointer<UnitTracker>
  private let frames: UnsafeMutablePointer<observer_frame>
  private var stack: observer_stack
  private var lastTick: UInt64 = 0
  private var captures: UInt64 = 0

  init(
    control: UnsafeMutablePointer<observer_control>,
    slots: UnsafeMutablePointer<observer_slot>,
    ring: OpaquePointer
  ) {
    self.control = control
    self.slots = slots
    self.ring = ring
    trackers = .allocate(capacity: Int(OBSERVER_SLOTS_MAX))
    trackers.initialize(repeating: UnitTracker(), count: Int(OBSERVER_SLOTS_MAX))
    frames = .allocate(capacity: Int(OBSERVER_FRAMES_MAX))
    stack = observer_stack(frames: frames, count: 0, end: OBSERVER_END_NOT_CAPTURED, unwind_ns: 0)
  }

  deinit {
    // SAFETY: both were allocated by this value's initializer and nobody else has them.
    trackers.deallocate()
    frames.deallocate()
  }

  /// The most time that a tick may charge when `planned` was to pass until it: a ninth more, and 10 ms for the scheduler.
  @_noLocks static func allowance(planned: UInt64) -> UInt64 { planned &+ max(planned / 8, 10_000_000) }

  /// Watches until the control says stop.
  @_noLocks mutating func run() {
    var allowed = Self.longestTick
    lastTick = observer_clock_ns()
    while true {
      let seen = observer_control_begin_look(control)
      // Asked for before looking: work that ended before the stop is still seen to have ended.
      let isStopping = observer_control_stopping(control)
      let now = observer_clock_ns()
      captures = 0
      let tick = UnitTracker.Tick(now: now, elapsed: now &- lastTick, allowed: allowed)
      let wait = look(tick)
      lastTick = now
      if isStopping { return }
      // At least a millisecond: a section that is always due must not make the monitor spin.
      let deadline = now &+ max(1_000_000, min(Self.longestSleep, wait))
      // Captures may have taken longer than the sleep that was planned; that time counts, but not without a bound.
      let worked = min(observer_clock_ns() &- now, captures &* Self.captureTimeout &+ Self.longestSleep)
      allowed = Self.allowance(planned: max(deadline &- now, worked))
      observer_control_end_look(control, seen, deadline)
    }
  }

  /// Looks at every slot. Returns how long until one may need it again.
  @_noLocks private mutating func look(_ tick: UnitTracker.Tick) -> UInt64 {
    var wait = UInt64.max
    let used = Int(min(observer_control_slots_used(control), UInt32(OBSERVER_SLOTS_MAX)))
    var index = 0
    while index < used {
      wait = min(wait, look(index, tick))
      index &+= 1
    }
    return wait
  }

  @_noLocks private mutating func look(_ index: Int, _ tick: UnitTracker.Tick) -> UInt64 {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of both tables, which live as long as the monitor.
    let slot = slots + index
    let tracker = trackers + index
    let view = observer_slot_read(slot)
    let look = UnitTracker.Look(
      unit: view.unit,
      generation: view.generation,
      suspicion: view.suspicion_ns,
      threshold: view.threshold_ns,
      earlyInterval: view.early_interval_ns,
      interval: view.interval_ns
    )
    let wasSampled = tracker.pointee.isSampled
    let step = tracker.pointee.advance(look, tick)
    var wait = step.wait
    if step.ended { wait = end(index, tick) ? 0 : Self.longestSleep }
    if step.sample {
      if wasSampled || observer_slot_attend(slot, view.unit) {
        // A module may have been replaced since the last unit was sampled.
        if !wasSampled { observer_unwind_forget() }
        sample(index, view, tick)
      } else {
        tracker.pointee.forget()
        return view.polled ? view.suspicion_ns : UInt64.max
      }
    }
    if step.declare { declare(index, view, tick) }
    // A unit that begins right after this look must be seen when it becomes suspicious.
    if view.polled { wait = min(wait, view.suspicion_ns) }
    return wait
  }

  /// Tells the recorder that the unit in slot `index` is over. Returns whether that was possible.
  @_noLocks private mutating func end(_ index: Int, _ tick: UnitTracker.Tick) -> Bool {
    // SAFETY: as in look(_:_:).
    let tracker = trackers + index
    let endedAt = observer_slot_ended_ns(slots + index, tracker.pointee.unit)
    tracker.pointee.close(endedAt: endedAt, lastTick: lastTick, allowed: tick.allowed)
    var event = event(OBSERVER_EVENT_UNIT_ENDED, index, tick)
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    tracker.pointee.endRecorded()
    return true
  }

  /// Tells the recorder that the unit in slot `index` is a stall. The tracker asks again when that was not possible.
  @_noLocks private mutating func declare(_ index: Int, _ view: observer_slot_view, _ tick: UnitTracker.Tick) {
    var event = event(OBSERVER_EVENT_STALL_BEGAN, index, tick)
    event.tid = threadID(view)
    event.threshold_ns = view.threshold_ns
    if observer_ring_write(ring, &event, nil, 0) { trackers[index].stallRecorded() }
  }

  /// Captures the stack of the thread that works on slot `index`.
  @_noLocks private mutating func sample(_ index: Int, _ view: observer_slot_view, _ tick: UnitTracker.Tick) {
    // SAFETY: as in look(_:_:); `frames` has the room that observer_unwind requires and is used by this thread only.
    let tracker = trackers + index
    captures &+= 1
    let taken = capture(slots + index, view)
    if taken.status == OBSERVER_UNIT_OVER { return }
    var event = event(OBSERVER_EVENT_SAMPLE, index, tick)
    event.tid = threadID(view)
    event.status = taken.status.rawValue
    event.activity = taken.activity.rawValue
    event.call = taken.call
    event.cpu_ns = event.tid == 0 ? 0 : observer_clock_thread_cpu_ns(event.tid)
    event.handler_ns = taken.handlerTime
    event.unwind_ns = stack.unwind_ns
    event.end = stack.end.rawValue
    if !observer_ring_write(ring, &event, frames, stack.count) {
      tracker.pointee.lost &+= 1
    }
  }

  /// How a stack was got.
  private struct Taken {
    var status: observer_capture_status
    /// What the thread was doing; ``OBSERVER_RUNNING`` for one that was signalled while it ran.
    var activity: observer_activity
    /// The system call that it was blocked in, -1 if in none.
    var call: Int32
    /// The time that the thread itself spent in our handler: none when it was read from outside.
    var handlerTime: UInt64

    @_noLocks init(status: observer_capture_status, look: observer_look, handlerTime: UInt64) {
      self.status = status
      activity = look.activity
      call = look.activity == OBSERVER_IN_CALL ? Int32(truncatingIfNeeded: look.call) : -1
      self.handlerTime = handlerTime
    }
  }

  /// Fills ``stack`` with the stack of the thread that works on `slot`.
  ///
  /// A blocked thread is read from outside. One that runs is signalled; so is one that is blocked in a system call that
  /// goes on after a signal, when what can be read from outside does not lead to its outermost function. Every other
  /// system call would return early: there an incomplete stack has to do.
  @_noLocks private mutating func capture(_ slot: UnsafeMutablePointer<observer_slot>, _ view: observer_slot_view) -> Taken {
    stack.count = 0
    stack.end = OBSERVER_END_NOT_CAPTURED
    stack.unwind_ns = 0
    var look = observer_look()
    var copy: UnsafePointer<observer_copy>?
    let passive = observer_capture_passively(view.thread, slot, view.unit, &look, &copy)
    if let copy, passive == OBSERVER_CAPTURED {
      observer_unwind(copy, &stack)
      if stack.end == OBSERVER_END_OUTERMOST || stack.end == OBSERVER_END_COPY || stack.end == OBSERVER_END_FRAME_LIMIT
        || !observer_look_restarts(&look)
      {
        return Taken(status: passive, look: look, handlerTime: 0)
      }
    } else if passive == OBSERVER_UNIT_OVER || passive == OBSERVER_THREAD_GONE {
      return Taken(status: passive, look: look, handlerTime: 0)
    } else if look.activity == OBSERVER_IN_CALL, !observer_look_restarts(&look) {
      return Taken(status: OBSERVER_UNTOUCHABLE, look: look, handlerTime: 0)
    }
    let kept = (count: stack.count, end: stack.end)
    let status = observer_capture(view.thread, slot, view.unit, Self.captureTimeout, &copy)
    guard let copy, status == OBSERVER_CAPTURED else {
      // What was read from outside is better than nothing.
      stack.count = kept.count
      stack.end = kept.end
      return Taken(status: kept.count > 0 && status == OBSERVER_NO_ANSWER ? passive : status, look: look, handlerTime: 0)
    }
    let handlerTime = copy.pointee.handler_ns
    observer_unwind(copy, &stack)
    observer_capture_release(copy)
    return Taken(status: status, look: look, handlerTime: handlerTime)
  }

  @_noLocks private func threadID(_ view: observer_slot_view) -> Int32 {
    view.thread.map { observer_thread_id($0) } ?? 0
  }

  @_noLocks private func event(_ kind: observer_event_kind, _ index: Int, _ tick: UnitTracker.Tick) -> observer_event {
    var event = observer_event()
    event.kind = kind.rawValue
    event.slot = UInt32(truncatingIfNeeded: index)
    event.generation = trackers[index].generation
    event.unit = trackers[index].unit
    event.time_ns = tick.now
    event.age_ns = trackers[index].age
    event.gap_ns = trackers[index].gap
    event.lost = trackers[index].lost
    return event
  }
}
