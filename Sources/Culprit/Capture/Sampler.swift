import CCulpritLinux
import CCulpritObserver

/// The thread that takes stack traces: of work items that the monitor has marked as due, and of all threads.
///
/// The kernel might block a sampler while it reads a stack; the sampler is then replaced. All memory is allocated
/// before sampling starts.
struct Sampler: ~Copyable {
  private let sampling: UnsafeMutablePointer<observer_sampling>
  private let number: UInt32
  private let control: UnsafeMutablePointer<observer_control>
  private let slots: SlotTable
  private let stalls: StallTable
  private let works: WorkTable
  private let backoffs: UnsafeMutablePointer<SampleBackoff>
  private let lastSamples: UnsafeMutablePointer<LastSample>
  private let ring: OpaquePointer
  // A copy: @_noLocks does not accept another file's constants.
  private let longestTick = Monitor.longestTick
  /// Idle time after which copied data is wiped, in nanoseconds.
  private let wipeDelay: UInt64 = 1_000_000_000
  /// Time of the last work; 0 if everything has been wiped since.
  private var lastWork: UInt64 = 0
  private var nextOwner: UInt32 = 0
  /// A counter that alternates between tasks of one work item.
  private var taskTurn: UInt32 = 0
  private let ownersAtOnce = 16
  /// Pause after counting a queue, as a multiple of the count's duration.
  private let countPause: UInt64 = 63
  private let countTimeMax: UInt64 = 20_000_000
  private let holders: UnsafeMutablePointer<observer_holders>
  /// Minimum number of free ring entries before a lock owner is sampled.
  private let eventsKept: UInt32 = 32
  private var reader: ThreadReader
  private var followed: FollowedWork
  private var queue = SampleQueue()
  private var budget = CPUBudget()
  /// Longest time of one pass in nanoseconds.
  private let passMax: UInt64 = 5_000_000
  private var isWritten = false
  private var allThreads: AllThreadsCapture

  init(
    number: UInt32,
    sampling: UnsafeMutablePointer<observer_sampling>,
    control: UnsafeMutablePointer<observer_control>,
    slots: UnsafeMutablePointer<observer_slot>,
    stalls: UnsafeMutablePointer<observer_stall>,
    backoffs: UnsafeMutablePointer<SampleBackoff>,
    lastSamples: UnsafeMutablePointer<LastSample>,
    ring: OpaquePointer
  ) {
    self.sampling = sampling
    self.number = number
    self.control = control
    self.slots = SlotTable(slots)
    self.stalls = StallTable(stalls)
    works = WorkTable(sampling)
    self.backoffs = backoffs
    self.lastSamples = lastSamples
    self.ring = ring
    holders = .allocate(capacity: 1)
    holders.initialize(to: observer_holders())
    reader = ThreadReader(sampling, number)
    followed = FollowedWork(works, self.slots)
    allThreads = AllThreadsCapture(sampling)
  }

  deinit {
    // SAFETY: allocated by this value's initializer, and not shared.
    holders.deallocate()
  }

  /// Takes samples until stopped. The sampler must have been reported ready.
  @_noLocks mutating func run() {
    while true {
      let seen = observer_sampler_word(sampling, number)
      if observer_sampling_stopping(sampling) {
        reader.cancelAll()
        wipeCopies()
        observer_sampler_end(sampling, number)
        return
      }
      var wait = UInt64.max
      switch observer_sampler_state(sampling, number) {
      case OBSERVER_SAMPLER_ACTIVE:
        wait = work(seen)
        if wait == .max, lastWork > 0 { wait = wipe() }
      case OBSERVER_SAMPLER_HELD_UP:
        reader.cancelAll()
        allThreads.abandon()
        wipeCopies()
        lastWork = 0
        observer_sampler_come_back(sampling, number)
        continue
      default: break
      }
      let deadline = wait == .max ? UInt64.max : clinux_clock_ns() &+ wait
      observer_sampler_wait(sampling, number, seen, deadline)
    }
  }

