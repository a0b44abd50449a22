import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CCulpritUnwind

/// The thread that looks at every target slot on its tick, and says from slots and clocks alone what has become a
/// stall, for how long it has lasted and when it is over.
///
/// It must go on working when every pool, the allocator, the loader and a file system are stuck: it reads no memory but
/// the watchdog's own and takes no stack. Who takes stacks is a sampler (``Sampler``); the monitor asks it for samples,
/// and replaces one that is held up. Everything that the monitor needs is allocated before it starts, and `@_noLocks`
/// makes the compiler reject whatever could take a lock of the runtime or allocate.
struct Monitor: ~Copyable {
  /// One tick adds no more than this to the age of a work item, however long the process was stopped, frozen or
  /// suspended since the last one.
  static let longestTick: UInt64 = 250_000_000

  /// How long the monitor plans to sleep at most: so much less than a tick that an ordinary delay in waking up is still
  /// counted in full.
  static let longestSleep: UInt64 = longestTick / 9 * 8

  private let control: UnsafeMutablePointer<observer_control>
  private let slots: UnsafeMutablePointer<observer_slot>
  private let stalls: UnsafeMutablePointer<observer_stall>
  private let sampling: UnsafeMutablePointer<observer_sampling>
  private let ring: OpaquePointer
  private let trackers: UnsafeMutablePointer<WorkItemTracker>
  /// So many of them have been made.
  private var trackersMade = 0
  private var samplers: SamplerSupervisor
  /// How much earlier than the truth a coarse begin can be.
  private let coarseDoubt = clinux_clock_coarse_doubt_ns()
  private var lastTick: UInt64 = 0
  // Constants of another file are none to the check of @_noLocks.
  private let tellInterval = WorkItemTracker.tellInterval
  private let tellIntervalPerStall = WorkItemTracker.tellIntervalPerStall
  private var pauses = ExemptTime()
  /// The most stalls of tasks that are declared in a tick, and those that are left in this one.
  private let taskDeclarationsMax = 48
  private var taskDeclarationsLeft = 0
  /// The number of work items that were sampled, and of stalls, at the last tick.
  private var sampledCount: UInt64 = 0
  private var stalledCount: UInt64 = 0
  /// The requests for a capture of all threads that samplers have been woken for.
  private var threadsWanted: UInt32 = 0
  /// Whether a work item has passed its threshold in this tick.
  private var hasNewStalls = false

  init(
    control: UnsafeMutablePointer<observer_control>,
    slots: UnsafeMutablePointer<observer_slot>,
    stalls: UnsafeMutablePointer<observer_stall>,
    sampling: UnsafeMutablePointer<observer_sampling>,
    trackers: UnsafeMutablePointer<WorkItemTracker>,
    ring: OpaquePointer
  ) {
    self.control = control
    self.slots = slots
    self.stalls = stalls
    self.sampling = sampling
    self.ring = ring
    self.trackers = trackers
    samplers = SamplerSupervisor(sampling)
  }

  /// How much of its waiting for a processor counts in one go: where a virtual machine is held and its clock goes on,
  /// all of that looks like waiting, if the monitor was about to run.
  private static let longestStarved: UInt64 = 1_000_000_000

  /// The least time between two ticks: each work item that is sampled adds to it, so that ticks take a percent of a
  /// processor at most. Up to 25 work items need no more than the first.
  private static let shortestGap: UInt64 = 1_000_000
  private static let gapPerItem: UInt64 = 40_000
  private static let longestGap: UInt64 = 50_000_000

  /// The least time until the next tick while `count` work items are sampled.
  @_noLocks static func gap(sampled count: UInt64) -> UInt64 {
    max(shortestGap, min(longestGap, count &* gapPerItem))
  }

  /// The most time that a tick may charge when `planned` was to pass until it: a ninth more, and 10 ms for the
  /// scheduler.
  @_noLocks static func allowance(planned: UInt64) -> UInt64 { planned &+ max(planned / 8, 10_000_000) }

  /// Watches until the control says stop.
  @_noLocks mutating func run() {
    var allowed = Self.longestTick
    // A monitor that waits for a processor is late, too; but the process runs, and its threads' time counts.
    let schedule = clinux_task_open_schedule()
    defer { clinux_task_close_schedule(schedule) }
    var starved = clinux_task_starved_ns(schedule)
    lastTick = clinux_clock_ns()
    while true {
      let seen = observer_control_begin_tick(control)
      // Asked for before looking: work that ended before the stop is still seen to have ended.
      let isStopping = observer_control_stopping(control)
      let now = clinux_clock_ns()
      let starvedBefore = starved
      starved = clinux_task_starved_ns(schedule)
      allowed &+= min(clinux_clock_between_ns(starvedBefore, starved), Self.longestStarved)
      let tick = WorkItemTracker.Tick(now: now, last: lastTick, allowed: allowed)
      let wait = look(tick)
      if isStopping { return }
      // A section that is always due must not make the monitor spin.
      let gap = Self.gap(sampled: sampledCount)
      let deadline = now &+ max(gap, min(Self.longestSleep, wait))
      allowed = Self.allowance(planned: deadline &- now)
      observer_control_end_tick(control, seen, deadline)
      // Nor must sections that begin while many others are late.
      if gap > Self.shortestGap { observer_control_wait_out(control, now &+ gap) }
    }
  }

