import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CCulpritUnwind

/// The thread that checks every target slot on each tick for stalls, their durations and ends.
///
/// The monitor must keep working while every pool, the allocator, the loader and a file system are stuck. It reads only
/// the watchdog's own memory, allocated before the start. `@_noLocks` makes the compiler reject code that could
/// allocate or take a lock of the runtime.
struct Monitor: ~Copyable {
  /// The longest time that one tick adds to an age, even if the process was stopped.
  static let longestTick: UInt64 = 250_000_000

  /// The longest planned sleep. With an ordinary wake-up delay, a tick is shorter than ``longestTick``.
  static let longestSleep: UInt64 = longestTick / 9 * 8

  private let control: UnsafeMutablePointer<observer_control>
  private let slots: SlotTable
  private let stalls: StallTable
  private let works: WorkTable
  private let sampling: UnsafeMutablePointer<observer_sampling>
  private let ring: OpaquePointer
  private let trackers: UnsafeMutablePointer<WorkItemTracker>
  private var trackersMade = 0
  private var samplers: SamplerSupervisor
  private let coarseError = clinux_clock_coarse_error_ns()
  private var lastTick: UInt64 = 0
  // Copies: @_noLocks does not accept other files' constants.
  private let eventInterval = WorkItemTracker.eventInterval
  private let eventIntervalPerStall = WorkItemTracker.eventIntervalPerStall
  private var pauses = ExemptTime()
  /// The limit of task stalls declared in a tick, and the number left in the present tick.
  private let taskDeclarationsMax = 48
  private var taskDeclarationsLeft = 0
  private var sampledCount: UInt64 = 0
  private var stalledCount: UInt64 = 0
  /// The last request for which samplers have been woken.
  private var threadsWanted: UInt32 = 0
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
    self.slots = SlotTable(slots)
    self.stalls = StallTable(stalls)
    works = WorkTable(sampling)
    self.sampling = sampling
    self.ring = ring
    self.trackers = trackers
    samplers = SamplerSupervisor(sampling)
  }

  /// The longest wait for a CPU that one tick counts. A longer wait might be a pause of the virtual machine.
  private static let longestStarved: UInt64 = 1_000_000_000

  /// The shortest time between two ticks. It grows with each sampled work item, so ticks use about 1 % of a CPU.
  private static let shortestGap: UInt64 = 1_000_000
  private static let gapPerItem: UInt64 = 40_000
  private static let longestGap: UInt64 = 30_000_000

  @_noLocks static func gap(sampled count: UInt64) -> UInt64 {
    max(shortestGap, min(longestGap, count &* gapPerItem))
  }

  /// Returns the longest time that a tick can charge after a planned sleep.
  @_noLocks static func allowance(planned: UInt64) -> UInt64 { planned &+ max(planned / 8, 10_000_000) }

  @_noLocks mutating func run() {
    var allowed = Self.longestTick
    // A monitor that waits for a CPU also ticks late, but its waiting time counts: the process is running.
    var schedule = clinux_task_open_schedule()
    defer { clinux_descriptor_close(&schedule) }
    var starved = clinux_task_starved_ns(&schedule)
    lastTick = clinux_clock_ns()
    while true {
      let seen = observer_control_begin_tick(control)
      // Read before the slots: the last check must see the end of work that ended before the stop.
      let isStopping = observer_control_stopping(control)
      let now = clinux_clock_ns()
      let starvedBefore = starved
      starved = clinux_task_starved_ns(&schedule)
      allowed &+= min(clinux_clock_between_ns(starvedBefore, starved), Self.longestStarved)
      let tick = WorkItemTracker.Tick(now: now, last: lastTick, allowed: allowed)
      let wait = check(tick)
      if isStopping { return }
      // A section that is always due must not make the monitor spin.
      let gap = Self.gap(sampled: sampledCount)
      let deadline = now &+ max(gap, min(Self.longestSleep, wait))
      allowed = Self.allowance(planned: deadline &- now)
      observer_control_end_tick(control, seen, deadline)
      // Sections that begin while many others are late must not make the monitor spin.
      if gap > Self.shortestGap { observer_control_wait_out(control, now &+ gap) }
    }
  }

  /// Returns the time until the next check is needed.
  @_noLocks mutating func check(_ tick: WorkItemTracker.Tick) -> UInt64 {
    var tick = tick
    let paused = observer_control_paused_ns(control)
    tick.paused = pauses.take(paused, tick, lag: lag(tick))
    tick.isPaused = paused < 0
    tick.eventInterval = max(eventInterval, stalledCount &* eventIntervalPerStall)
    observer_control_add_stopped_ns(control, tick.elapsed &- tick.charged)
    let wait = advance(tick)
    lastTick = tick.now
    return wait
  }

  @_noLocks private mutating func advance(_ tick: WorkItemTracker.Tick) -> UInt64 {
    var wait = UInt64.max
    let used = Int(observer_control_slots_used(control))
    var isSamplerNeeded = false
    // Unused entries of the table take no memory.
    while trackersMade < used {
      // SAFETY: the table has OBSERVER_SLOTS_MAX entries, and `trackersMade` is below that.
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
      observer_control_report_late(control)
      // Wakes the note thread, which checks that the recorder records the stalls.
      cprocess_crash_wake()
    }
    let wanted = observer_control_threads_wanted(control)
    if wanted != threadsWanted {
      threadsWanted = wanted
      isSamplerNeeded = true
    }
    let supervision = samplers.supervise(tick, isNeeded: isSamplerNeeded)
    if supervision.lostSlot >= 0 { emitUnsampled(Int(supervision.lostSlot), tick) }
    return min(wait, supervision.wait)
  }

  /// Returns the time since the reading of the tick's clock; the monitor might have been descheduled.
  @_noLocks private func lag(_ tick: WorkItemTracker.Tick) -> UInt64 {
    let now = clinux_clock_ns()
    return now &- min(now, tick.now)
  }

  @_noLocks private func view(
    _ index: Int,
    _ tick: WorkItemTracker.Tick
  ) -> (view: observer_slot_snapshot, snapshot: WorkItemTracker.SlotSnapshot) {
    let view = slots[index].read()
    var snapshot = WorkItemTracker.SlotSnapshot(
      item: view.item,
      clockError: observer_slot_clock_error_ns(view.item, coarseError),
      generation: view.generation,
      suspicion: view.limits.suspicion_ns,
      threshold: view.limits.threshold_ns,
      earlyInterval: view.limits.early_interval_ns,
      interval: view.limits.interval_ns
    )
    snapshot.unwatched = view.unwatched_ns
    snapshot.isTask = view.owner_kind == OBSERVER_OWNER_TASK
    snapshot.hangDelay = observer_control_hang_delay_ns(control)
    snapshot.exempt = view.exempt_ns
    if view.exempt_ns != 0 { snapshot.lag = lag(tick) }
    snapshot.sharedAt = works[index].shareTime(of: view.item)
    return (view, snapshot)
  }

  @_noLocks private mutating func advance(_ index: Int, _ tick: WorkItemTracker.Tick, _ isSamplerNeeded: inout Bool)
    -> UInt64
  {
    // SAFETY: `index` is below the size of `trackers`, which outlives the monitor.
    let tracker = trackers + index
    let (view, snapshot) = view(index, tick)
    var step = tracker.pointee.advance(snapshot, tick)
    settle(index, tick)
    if step.ended {
      end(index, tick)
      settle(index, tick)
      // The age of the following work item counts from this tick, not from the next.
      step = tracker.pointee.advanceToNext(snapshot, tick)
    }
    var wait = step.wait
    // A pending end waits for space in the ring, so an early check would not help.
    if tracker.pointee.pendingEnd != nil { wait = min(wait, Self.longestSleep) }
    follow(index, tick)
    if step.sample { isSamplerNeeded = want(index, view, tick) || isSamplerNeeded }
    note(index, view, step)
    if step.declare {
      if declare(index, view, tick) { isSamplerNeeded = true } else { wait = Self.longestSleep }
    }
    if step.hang, !hang(index, view, tick) { wait = Self.longestSleep }
    if step.goesOn { goesOn(index, tick) }
    // A work item that begins right after this check must be seen when it becomes suspicious.
    if view.limits.polled { wait = min(wait, view.limits.suspicion_ns) }
    return wait
  }

  /// Publishes the work item to the samplers.
  @_noLocks private func follow(_ index: Int, _ tick: WorkItemTracker.Tick) {
    // SAFETY: `index` is below the size of `trackers`.
    let tracker = trackers + index
    // The recorder must receive the pending end of the previous work item before samples of the next.
    guard tracker.pointee.isSampled, tracker.pointee.pendingEnd == nil else {
      works[index].leave()
      return
    }
    var view = observer_work_snapshot()
    view.item = tracker.pointee.item
    view.generation = tracker.pointee.generation
    view.age_ns = tracker.pointee.age
    view.gap_ns = tracker.pointee.gap
    view.tick_ns = tick.now
    works[index].follow(view)
  }

  /// Returns whether a sampler must be woken.
  @_noLocks private mutating func want(_ index: Int, _ view: observer_slot_snapshot, _ tick: WorkItemTracker.Tick)
    -> Bool
  {
    let item = trackers[index].item
    guard slots[index].wantEndTime(of: item), trackers[index].pendingEnd == nil else { return false }
    if samplers.isStopped || works[index].isAvoided(item) {
      emitUnsampled(index, tick)
      return false
    }
    let isSparing = observer_sampling_is_sparing(sampling)
    // The sampler has skipped the previous request.
    if isSparing, works[index].isDue {
      trackers[index].sampleSpared()
      observer_sampling_spare(sampling)
    }
    works[index].want()
    // While the sampler saves CPU time, it visits tasks without being woken.
    return !isSparing || view.owner_kind != OBSERVER_OWNER_TASK
  }

  /// Reports that the kernel blocks the samplers.
  @_noLocks private func emitUnsampled(_ index: Int, _ tick: WorkItemTracker.Tick) {
    guard trackers[index].item != 0, trackers[index].pendingEnd == nil, observer_ring_is_half_free(ring) else { return }
    var event = event(OBSERVER_EVENT_SAMPLE, index, tick.now)
    event.status = OBSERVER_SAMPLER_STOPPED.rawValue
    event.end = UNWIND_END_NOT_CAPTURED.rawValue
    event.call = -1
    event.tid = threadID(index, slots[index].read())
    event.cpu_ns = event.tid == 0 ? 0 : clinux_clock_thread_cpu_ns(event.tid)
    // The delay is unknown, because reading its file could block as well.
    event.run_delay_ns = .max
    _ = observer_ring_write(ring, &event, nil, 0)
  }

  /// Publishes the state of a stall to the escalation thread.
  @_noLocks private mutating func note(_ index: Int, _ view: observer_slot_snapshot, _ step: WorkItemTracker.Step) {
    let entry = stalls[index]
    // SAFETY: `index` is below the size of `trackers`.
    let tracker = trackers + index
    if step.suspect { entry.suspect(threadID(index, view)) }
    if tracker.pointee.isStalled {
      let tid = threadID(index, view)
      if observer_stall_set(entry, tracker.pointee.item, tracker.pointee.age, tracker.pointee.threshold, tid) {
        hasNewStalls = true
      }
    } else {
      entry.clear()
    }
  }

  @_noLocks private mutating func end(_ index: Int, _ tick: WorkItemTracker.Tick) {
    // SAFETY: `index` is below the size of `trackers`.
    let tracker = trackers + index
    let endedAt = observer_slot_ended_ns(slots[index], tracker.pointee.item, tracker.pointee.generation)
    tracker.pointee.close(
      endedAt: endedAt,
      exempt: observer_slot_ended_exempt_ns(slots[index]),
      lastTick: lastTick,
      allowed: tick.allowed,
      paused: tick.paused
    )
    var tid = lastThreadID(index)
    // If the work item was not sampled, only the stall table contains its thread.
    if tid == 0 {
      let stall = stalls[index].read()
      if stall.item == tracker.pointee.item { tid = stall.tid }
    }
    if tracker.pointee.owe(tid) { observer_control_lose_stall(control) }
  }

  @_noLocks private mutating func settle(_ index: Int, _ tick: WorkItemTracker.Tick) {
    guard let ended = trackers[index].pendingEnd else { return }
    // When many suspended tasks end at once, half of the ring stays free for threads.
    guard !ended.isTask || observer_ring_is_half_free(ring) else { return }
    var event = observer_event()
    event.slot = UInt32(truncatingIfNeeded: index)
    event.generation = ended.generation
    event.item = ended.item
    event.time_ns = tick.now
    event.age_ns = ended.age
    event.gap_ns = ended.gap
    event.lost = works[index].lost(of: ended.item)
    event.spared = ended.spared
    if ended.isStall, !ended.isDeclared {
      event.kind = OBSERVER_EVENT_STALL_BEGAN.rawValue
      event.tid = ended.tid
      event.threshold_ns = ended.threshold
      guard observer_ring_write(ring, &event, nil, 0) else { return }
      trackers[index].pendingStallRecorded()
    }
    event.kind = OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue
    guard observer_ring_write(ring, &event, nil, 0) else { return }
    trackers[index].endRecorded()
  }

  /// Reports a stall. Returns `false` if the report must be repeated.
  @_noLocks private mutating func declare(_ index: Int, _ view: observer_slot_snapshot, _ tick: WorkItemTracker.Tick)
    -> Bool
  {
    // Requests the end time, because a work item can be declared at its first check.
    guard slots[index].wantEndTime(of: view.item) else { return true }
    guard trackers[index].pendingEnd == nil else { return false }
    // When many tasks pass their thresholds at once, a stall of a thread must not wait for all of them.
    if view.owner_kind == OBSERVER_OWNER_TASK {
      guard taskDeclarationsLeft > 0, observer_ring_has_room(ring, 1) else { return false }
      taskDeclarationsLeft &-= 1
    }
    var event = event(OBSERVER_EVENT_STALL_BEGAN, index, tick.now)
    event.tid = threadID(index, view)
    event.threshold_ns = view.limits.threshold_ns
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    trackers[index].stallRecorded()
    observer_sampling_stall_declared(sampling)
    return true
  }

  /// Returns whether the ring had space.
  @_noLocks private mutating func hang(_ index: Int, _ view: observer_slot_snapshot, _ tick: WorkItemTracker.Tick)
    -> Bool
  {
    var event = event(OBSERVER_EVENT_HANG, index, tick.now)
    event.tid = lastThreadID(index)
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    trackers[index].hangRecorded()
    return true
  }

  /// Reports the age of a stall if half of the ring is free, which leaves space for beginnings and ends.
  @_noLocks private func goesOn(_ index: Int, _ tick: WorkItemTracker.Tick) {
    guard observer_ring_is_half_free(ring) else { return }
    var event = event(OBSERVER_EVENT_GOES_ON, index, tick.now)
    _ = observer_ring_write(ring, &event, nil, 0)
  }

  /// Returns the thread that marked the work item, otherwise the last sampled one.
  @_noLocks private func threadID(_ index: Int, _ view: observer_slot_snapshot) -> Int32 {
    if view.owner_kind != OBSERVER_OWNER_WORD || view.owner.tid_address != 0 { return lastThreadID(index) }
    return view.thread.map { observer_thread_id($0) } ?? 0
  }

  @_noLocks private func lastThreadID(_ index: Int) -> Int32 {
    works[index].thread(of: trackers[index].item)
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
    event.lost = works[index].lost(of: event.item)
    event.spared = trackers[index].spared
    return event
  }
}

func monitorCodeAnchor() -> CodeAnchor { { 1 } }