  private var isActive: Bool {
    @_noLocks get { observer_sampler_state(sampling, number) == OBSERVER_SAMPLER_ACTIVE }
  }

  /// Wipes copied data after an idle time. Returns the time until the next call.
  @_noLocks private mutating func wipe() -> UInt64 {
    let idle = clinux_clock_ns() &- lastWork
    guard idle >= wipeDelay else { return wipeDelay &- idle }
    reader.beginStep(ThreadReader.Target())
    wipeCopies()
    reader.endStep()
    lastWork = 0
    return .max
  }

  /// Returns the time until the next call in nanoseconds.
  @_noLocks private mutating func work(_ seen: UInt32) -> UInt64 {
    // Answers are collected first, so their work items are no longer due.
    collect()
    followed.find(Int(observer_control_slots_used(control)), lastSamples, &queue)
    let isSparing = isOverBudget(clinux_clock_ns())
    var wait = takeSamples(seen, isSparing)
    let requests = observer_control_threads_wanted(control)
    // While saving CPU time, only urgent captures run: each late work item requests one.
    let isUrgent = !isSparing || observer_capture_all_is_urgent(sampling, requests)
    if isActive, isUrgent, observer_capture_all_is_wanted(sampling, requests) {
      if !allThreads.isUnderWay { beginUnwinding() }
      lastWork = clinux_clock_ns()
      wait = min(wait, allThreads.advance(&reader, ring, requests: requests))
    }
    if reader.openCount > 0 { wait = min(wait, reader.tick) }
    return wait
  }

  /// Takes due samples, the most important first; only protected ones if `isSparing`. Returns the time in nanoseconds
  /// until the remaining samples can be taken.
  @_noLocks private mutating func takeSamples(_ seen: UInt32, _ isSparing: Bool) -> UInt64 {
    let began = clinux_clock_ns()
    let count = isSparing ? queue.protectedCount : queue.count
    var (place, taken) = (0, 0)
    while place < count, isActive {
      let index = isSparing ? queue.protectedIndex(place) : queue.index(place)
      place &+= 1
      guard works[index].take() else { continue }
      if taken == 0 { beginUnwinding() }
      taken &+= 1
      lastWork = clinux_clock_ns()
      lastSamples[index].begin(works[index].read().item, lastWork)
      sample(index)
      collect()
      if observer_sampler_word(sampling, number) != seen || clinux_clock_ns() &- began > passMax { break }
    }
    guard queue.dueCount > taken else { return .max }
    return isSparing ? budget.wait(percent: observer_sampling_budget(sampling)) : 0
  }

  /// Updates the CPU budget. Returns whether it is used up. A few protected work items are exempt.
  @_noLocks private mutating func isOverBudget(_ now: UInt64) -> Bool {
    var isOver = false
    if queue.followedCount > queue.protectedMax {
      let percent = observer_sampling_budget(sampling)
      budget.update(now: now, used: observer_own_use_ns(), percent: percent)
      isOver = budget.isExhausted
    }
    observer_sampling_set_sparing(sampling, isOver)
    return isOver
  }

  @_noLocks private mutating func collect() {
    guard reader.openCount > 0 else { return }
    reader.beginCollecting()
    while let taken = reader.nextAnswer() { emit(taken.target, taken.reading) }
  }

  @_noLocks private func wipeCopies() {
    observer_capture_wipe()
    observer_unwind_wipe()
  }

  /// Drops cached data of unloaded modules. The kernel might block the sampler meanwhile.
  @_noLocks private func beginUnwinding() {
    reader.beginStep(ThreadReader.Target())
    observer_unwind_begin_sample()
    reader.endStep()
  }