  /// Looks at every slot, then at the samplers, for one tick. Returns how long until something may need it again.
  @_noLocks mutating func look(_ tick: WorkItemTracker.Tick) -> UInt64 {
    var tick = tick
    let paused = observer_control_paused_ns(control)
    tick.paused = pauses.take(paused, tick, lag: lag(tick))
    tick.isPaused = paused < 0
    tick.tellInterval = max(tellInterval, stalledCount &* tellIntervalPerStall)
    let wait = advance(tick)
    lastTick = tick.now
    return wait
  }

  @_noLocks private mutating func advance(_ tick: WorkItemTracker.Tick) -> UInt64 {
    var wait = UInt64.max
    let used = Int(min(observer_control_slots_used(control), UInt32(OBSERVER_SLOTS_MAX)))
    var isSamplerNeeded = false
    // Not before they are used: the table takes no memory until then.
    while trackersMade < used {
      // SAFETY: the table has OBSERVER_SLOTS_MAX places.
      (trackers + trackersMade).initialize(to: WorkItemTracker(seed: clinux_clock_ns() &+ UInt64(trackersMade)))
      trackersMade &+= 1
    }
    (sampledCount, stalledCount) = (0, 0)
    taskDeclarationsLeft = taskDeclarationsMax
    var index = 0
    while index < used {
      wait = min(wait, advance(index, tick, &isSamplerNeeded))
      if trackers[index].isSampled { sampledCount &+= 1 }
      if trackers[index].isStalled { stalledCount &+= 1 }
      index &+= 1
    }
    if hasNewStalls {
      hasNewStalls = false
      observer_control_tell_late(control)
      // The thread that writes notes checks that the recorder records them.
      cprocess_crash_wake()
    }
    let wanted = observer_control_threads_wanted(control)
    if wanted != threadsWanted {
      threadsWanted = wanted
      isSamplerNeeded = true
    }
    let supervision = samplers.supervise(tick, isNeeded: isSamplerNeeded)
    // The sample that it was taking will not come.
    if supervision.lostSlot >= 0 { tellUnsampled(Int(supervision.lostSlot), tick) }
    return min(wait, supervision.wait)
  }

  /// How long ago the clock of `tick` was read: its reader may have lost its processor since.
  @_noLocks private func lag(_ tick: WorkItemTracker.Tick) -> UInt64 {
    let now = clinux_clock_ns()
    return now &- min(now, tick.now)
  }

  /// What slot `index` shows.
  @_noLocks private func view(
    _ index: Int,
    _ tick: WorkItemTracker.Tick
  ) -> (view: observer_slot_snapshot, snapshot: WorkItemTracker.SlotSnapshot) {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of the table, which is never freed.
    let view = observer_slot_read(slots + index)
    var snapshot = WorkItemTracker.SlotSnapshot(
      item: view.item,
      doubt: observer_slot_doubt_ns(view.item, coarseDoubt),
      generation: view.generation,
      suspicion: view.suspicion_ns,
      threshold: view.threshold_ns,
      earlyInterval: view.early_interval_ns,
      interval: view.interval_ns
    )
    snapshot.unwatched = view.unwatched_ns
    snapshot.isTask = view.owner_kind == OBSERVER_OWNER_TASK
    snapshot.hangDelay = observer_control_hang_delay_ns(control)
    snapshot.exempt = view.exempt_ns
    if view.exempt_ns != 0 { snapshot.lag = lag(tick) }
    snapshot.sharedAt = observer_work_shared_ns(sampling, UInt32(truncatingIfNeeded: index), view.item)
    return (view, snapshot)
  }

  @_noLocks private mutating func advance(_ index: Int, _ tick: WorkItemTracker.Tick, _ isSamplerNeeded: inout Bool)
    -> UInt64
  {
    // SAFETY: as in view(_:); `trackers` has as many entries.
    let tracker = trackers + index
    let (view, snapshot) = view(index, tick)
    var step = tracker.pointee.advance(snapshot, tick)
    settle(index, tick)
    if step.ended {
      end(index, tick)
      settle(index, tick)
      // The work item that came after it has its age from this tick, not from the next.
      step = tracker.pointee.advanceToNext(snapshot, tick)
    }
    var wait = step.wait
    // The ring is full: there is no hurry to look again.
    if tracker.pointee.owed != nil { wait = min(wait, Self.longestSleep) }
    follow(index, tick)
    if step.sample { isSamplerNeeded = want(index, view, tick) || isSamplerNeeded }
    note(index, view, step)
    if step.declare {
      if declare(index, view, tick) { isSamplerNeeded = true } else { wait = Self.longestSleep }
    }
    if step.hang, !hang(index, view, tick) { wait = Self.longestSleep }
    if step.goesOn { goesOn(index, tick) }
    // A work item that begins right after this look must be seen when it becomes suspicious.
    if view.polled { wait = min(wait, view.suspicion_ns) }
    return wait
  }

