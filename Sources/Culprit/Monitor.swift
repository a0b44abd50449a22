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

  /// How long what was learnt about code is believed.
  static let longestMemory: UInt64 = 1_000_000_000

  /// How long the threads of one batch have to answer, all together.
  static let captureTimeout: UInt64 = 20_000_000

  private let control: UnsafeMutablePointer<observer_control>
  private let slots: UnsafeMutablePointer<observer_slot>
  private let ring: OpaquePointer
  private let trackers: UnsafeMutablePointer<UnitTracker>
  /// What is to be sampled in this look, as indices of slots, and how many there are.
  private let due: UnsafeMutablePointer<Int32>
  private var dueCount = 0
  /// Signals that are on their way.
  private let sent: UnsafeMutablePointer<Sent>
  private var sentCount = 0
  private let frames: UnsafeMutablePointer<observer_frame>
  private var stack: observer_stack
  private let coarseResolution = observer_clock_coarse_resolution_ns()
  private var lastTick: UInt64 = 0
  /// How long the captures of this look may have taken.
  private var worked: UInt64 = 0
  /// When what was learnt about code was last forgotten.
  private var lastForgotten: UInt64 = 0

  /// A thread that was signalled and has not answered yet.
  private struct Sent {
    var request: UInt32 = 0
    var index = 0
    var thread: Int32 = 0
    var look = observer_look()
  }

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
    due = .allocate(capacity: Int(OBSERVER_SLOTS_MAX))
    sent = .allocate(capacity: Int(OBSERVER_REQUESTS_MAX))
    sent.initialize(repeating: Sent(), count: Int(OBSERVER_REQUESTS_MAX))
    frames = .allocate(capacity: Int(OBSERVER_FRAMES_MAX))
    stack = observer_stack(frames: frames, count: 0, end: OBSERVER_END_NOT_CAPTURED, unwind_ns: 0)
  }

  deinit {
    // SAFETY: all were allocated by this value's initializer and nobody else has them.
    trackers.deallocate()
    due.deallocate()
    sent.deallocate()
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
      worked = 0
      let tick = UnitTracker.Tick(now: now, elapsed: now &- lastTick, allowed: allowed)
      let wait = look(tick)
      lastTick = now
      if isStopping { return }
      // At least a millisecond: a section that is always due must not make the monitor spin.
      let deadline = now &+ max(1_000_000, min(Self.longestSleep, wait))
      // Captures may have taken longer than the sleep that was planned; that time counts, but not without a bound.
      let used = min(observer_clock_ns() &- now, worked)
      allowed = Self.allowance(planned: max(deadline &- now, used))
      observer_control_end_look(control, seen, deadline)
    }
  }

  /// Looks at every slot: first at what has begun, ended or become a stall, then, because that may take a while, at the
  /// stacks. Returns how long until a slot may need it again.
  @_noLocks private mutating func look(_ tick: UnitTracker.Tick) -> UInt64 {
    var wait = UInt64.max
    let used = Int(min(observer_control_slots_used(control), UInt32(OBSERVER_SLOTS_MAX)))
    dueCount = 0
    var index = 0
    while index < used {
      wait = min(wait, look(index, tick))
      index &+= 1
    }
    // A module may have been replaced by another one since.
    if dueCount > 0, tick.now &- lastForgotten > Self.longestMemory {
      observer_unwind_forget()
      lastForgotten = tick.now
    }
    var next = 0
    while next < dueCount {
      next = sampleBatch(from: next, tick)
      worked &+= Self.captureTimeout
    }
    return wait
  }

  /// What slot `index` shows.
  @_noLocks private func view(_ index: Int) -> (view: observer_slot_view, look: UnitTracker.Look) {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of the table, which is never freed.
    let view = observer_slot_read(slots + index)
    let look = UnitTracker.Look(
      unit: view.unit,
      resolution: view.polled ? coarseResolution : 0,
      generation: view.generation,
      suspicion: view.suspicion_ns,
      threshold: view.threshold_ns,
      earlyInterval: view.early_interval_ns,
      interval: view.interval_ns
    )
    return (view, look)
  }

  @_noLocks private mutating func look(_ index: Int, _ tick: UnitTracker.Tick) -> UInt64 {
    // SAFETY: as in view(_:); `trackers` has as many entries.
    let tracker = trackers + index
    let (view, look) = view(index)
    var step = tracker.pointee.advance(look, tick)
    if step.ended {
      // The ring is full: there is no hurry to look again.
      guard end(index, tick) else { return Self.longestSleep }
      // The unit that came after it has its age from this tick, not from the next.
      step = tracker.pointee.advance(look, tick)
    }
    var wait = step.wait
    if step.sample {
      due[dueCount] = Int32(truncatingIfNeeded: index)
      dueCount &+= 1
    }
    if step.declare, !declare(index, view, tick) { wait = Self.longestSleep }
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
    var event = event(OBSERVER_EVENT_UNIT_ENDED, index, tick.now)
    event.age_ns = tracker.pointee.age
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    tracker.pointee.endRecorded()
    return true
  }

  /// Tells the recorder that the unit in slot `index` is a stall. Returns whether that was possible.
  @_noLocks private mutating func declare(_ index: Int, _ view: observer_slot_view, _ tick: UnitTracker.Tick) -> Bool {
    // A unit that is declared at first sight has not been attended to yet.
    guard observer_slot_attend(slots + index, view.unit) else { return true }
    var event = event(OBSERVER_EVENT_STALL_BEGAN, index, tick.now)
    event.tid = threadID(view)
    event.threshold_ns = view.threshold_ns
    event.age_ns = trackers[index].age
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    trackers[index].stallRecorded()
    return true
  }

  /// Samples what is due from place `first` on, until all is done or as many signals are on their way as there can be,
  /// and waits for the answers. Returns the place to go on from.
  @_noLocks private mutating func sampleBatch(from first: Int, _ tick: UnitTracker.Tick) -> Int {
    var place = first
    sentCount = 0
    while place < dueCount, sentCount < Int(OBSERVER_REQUESTS_MAX) {
      sample(Int(due[place]), tick)
      place &+= 1
    }
    let deadline = observer_clock_ns() &+ Self.captureTimeout
    var number = 0
    while number < sentCount {
      collect(sent[number], deadline, tick)
      number &+= 1
    }
    return place
  }

  /// Takes the stack of the thread that works on slot `index`, or sends it a signal.
  ///
  /// A blocked thread is read from outside. One that runs is signalled; so is one that is blocked in a system call that
  /// goes on after a signal, when what can be read from outside does not lead to its outermost function. Every other
  /// system call would return early: there an incomplete stack has to do.
  @_noLocks private mutating func sample(_ index: Int, _ tick: UnitTracker.Tick) {
    // SAFETY: as in look(_:_:).
    let slot = slots + index
    let view = observer_slot_read(slot)
    guard view.unit == trackers[index].unit, view.unit != 0, observer_slot_attend(slot, view.unit) else { return }
    stack.count = 0
    stack.end = OBSERVER_END_NOT_CAPTURED
    stack.unwind_ns = 0
    let thread = threadID(view)
    var look = observer_look()
    var copy: UnsafePointer<observer_copy>?
    var status = observer_capture_passively(view.thread, slot, view.unit, &look, &copy)
    if let copy, status == OBSERVER_CAPTURED {
      observer_unwind(copy, &stack)
      let isComplete =
        stack.end == OBSERVER_END_OUTERMOST || stack.end == OBSERVER_END_COPY || stack.end == OBSERVER_END_FRAME_LIMIT
      if isComplete || !observer_look_restarts(&look) { return emit(index, status, look, thread, handlerTime: 0, tick) }
    } else if status == OBSERVER_UNIT_OVER {
      return
    } else if status == OBSERVER_THREAD_GONE {
      return emit(index, status, look, thread, handlerTime: 0, tick)
    } else if look.activity == OBSERVER_IN_CALL, !observer_look_restarts(&look) {
      return emit(index, OBSERVER_UNTOUCHABLE, look, thread, handlerTime: 0, tick)
    }
    var request: UInt32 = 0
    status = observer_capture_send(view.thread, slot, view.unit, &request)
    if status == OBSERVER_CAPTURED {
      sent[sentCount] = Sent(request: request, index: index, thread: thread, look: look)
      sentCount &+= 1
    } else {
      // What was read from outside, if anything, is better than nothing.
      emit(index, stack.count > 0 ? OBSERVER_CAPTURED : status, look, thread, handlerTime: 0, tick)
    }
  }

  /// Waits for the answer to a signal and tells the recorder what came of it.
  @_noLocks private mutating func collect(_ sent: Sent, _ deadline: UInt64, _ tick: UnitTracker.Tick) {
    stack.count = 0
    stack.end = OBSERVER_END_NOT_CAPTURED
    stack.unwind_ns = 0
    var copy: UnsafePointer<observer_copy>?
    let status = observer_capture_collect(sent.request, deadline, &copy)
    var handlerTime: UInt64 = 0
    if let copy, status == OBSERVER_CAPTURED {
      handlerTime = copy.pointee.handler_ns
      observer_unwind(copy, &stack)
      observer_capture_release(copy)
      trackers[sent.index].answered()
    } else if status == OBSERVER_UNIT_OVER {
      return
    } else {
      trackers[sent.index].notAnswered()
    }
    emit(sent.index, status, sent.look, sent.thread, handlerTime: handlerTime, tick)
  }

  /// Tells the recorder of a sample whose frames are in ``stack``.
  @_noLocks private mutating func emit(
    _ index: Int,
    _ status: observer_capture_status,
    _ look: observer_look,
    _ thread: Int32,
    handlerTime: UInt64,
    _ tick: UnitTracker.Tick
  ) {
    let now = observer_clock_ns()
    var event = event(OBSERVER_EVENT_SAMPLE, index, now)
    // Since the tick so much has passed, of which no more can count than captures may take.
    event.age_ns = trackers[index].age &+ min(now &- tick.now, worked &+ Self.captureTimeout)
    event.tid = thread
    event.status = status.rawValue
    event.activity = look.activity.rawValue
    event.call = look.activity == OBSERVER_IN_CALL ? Int32(truncatingIfNeeded: look.call) : -1
    event.cpu_ns = thread == 0 ? 0 : observer_clock_thread_cpu_ns(thread)
    event.handler_ns = handlerTime
    event.unwind_ns = stack.unwind_ns
    event.end = stack.end.rawValue
    if !observer_ring_write(ring, &event, frames, stack.count) { trackers[index].lost &+= 1 }
  }

  @_noLocks private func threadID(_ view: observer_slot_view) -> Int32 {
    view.thread.map { observer_thread_id($0) } ?? 0
  }

  @_noLocks private func event(_ kind: observer_event_kind, _ index: Int, _ now: UInt64) -> observer_event {
    var event = observer_event()
    event.kind = kind.rawValue
    event.slot = UInt32(truncatingIfNeeded: index)
    event.generation = trackers[index].generation
    event.unit = trackers[index].unit
    event.time_ns = now
    event.age_ns = trackers[index].age
    event.gap_ns = trackers[index].gap
    event.lost = trackers[index].lost
    return event
  }
}