  @_noLocks private mutating func sample(_ index: Int) {
    let view = slots[index].read()
    let work = works[index].read()
    guard view.item != 0, view.item == work.item, view.generation == work.generation else { return }
    var target = ThreadReader.Target(index, slots[index], item: view.item, generation: view.generation)
    target.queueHeadAddress = view.queue_head_address
    switch view.owner_kind {
    case OBSERVER_OWNER_THREADS:
      target.owners = view.owner.threads
      sampleOwners(target)
    case OBSERVER_OWNER_TASK:
      (target.ownTask, target.ownTaskID) = (view.owner.task, view.owner_task_id)
      sampleTask(target)
    default: sampleThread(target, view)
    }
  }

  @_noLocks private mutating func sampleThread(_ target: ThreadReader.Target, _ view: observer_slot_snapshot) {
    guard !reader.isAsked(target.index) else { return }
    var target = target
    let work = works[target.index]
    target.ownerTIDAddress = view.owner.tid_address
    if target.ownerTIDAddress == 0 {
      target.isMarked = view.thread != nil
      target.thread = view.thread
      target.threadID = view.thread.map { observer_thread_id($0) } ?? 0
    } else {
      reader.beginStep(target)
      target.threadID = observer_slot_owner(target.ownerTIDAddress)
      reader.endStep()
      if target.threadID != 0, work.thread(of: target.item) == 0 { stalls[target.index].suspect(target.threadID) }
    }
    if target.threadID != 0 || target.ownerTIDAddress != 0 { work.setThread(target.threadID, of: target.item) }
    guard backoffs[target.index].allows(target.item, clinux_clock_ns()) else { return }
    guard target.threadID != 0 || target.ownerTIDAddress == 0 else {
      emit(target, reader.noWorker())
      return
    }
    guard !putOff(target) else { return }
    capture(target)
  }

  /// Takes a stack or sends a request. Emitting the result or canceling the request releases a temporary thread entry.
  @_noLocks private mutating func capture(_ target: ThreadReader.Target) {
    var target = target
    if target.thread == nil, target.threadID != 0 { target.thread = observer_visit_begin(target.threadID) }
    if let taken = reader.read(target) { emit(taken.target, taken.reading) }
  }

  /// Postpones the sample if the thread has an open request for another slot, whose answer serves both slots.
  @_noLocks private func putOff(_ target: ThreadReader.Target) -> Bool {
    guard reader.isAskedForAnother(target) else { return false }
    works[target.index].want()
    return true
  }

  /// Samples up to ``ownersAtOnce`` owners, in turn.
  @_noLocks private mutating func sampleOwners(_ target: ThreadReader.Target) {
    guard let owners = target.owners else { return }
    let used = observer_owners_used(owners)
    var searched = 0
    var step: UInt32 = 0
    while step < used, searched < ownersAtOnce, isActive {
      let place = (nextOwner &+ step) % used
      step &+= 1
      var one = target
      one.threadID = observer_owners_at(owners, place)
      guard one.threadID != 0, !reader.isAsked(target.index, one.threadID),
        backoffs[target.index].allows(one.item, clinux_clock_ns(), one.threadID)
      else { continue }
      searched &+= 1
      one.ownerTIDAddress = observer_owners_address(owners, place)
      // Only the first sample of a round reads the queue.
      if searched > 1 { one.queueHeadAddress = 0 }
      capture(one)
    }
    nextOwner = used > 0 ? (nextOwner &+ step) % used : 0
  }

