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

  /// How long reading one stack may take.
  static let longestReading: UInt64 = 20_000_000

  private let control: UnsafeMutablePointer<observer_control>
  private let slots: UnsafeMutablePointer<observer_slot>
  private let progress: UnsafeMutablePointer<observer_progress>
  private let ring: OpaquePointer
  private let trackers: UnsafeMutablePointer<UnitTracker>
  /// What is to be sampled in this look, as indices of slots, and how many there are.
  private let due: UnsafeMutablePointer<Int32>
  private var dueCount = 0
  private var reader = ThreadReader()
  private var sweep = Sweep()
  private let coarseResolution = observer_clock_coarse_resolution_ns()
  private var lastTick: UInt64 = 0
  /// How long the captures of this look may have taken.
  private var worked: UInt64 = 0

  init(
    control: UnsafeMutablePointer<observer_control>,
    slots: UnsafeMutablePointer<observer_slot>,
    progress: UnsafeMutablePointer<observer_progress>,
    ring: OpaquePointer
  ) {
    self.control = control
    self.slots = slots
    self.progress = progress
    self.ring = ring
    trackers = .allocate(capacity: Int(OBSERVER_SLOTS_MAX))
    trackers.initialize(repeating: UnitTracker(), count: Int(OBSERVER_SLOTS_MAX))
    due = .allocate(capacity: Int(OBSERVER_SLOTS_MAX))
  }

  deinit {
    // SAFETY: both were allocated by this value's initializer and nobody else has them.
    trackers.deallocate()
    due.deallocate()
  }

  /// How much of its waiting for a processor counts in one go: where a virtual machine is held and its clock goes on, all
  /// of that looks like waiting, if the monitor was about to run.
  private static let longestStarved: UInt64 = 1_000_000_000

  /// The most time that a tick may charge when `planned` was to pass until it: a ninth more, and 10 ms for the scheduler.
  @_noLocks static func allowance(planned: UInt64) -> UInt64 { planned &+ max(planned / 8, 10_000_000) }

  /// Watches until the control says stop.
  @_noLocks mutating func run() {
    var allowed = Self.longestTick
    // A monitor that waits for a processor is late, too; but the process runs, and its threads' time counts.
    let schedule = observer_task_open_schedule()
    defer { observer_task_close_schedule(schedule) }
    var starved = observer_task_starved_ns(schedule)
    lastTick = observer_clock_ns()
    while true {
      let seen = observer_control_begin_look(control)
      // Asked for before looking: work that ended before the stop is still seen to have ended.
      let isStopping = observer_control_stopping(control)
      let now = observer_clock_ns()
      worked = 0
      let starvedBefore = starved
      starved = observer_task_starved_ns(schedule)
      allowed &+= min(starved &- starvedBefore, Self.longestStarved)
      let tick = UnitTracker.Tick(now: now, elapsed: now &- lastTick, allowed: allowed)
      let wait = look(tick)
      lastTick = now
      if isStopping {
        reader.takeAllBack()
        return
      }
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
    // A module may have been replaced by another one since. What is forgotten costs a microsecond a frame to learn again.
    if dueCount > 0 { observer_unwind_forget() }
    // Answers are collected first: what they are about is not due again then.
    reader.beginCollecting()
    while let taken = reader.nextAnswer(trackers) { emit(taken.target, taken.reading, tick) }
    var next = 0
    while next < dueCount {
      sample(Int(due[next]), tick)
      next &+= 1
    }
    let wanted = observer_control_threads_wanted(control)
    if sweep.isWanted(wanted) {
      if !sweep.isUnderWay { observer_unwind_forget() }
      wait = min(wait, sweep.advance(&reader, ring, wanted: wanted))
      worked &+= sweep.slice
    }
    if reader.openCount > 0 { wait = min(wait, reader.tick) }
    return wait
  }

  /// What slot `index` shows.
  @_noLocks private func view(_ index: Int) -> (view: observer_slot_view, look: UnitTracker.Look) {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of the table, which is never freed.
    let view = observer_slot_read(slots + index)
    var look = UnitTracker.Look(
      unit: view.unit,
      resolution: view.polled ? coarseResolution : 0,
      generation: view.generation,
      suspicion: view.suspicion_ns,
      threshold: view.threshold_ns,
      earlyInterval: view.early_interval_ns,
      interval: view.interval_ns
    )
    look.head = view.head_ns
    look.hangDelay = observer_control_hang_delay_ns(control)
    look.isExcused = view.excused || observer_control_paused(control)
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
    note(index, view, step)
    if step.declare, !declare(index, view, tick) { wait = Self.longestSleep }
    if step.hang, !hang(index, view, tick) { wait = Self.longestSleep }
    if step.goesOn { goesOn(index, tick) }
    // A unit that begins right after this look must be seen when it becomes suspicious.
    if view.polled { wait = min(wait, view.suspicion_ns) }
    return wait
  }

  /// Tells the warden how far a stall has come.
  @_noLocks private mutating func note(_ index: Int, _ view: observer_slot_view, _ step: UnitTracker.Step) {
    // SAFETY: as in look(_:_:); `progress` has as many entries.
    let entry = progress + index
    let tracker = trackers + index
    if step.suspect { observer_progress_suspect(entry, threadID(view)) }
    if tracker.pointee.isStalled {
      let tid = threadID(view)
      observer_progress_set(entry, tracker.pointee.unit, tracker.pointee.age, tracker.pointee.threshold, tid)
    } else {
      observer_progress_clear(entry)
    }
  }

  /// Tells the recorder that the unit in slot `index` is over. Returns whether that was possible.
  @_noLocks private mutating func end(_ index: Int, _ tick: UnitTracker.Tick) -> Bool {
    // SAFETY: as in look(_:_:).
    let tracker = trackers + index
    let endedAt = observer_slot_ended_ns(slots + index, tracker.pointee.unit)
    tracker.pointee.close(endedAt: endedAt, lastTick: lastTick, allowed: tick.allowed)
    if tracker.pointee.isUndeclaredStall {
      guard tell(index, tracker.pointee.threadID, tracker.pointee.threshold, tick) else { return false }
    }
    var event = event(OBSERVER_EVENT_UNIT_ENDED, index, tick.now)
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    tracker.pointee.endRecorded()
    return true
  }

  /// Tells the recorder that the unit in slot `index` is a stall. Returns whether that was possible.
  @_noLocks private mutating func declare(_ index: Int, _ view: observer_slot_view, _ tick: UnitTracker.Tick) -> Bool {
    // A unit that is declared at first sight has not been attended to yet.
    guard observer_slot_attend(slots + index, view.unit) else { return true }
    guard tell(index, threadID(view), view.threshold_ns, tick) else { return false }
    sweep.stallDeclared()
    return true
  }

  /// Tells the recorder that the stall in slot `index` has become a hang. Returns whether that was possible.
  @_noLocks private mutating func hang(_ index: Int, _ view: observer_slot_view, _ tick: UnitTracker.Tick) -> Bool {
    var event = event(OBSERVER_EVENT_HANG, index, tick.now)
    event.tid = trackers[index].threadID
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    trackers[index].hangRecorded()
    return true
  }

  /// Tells the recorder how old the stall in slot `index` is by now. Where there is no room, the next tick says more.
  @_noLocks private func goesOn(_ index: Int, _ tick: UnitTracker.Tick) {
    var event = event(OBSERVER_EVENT_GOES_ON, index, tick.now)
    _ = observer_ring_write(ring, &event, nil, 0)
  }

  /// Tells the recorder that the unit that is followed in slot `index` is a stall.
  @_noLocks private func tell(_ index: Int, _ thread: Int32, _ threshold: UInt64, _ tick: UnitTracker.Tick) -> Bool {
    var event = event(OBSERVER_EVENT_STALL_BEGAN, index, tick.now)
    event.tid = thread
    event.threshold_ns = threshold
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    trackers[index].stallRecorded()
    return true
  }

  /// Samples slot `index`, unless its thread has been asked already.
  @_noLocks private mutating func sample(_ index: Int, _ tick: UnitTracker.Tick) {
    guard !reader.isAsked(index), let target = target(index) else { return }
    trackers[index].threadID = target.threadID
    guard target.threadID != 0 || target.ownerWord == 0 else {
      emit(target, reader.nobody(), tick)
      return
    }
    if let taken = reader.read(target) { emit(taken.target, taken.reading, tick) }
    worked &+= Self.longestReading
  }

  /// What is to be sampled in slot `index`; `nil` when its unit is over.
  @_noLocks private func target(_ index: Int) -> ThreadReader.Target? {
    // SAFETY: as in look(_:_:).
    let slot = slots + index
    let view = observer_slot_read(slot)
    guard view.unit == trackers[index].unit, view.unit != 0, observer_slot_attend(slot, view.unit) else { return nil }
    var target = ThreadReader.Target()
    target.index = index
    target.ownerWord = view.owner_word
    target.progressWord = view.progress_word
    target.threadID = threadID(view)
    if view.owner_word == 0 {
      target.thread = view.thread
    } else if target.threadID != 0 {
      target.thread = observer_task_visit(target.threadID)
    }
    target.slot = UnsafePointer(slot)
    target.unit = view.unit
    return target
  }

  /// Tells the recorder of a sample.
  @_noLocks private mutating func emit(
    _ target: ThreadReader.Target,
    _ reading: ThreadReader.Reading,
    _ tick: UnitTracker.Tick
  ) {
    let index = target.index
    guard target.slot != nil else {
      sweep.write(target, reading, reader, ring)
      return
    }
    // A thread that is registered stays.
    if let thread = target.thread { observer_task_leave(thread) }
    var reading = reading
    // What another thread works on by now is not what this one was seen to do.
    if target.threadID != 0, target.ownerWord != 0, observer_slot_owner(target.ownerWord) != target.threadID {
      reading = reader.nobody()
    }
    switch reading.status {
    case OBSERVER_UNIT_OVER: return
    case OBSERVER_CAPTURED: trackers[index].answered()
    case OBSERVER_NO_ANSWER, OBSERVER_NO_LOOK, OBSERVER_REQUESTS_STUCK: trackers[index].notAnswered()
    default: break
    }
    var event = event(OBSERVER_EVENT_SAMPLE, index, reading.time)
    // The tracker's age is that at this tick. An answer may be older; what is newer by more than captures may take came
    // after the process had been stopped.
    let age = trackers[index].age
    event.age_ns =
      reading.time >= tick.now
      ? age &+ min(reading.time &- tick.now, worked &+ Self.longestReading) : age &- min(age, tick.now &- reading.time)
    reader.describe(target, reading, &event)
    if let slot = target.slot {
      observer_slot_label(slot, &event.label)
      event.progress = observer_slot_progress(target.progressWord)
    }
    if !reader.write(&event, to: ring) { trackers[index].lost &+= 1 }
  }

  @_noLocks private func threadID(_ view: observer_slot_view) -> Int32 {
    if view.owner_word != 0 { return observer_slot_owner(view.owner_word) }
    return view.thread.map { observer_thread_id($0) } ?? 0
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