  /// Tells the samplers what is followed in slot `index`.
  @_noLocks private func follow(_ index: Int, _ tick: WorkItemTracker.Tick) {
    // SAFETY: as in advance(_:_:_:).
    let tracker = trackers + index
    let place = UInt32(truncatingIfNeeded: index)
    // The recorder would take what is seen of it for the end of the one before.
    guard tracker.pointee.isSampled, tracker.pointee.owed == nil else {
      observer_work_leave(sampling, place)
      return
    }
    var view = observer_work_snapshot()
    view.item = tracker.pointee.item
    view.generation = tracker.pointee.generation
    view.age_ns = tracker.pointee.age
    view.gap_ns = tracker.pointee.gap
    view.tick_ns = tick.now
    observer_work_follow(sampling, place, view)
  }

  /// Asks for a sample of the work item in slot `index`. Returns whether a sampler is to be woken for it.
  @_noLocks private mutating func want(_ index: Int, _ view: observer_slot_snapshot, _ tick: WorkItemTracker.Tick)
    -> Bool
  {
    let item = trackers[index].item
    let place = UInt32(truncatingIfNeeded: index)
    // SAFETY: as in advance(_:_:_:).
    guard observer_slot_want_end_time(slots + index, item), trackers[index].owed == nil else { return false }
    if samplers.isStopped || observer_work_is_avoided(sampling, place, item) {
      tellUnsampled(index, tick)
      return false
    }
    let isSparing = observer_sampling_is_sparing(sampling)
    // The sampler has left the last one.
    if isSparing, observer_work_is_due(sampling, place) {
      trackers[index].sampleSpared()
      observer_sampling_spare(sampling)
    }
    observer_work_want(sampling, place)
    // While it spares processor time, it comes to tasks by itself.
    return !isSparing || view.owner_kind != OBSERVER_OWNER_TASK
  }

  /// Tells the recorder that a sample of the work item in slot `index` could not be taken because the kernel holds up
  /// who takes them.
  @_noLocks private func tellUnsampled(_ index: Int, _ tick: WorkItemTracker.Tick) {
    guard trackers[index].item != 0, trackers[index].owed == nil, observer_ring_is_half_free(ring) else { return }
    var event = event(OBSERVER_EVENT_SAMPLE, index, tick.now)
    event.status = OBSERVER_SAMPLER_STOPPED.rawValue
    event.end = UNWIND_END_NOT_CAPTURED.rawValue
    event.call = -1
    // SAFETY: as in advance(_:_:_:).
    event.tid = threadID(index, observer_slot_read(slots + index))
    event.cpu_ns = event.tid == 0 ? 0 : clinux_clock_thread_cpu_ns(event.tid)
    // The file that tells it may be held up, too.
    event.run_delay_ns = .max
    _ = observer_ring_write(ring, &event, nil, 0)
  }

  /// Tells the escalation thread how far a stall has come.
  @_noLocks private mutating func note(_ index: Int, _ view: observer_slot_snapshot, _ step: WorkItemTracker.Step) {
    // SAFETY: as in advance(_:_:); `stalls` has as many entries.
    let entry = stalls + index
    let tracker = trackers + index
    if step.suspect { observer_stall_suspect(entry, threadID(index, view)) }
    if tracker.pointee.isStalled {
      let tid = threadID(index, view)
      if observer_stall_set(entry, tracker.pointee.item, tracker.pointee.age, tracker.pointee.threshold, tid) {
        hasNewStalls = true
      }
    } else {
      observer_stall_clear(entry)
    }
  }

  /// Has the recorder told that the work item in slot `index` is over.
  @_noLocks private mutating func end(_ index: Int, _ tick: WorkItemTracker.Tick) {
    // SAFETY: as in advance(_:_:_:).
    let tracker = trackers + index
    let endedAt = observer_slot_ended_ns(slots + index, tracker.pointee.item, tracker.pointee.generation)
    tracker.pointee.close(
      endedAt: endedAt,
      exempt: observer_slot_ended_exempt_ns(slots + index),
      lastTick: lastTick,
      allowed: tick.allowed,
      paused: tick.paused
    )
    var tid = lastThreadID(index)
    // Nobody samples what comes after one that is owed.
    if tid == 0 {
      var stall = observer_stall_snapshot()
      // SAFETY: as in note(_:_:_:).
      observer_stall_read(stalls + index, &stall)
      if stall.item == tracker.pointee.item { tid = stall.tid }
    }
    if tracker.pointee.owe(tid) { observer_control_lose_stall(control) }
  }