  /// Samples the thread that runs the target's task, a thread that delays the enqueued task, or the suspended task.
  @_noLocks private mutating func sampleTask(_ target: ThreadReader.Target) {
    guard !reader.isAsked(target.index) else { return }
    var work = observer_task_work()
    let mark = observer_section_number(UInt32(truncatingIfNeeded: target.index), target.generation)
    reader.beginStep(target)
    observer_swift_task_find(target.ownTask, target.ownTaskID, taskTurn, mark, &work)
    reader.endStep()
    taskTurn &+= 1
    var one = target
    one.task = work.task
    one.taskID = work.id
    one.waiters = work.waiters
    switch work.state {
    case OBSERVER_TASK_RUNNING, OBSERVER_TASK_ENQUEUED:
      let isEnqueued = work.state == OBSERVER_TASK_ENQUEUED
      guard work.tid != 0 else {
        // A running task without a thread is between two states.
        if isEnqueued { emit(one, reader.enqueued(one)) }
        return
      }
      guard backoffs[one.index].allows(one.item, clinux_clock_ns(), work.tid) else { return }
      let inTheWay = work.is_on_actor ? OBSERVER_OF_ONE_ON_ACTOR : OBSERVER_OF_ONE_IN_THE_WAY
      one.role = isEnqueued ? inTheWay : OBSERVER_OF_WORKER
      one.threadID = work.tid
      guard isEnqueued || one.waiters.count > 0 || one.task != one.ownTask || !putOff(one) else { return }
      one.threadChanged = isEnqueued || works[one.index].thread(of: one.item) != one.threadID
      if !isEnqueued { works[one.index].setThread(one.threadID, of: one.item) }
      capture(one)
    case OBSERVER_TASK_SUSPENDED: sampleSuspended(one)
    default:
      if observer_swift_task_is_known(), one.task == one.ownTask { emit(one, reader.taskGone(one)) }
    }
  }

  /// Samples a suspended task; without a stack if the stack equals the last sample's.
  @_noLocks private mutating func sampleSuspended(_ target: ThreadReader.Target) {
    let reading = reader.suspended(target)
    var label = observer_label()
    if let slot = target.slot { observer_slot_label(slot, &label) }
    let place = LastSample.place(target.taskID, stack: reader.stackHash, label)
    let index = target.index
    guard reading.status != OBSERVER_CAPTURED || !lastSamples[index].isSuspended(target.item, at: place) else {
      stay(target, reading.time)
      return
    }
    isWritten = false
    emit(target, reading)
    if isWritten, reading.status == OBSERVER_CAPTURED { lastSamples[index].sample(target.item, at: place) }
  }

  @_noLocks private mutating func stay(_ target: ThreadReader.Target, _ time: UInt64) {
    let work = works[target.index].read()
    guard work.item == target.item, isActive else { return }
    var event = observer_event()
    event.kind = OBSERVER_EVENT_STAYED.rawValue
    event.role = OBSERVER_OF_WORKER.rawValue
    setTimes(time, work, target.index, &event)
    if !observer_ring_write(ring, &event, nil, 0) { works[target.index].lose(work.item) }
  }

  @_noLocks private mutating func emit(_ target: ThreadReader.Target, _ reading: ThreadReader.Reading) {
    // A loop instead of recursion, because only the beginning of this thread's stack is kept resident.
    var next: (target: ThreadReader.Target, reading: ThreadReader.Reading)? = (target, reading)
    while let one = next { next = emitOne(one.target, one.reading) }
  }

  /// Writes a sample. Returns a sample of a contended lock's owner if it is available at once.
  @_noLocks private mutating func emitOne(
    _ target: ThreadReader.Target,
    _ reading: ThreadReader.Reading
  ) -> (target: ThreadReader.Target, reading: ThreadReader.Reading)? {
    guard target.slot != nil else {
      allThreads.write(target, reading, reader, ring)
      allThreads.publish(ring)
      return nil
    }
    // Has no effect on permanent entries.
    if let thread = target.thread { observer_visit_end(thread) }
    let index = target.index
    var (target, reading) = (target, reading)
    // If another thread has taken over the work, the sample shows unrelated work.
    if target.threadID != 0, target.ownerTIDAddress != 0 {
      reader.beginStep(target)
      let isAnothers = observer_slot_owner(target.ownerTIDAddress) != target.threadID
      reader.endStep()
      if isAnothers, target.owners != nil { return nil }
      if isAnothers { reading = reader.noWorker() }
    }
    // Another thread might be using the entry by now.
    if target.isMarked, let slot = target.slot, slot.thread != target.thread {
      reading = reader.noWorker()
    }
    if target.role == OBSERVER_OF_WORKER, reading.stackStart != 0, let slot = target.slot,
      observer_slot_has_left(slot, reading.stackStart)
    {
      reading = reader.sectionLeft()
      target.threadID = 0
    }
    if target.task != 0, target.role == OBSERVER_OF_WORKER, reading.task != target.task { return nil }
    switch reading.status {
    case OBSERVER_WORK_ITEM_OVER: return nil
    // Lock owners have a separate backoff (``holders``).
    case _ where target.role == OBSERVER_OF_HOLDER: break
    case OBSERVER_CAPTURED: backoffs[index].answered(target.threadID)
    case OBSERVER_NO_ANSWER, OBSERVER_STATE_UNKNOWN, OBSERVER_REQUESTS_STUCK:
      backoffs[index].notAnswered(target.item, clinux_clock_ns(), target.threadID)
    default: break
    }
    let work = works[index].read()
    guard work.item == target.item, isActive else { return nil }
    var event = observer_event()
    event.kind = OBSERVER_EVENT_SAMPLE.rawValue
    reader.describe(target, reading, &event)
    event.role = (target.owners == nil ? target.role : OBSERVER_OF_ONE_OF_SEVERAL).rawValue
    emit(of: target, reading, work, &event)
    let isHolder = target.role == OBSERVER_OF_HOLDER
    if reading.status == OBSERVER_CAPTURED, !isHolder { reader.keepStack(target) }
    if !isHolder { lastSamples[index].sample(target.item) }
    isWritten = reader.write(&event, to: ring)
    if !isWritten, !isHolder { works[index].lose(work.item) }
    if isHolder, reading.status != OBSERVER_CAPTURED {
      observer_holders_rest(holders, target.threadID, clinux_clock_ns())
    }
    share(target, reading, event)
    return event.lock.holder != 0 && !event.lock.is_orphaned ? readHolder(of: event.lock, target) : nil
  }

  @_noLocks private mutating func emit(
    of target: ThreadReader.Target,
    _ reading: ThreadReader.Reading,
    _ work: observer_work_snapshot,
    _ event: inout observer_event
  ) {
    setTimes(reading.time, work, target.index, &event)
    event.label.bytes = 0
    // The label of the work does not apply to a lock owner.
    if target.role != OBSERVER_OF_HOLDER, let slot = target.slot { observer_slot_label(slot, &event.label) }
    if event.label.bytes == 0 {
      reader.beginStep(target)
      observer_swift_task_known_label(target.task != 0 ? target.task : reading.task, target.taskID, &event.label)
      if event.label.bytes == 0 { observer_swift_task_known_label(target.ownTask, target.ownTaskID, &event.label) }
      reader.endStep()
    }
    (event.queue_head, event.waiting) = (0, 0)
    if target.queueHeadAddress != 0 {
      reader.beginStep(target)
      event.queue_head = observer_slot_queue_head(target.queueHeadAddress)
      event.waiting = waiting(target.queueHeadAddress, target.index)
      reader.endStep()
    }
  }

  @_noLocks private func setTimes(
    _ time: UInt64,
    _ work: observer_work_snapshot,
    _ index: Int,
    _ event: inout observer_event
  ) {
    event.slot = UInt32(truncatingIfNeeded: index)
    event.generation = work.generation
    event.item = work.item
    event.time_ns = time
    // The age is extrapolated from the monitor's last tick, up to the longest tick in case the process was stopped.
    event.age_ns =
      time >= work.tick_ns
      ? work.age_ns &+ min(time &- work.tick_ns, longestTick) : work.age_ns &- min(work.age_ns, work.tick_ns &- time)
    event.gap_ns = work.gap_ns
    event.lost = works[index].lost(of: work.item)
  }