  /// Tells the recorder of the work item that is over in slot `index`, if it is owed that and there is room.
  @_noLocks private mutating func settle(_ index: Int, _ tick: WorkItemTracker.Tick) {
    guard let ended = trackers[index].owed else { return }
    // Where many suspended tasks end at once, there is room left for threads.
    guard !ended.isTask || observer_ring_is_half_free(ring) else { return }
    var event = observer_event()
    event.slot = UInt32(truncatingIfNeeded: index)
    event.generation = ended.generation
    event.item = ended.item
    event.time_ns = tick.now
    event.age_ns = ended.age
    event.gap_ns = ended.gap
    event.lost = observer_work_lost(sampling, event.slot, ended.item)
    event.spared = ended.spared
    if ended.isStall, !ended.isDeclared {
      event.kind = OBSERVER_EVENT_STALL_BEGAN.rawValue
      event.tid = ended.tid
      event.threshold_ns = ended.threshold
      guard observer_ring_write(ring, &event, nil, 0) else { return }
      trackers[index].owedStallRecorded()
    }
    event.kind = OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue
    guard observer_ring_write(ring, &event, nil, 0) else { return }
    trackers[index].endRecorded()
  }

  /// Tells the recorder that the work item in slot `index` is a stall. Returns whether that was possible.
  @_noLocks private mutating func declare(_ index: Int, _ view: observer_slot_snapshot, _ tick: WorkItemTracker.Tick)
    -> Bool
  {
    // A work item that is declared at first sight was not asked for its end time yet.
    guard observer_slot_want_end_time(slots + index, view.item) else { return true }
    // The one before comes first.
    guard trackers[index].owed == nil else { return false }
    // Where many tasks pass their thresholds at once, the stall of a thread does not wait behind all of them.
    if view.owner_kind == OBSERVER_OWNER_TASK {
      guard taskDeclarationsLeft > 0, observer_ring_has_room(ring, 1) else { return false }
      taskDeclarationsLeft &-= 1
    }
    var event = event(OBSERVER_EVENT_STALL_BEGAN, index, tick.now)
    event.tid = threadID(index, view)
    event.threshold_ns = view.threshold_ns
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    trackers[index].stallRecorded()
    observer_sampling_stall_declared(sampling)
    return true
  }

  /// Tells the recorder that the stall in slot `index` has become a hang. Returns whether that was possible.
  @_noLocks private mutating func hang(_ index: Int, _ view: observer_slot_snapshot, _ tick: WorkItemTracker.Tick)
    -> Bool
  {
    var event = event(OBSERVER_EVENT_HANG, index, tick.now)
    event.tid = lastThreadID(index)
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    trackers[index].hangRecorded()
    return true
  }

  /// Tells the recorder how old the stall in slot `index` is by now. Where the recorder is held up, room is left for what begins and
  /// ends meanwhile; the next tick says more.
  @_noLocks private func goesOn(_ index: Int, _ tick: WorkItemTracker.Tick) {
    guard observer_ring_is_half_free(ring) else { return }
    var event = event(OBSERVER_EVENT_GOES_ON, index, tick.now)
    _ = observer_ring_write(ring, &event, nil, 0)
  }

  /// Who works on the work item in slot `index`: who marked it, or who a sampler has seen, where the work item does not
  /// say.
  @_noLocks private func threadID(_ index: Int, _ view: observer_slot_snapshot) -> Int32 {
    if view.owner_tid_address != 0 { return lastThreadID(index) }
    return view.thread.map { observer_thread_id($0) } ?? 0
  }

  /// The thread that was sampled last for the work item that is followed in slot `index`, 0 if unknown.
  @_noLocks private func lastThreadID(_ index: Int) -> Int32 {
    observer_work_tid(sampling, UInt32(truncatingIfNeeded: index), trackers[index].item)
  }

  @_noLocks private func event(_ kind: observer_event_kind, _ index: Int, _ now: UInt64) -> observer_event {
    var event = observer_event()
    event.kind = kind.rawValue
    event.slot = UInt32(truncatingIfNeeded: index)
    event.generation = trackers[index].generation
    event.item = trackers[index].item
    event.time_ns = now
    event.age_ns = trackers[index].age
    event.gap_ns = trackers[index].gap
    event.lost = observer_work_lost(sampling, event.slot, event.item)
    event.spared = trackers[index].spared
    return event
  }
}

/// Where this file's code lies (``Residency``).
func monitorCodeAnchor() -> CodeAnchor { { 1 } }