  /// Writes `event` for the other work items of the target's thread; for a lock owner, of the waiting thread.
  @_noLocks private mutating func share(
    _ target: ThreadReader.Target,
    _ reading: ThreadReader.Reading,
    _ event: observer_event
  ) {
    let isHolder = target.role == OBSERVER_OF_HOLDER
    // A stack with appended awaiting callers describes one work item only.
    guard followed.count > 1, target.waiters.count == 0, isHolder || target.role == OBSERVER_OF_WORKER else { return }
    switch reading.status {
    case OBSERVER_CAPTURED, OBSERVER_NO_ANSWER, OBSERVER_STATE_UNKNOWN, OBSERVER_UNREADABLE: break
    default: return
    }
    let threadID = isHolder ? target.chain.tids.0 : target.threadID
    guard threadID != 0 else { return }
    var number = 0
    while number < followed.count, isActive {
      guard followed.mayBeWork(number, threadID, isHolder ? 0 : reading.task) else {
        number &+= 1
        continue
      }
      reader.beginStep(target)
      let other = followed.target(
        number,
        besides: target.index,
        thread: threadID,
        task: reading.task,
        at: reading.time,
        isHolder: isHolder
      )
      reader.endStep()
      number &+= 1
      guard var other, let slot = other.slot, isHolder || !observer_slot_has_left(slot, reading.stackStart) else {
        continue
      }
      let work = works[other.index].read()
      guard work.item == other.item, work.generation == other.generation else { continue }
      other.role = target.role
      var event = event
      event.role = target.role.rawValue
      event.is_shared = true
      emit(of: other, reading, work, &event)
      guard !isHolder else {
        _ = reader.write(&event, to: ring)
        continue
      }
      if target.threadChanged || other.threadChanged {
        event.cpu_ns = 0
        event.run_delay_ns = .max
        event.evidence.has_counters = false
      }
      if reading.status == OBSERVER_CAPTURED {
        backoffs[other.index].answered(threadID)
      } else {
        backoffs[other.index].notAnswered(other.item, clinux_clock_ns(), threadID)
      }
      works[other.index].setThread(threadID, of: other.item)
      lastSamples[other.index].sample(other.item)
      guard reader.write(&event, to: ring) else {
        works[other.index].lose(work.item)
        continue
      }
      // The shared sample replaces the due sample.
      works[other.index].take()
      works[other.index].share(other.item, at: reading.time)
    }
  }

  /// Samples the owner of `lock`. Returns `nil` if the answer comes later or the owner is not sampled.
  @_noLocks private mutating func readHolder(
    of lock: observer_lock,
    _ target: ThreadReader.Target
  ) -> (target: ThreadReader.Target, reading: ThreadReader.Reading)? {
    var one = ThreadReader.Target(target.index, target.slot, item: target.item, generation: target.generation)
    one.chain = target.chain
    _ = observer_lock_chain_add(&one.chain, target.threadID)
    guard lock.holder != clinux_task_self(), observer_lock_chain_add(&one.chain, lock.holder),
      reader.mayAskHolder(lock.holder), observer_ring_has_room(ring, eventsKept),
      observer_holders_take(holders, lock.holder, clinux_clock_ns())
    else { return nil }
    one.role = OBSERVER_OF_HOLDER
    one.threadID = lock.holder
    one.thread = observer_visit_begin(lock.holder)
    guard one.thread != nil else { return nil }
    one.lock = lock
    return reader.read(one)
  }

  /// Returns the number of waiting items of a queue; 0 during the pause after the last count.
  @_noLocks private mutating func waiting(_ queueHeadAddress: UInt64, _ index: Int) -> UInt32 {
    let begin = clinux_clock_ns()
    guard begin >= backoffs[index].nextCount else { return 0 }
    let count = observer_queue_waiting(queueHeadAddress)
    let end = clinux_clock_ns()
    // The cap applies if this thread was stopped during the count.
    backoffs[index].nextCount = end &+ countPause &* min(clinux_clock_between_ns(begin, end), countTimeMax)
    return count
  }
}
