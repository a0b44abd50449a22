import CCulpritLinux
import CCulpritObserver

/// The thread that takes stacks: of the work items that the monitor wants samples of, and of all threads.
///
/// Reading a stack is what the kernel may hold up. Nobody waits for a sampler: one that does not come back is replaced,
/// and when it comes back all the same it finds that its work has been given to another. What it needs is allocated
/// before it starts.
struct Sampler: ~Copyable {
  private let sampling: UnsafeMutablePointer<observer_sampling>
  private let number: UInt32
  private let control: UnsafeMutablePointer<observer_control>
  private let slots: UnsafeMutablePointer<observer_slot>
  private let stalls: UnsafeMutablePointer<observer_stall>
  private let backoffs: UnsafeMutablePointer<SampleBackoff>
  private let looks: UnsafeMutablePointer<LastLook>
  private let ring: OpaquePointer
  // A constant of another file is none to the check of @_noLocks.
  private let longestTick = Monitor.longestTick
  /// How long after the last stack what was copied is wiped.
  private let wipeDelay: UInt64 = 1_000_000_000
  /// When there was last something to do; 0 when everything has been wiped since.
  private var lastWork: UInt64 = 0
  /// Where the next look at several owners begins.
  private var nextOwner: UInt32 = 0
  /// Counts the looks at tasks, so that each finds another one of several.
  private var taskTurn: UInt32 = 0
  /// So many of them are looked at each time.
  private let ownersAtOnce = 16
  /// The pause after a count of what waits in a queue, in times that it took, and the time that is believed.
  private let countPause: UInt64 = 63
  private let countTimeMax: UInt64 = 20_000_000
  /// The threads that were looked at as holders of locks.
  private let holders: UnsafeMutablePointer<observer_holders>
  /// So many events are to have room before a holder is looked at.
  private let eventsKept: UInt32 = 32
  private var reader: ThreadReader
  private var followed: FollowedWork
  private var queue = SampleQueue()
  private var budget = ProcessorBudget()
  /// The longest time of a pass, after which the sampler looks for due samples again.
  private let passMax: UInt64 = 5_000_000
  /// Whether the last sample found room in the ring.
  private var isWritten = false
  private var allThreads: AllThreadsCapture

  init(
    number: UInt32,
    sampling: UnsafeMutablePointer<observer_sampling>,
    control: UnsafeMutablePointer<observer_control>,
    slots: UnsafeMutablePointer<observer_slot>,
    stalls: UnsafeMutablePointer<observer_stall>,
    backoffs: UnsafeMutablePointer<SampleBackoff>,
    looks: UnsafeMutablePointer<LastLook>,
    ring: OpaquePointer
  ) {
    self.sampling = sampling
    self.number = number
    self.control = control
    self.slots = slots
    self.stalls = stalls
    self.backoffs = backoffs
    self.looks = looks
    self.ring = ring
    holders = .allocate(capacity: 1)
    holders.initialize(to: observer_holders())
    reader = ThreadReader(sampling, number)
    followed = FollowedWork(sampling, slots)
    allThreads = AllThreadsCapture(sampling)
  }

  deinit {
    // SAFETY: it was allocated by this value's initializer and nobody else has it.
    holders.deallocate()
  }

  /// Works until it is told to stop. The supervisor must have been told that this one is ready.
  @_noLocks mutating func run() {
    while true {
      let seen = observer_sampler_word(sampling, number)
      if observer_sampling_stopping(sampling) {
        reader.takeAllBack()
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
        reader.takeAllBack()
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

  /// Whether it is still this one's turn.
  private var isActive: Bool {
    @_noLocks get { observer_sampler_state(sampling, number) == OBSERVER_SAMPLER_ACTIVE }
  }

  /// Wipes what was copied when nothing has been to do for a while. Returns how long until it is to be called again.
  @_noLocks private mutating func wipe() -> UInt64 {
    let idle = clinux_clock_ns() &- lastWork
    guard idle >= wipeDelay else { return wipeDelay &- idle }
    // Memory is given back to the kernel, which may hold that up.
    reader.beginStep(ThreadReader.Target())
    wipeCopies()
    reader.endStep()
    lastWork = 0
    return .max
  }

  /// Takes the samples that are wanted. `seen` is the word that the monitor changes when it wants more. Returns how long until there
  /// may be more to do without a change of the word.
  @_noLocks private mutating func work(_ seen: UInt32) -> UInt64 {
    // Answers are collected first: what they are about is not due again then.
    collect()
    followed.find(min(observer_control_slots_used(control), UInt32(OBSERVER_SLOTS_MAX)), looks, &queue)
    let isSparing = isOverBudget(clinux_clock_ns())
    var wait = takeSamples(seen, isSparing)
    let requests = observer_control_threads_wanted(control)
    // Each of many late work items would want its own capture.
    let isUrgent = !isSparing || observer_capture_all_is_urgent(sampling, requests)
    if isActive, isUrgent, observer_capture_all_is_wanted(sampling, requests) {
      if !allThreads.isUnderWay { beginUnwinding() }
      lastWork = clinux_clock_ns()
      wait = min(wait, allThreads.advance(&reader, ring, requests: requests))
    }
    if reader.openCount > 0 { wait = min(wait, reader.tick) }
    return wait
  }

  /// Takes due samples, the most important first; only those of protected work items, where processor time is spared. Ends after a
  /// while, and when the monitor wants more. Returns how long until the rest may be taken.
  @_noLocks private mutating func takeSamples(_ seen: UInt32, _ isSparing: Bool) -> UInt64 {
    let began = clinux_clock_ns()
    let count = isSparing ? queue.protectedCount : queue.count
    var (place, taken) = (0, 0)
    while place < count, isActive {
      let index = isSparing ? queue.protectedIndex(place) : queue.index(place)
      place &+= 1
      guard observer_work_take(sampling, index) else { continue }
      // A module may have been replaced by another one since: what was learnt about its code is forgotten then.
      if taken == 0 { beginUnwinding() }
      taken &+= 1
      lastWork = clinux_clock_ns()
      looks[Int(index)].look(observer_work_read(sampling, index).item, lastWork)
      sample(Int(index))
      collect()
      if observer_sampler_word(sampling, number) != seen || clinux_clock_ns() &- began > passMax { break }
    }
    guard queue.dueCount > taken else { return .max }
    return isSparing ? budget.wait(percent: observer_sampling_budget(sampling)) : 0
  }

  /// Whether the watchdog's threads have used their processor time by `now`. A few work items are sampled whatever that costs.
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

  /// Passes on what threads have answered.
  @_noLocks private mutating func collect() {
    guard reader.openCount > 0 else { return }
    reader.beginCollecting()
    while let taken = reader.nextAnswer() { emit(taken.target, taken.reading) }
  }

  /// Wipes what was copied of stacks, and what was read beside them.
  @_noLocks private func wipeCopies() {
    observer_capture_wipe()
    observer_unwind_wipe()
  }

  /// Forgets what was learnt of modules that are not there any more, which the kernel may hold up.
  @_noLocks private func beginUnwinding() {
    reader.beginStep(ThreadReader.Target())
    observer_unwind_begin_look()
    reader.endStep()
  }

  /// Samples slot `index`, unless its thread has been asked already.
  @_noLocks private mutating func sample(_ index: Int) {
    if let target = targetWithOwners(index) {
      sampleOwners(target)
      return
    }
    if let target = targetOfTask(index) {
      sampleTask(target)
      return
    }
    guard !reader.isAsked(index), let target = target(index), backoffs[index].allows(target.item, clinux_clock_ns())
    else { return }
    guard target.threadID != 0 || target.ownerTIDAddress == 0 else {
      emit(target, reader.nobody())
      return
    }
    guard !putOff(target) else { return }
    look(target)
  }

  /// Takes the stack of the thread of `target`, or asks for it. Whose entry is not the slot's gets one for as long as that takes: only
  /// here, so that none is taken and not given back.
  @_noLocks private mutating func look(_ target: ThreadReader.Target) {
    var target = target
    if target.thread == nil, target.threadID != 0 { target.thread = observer_visit_begin(target.threadID) }
    if let taken = reader.read(target) { emit(taken.target, taken.reading) }
  }

  /// Whether the thread of `target` has been asked for another slot's work item, and has not answered: its answer serves both, and
  /// if it does not, the sample is wanted still.
  @_noLocks private func putOff(_ target: ThreadReader.Target) -> Bool {
    guard reader.isAskedForAnother(target) else { return false }
    observer_work_want(sampling, UInt32(truncatingIfNeeded: target.index))
    return true
  }

  /// What is to be sampled in slot `index`, whose work item several threads work on; `nil` when it is over, or one does.
  @_noLocks private func targetWithOwners(_ index: Int) -> ThreadReader.Target? {
    // SAFETY: as in target(_:).
    let view = observer_slot_read(slots + index)
    let work = observer_work_read(sampling, UInt32(truncatingIfNeeded: index))
    guard view.owner_kind == OBSERVER_OWNERS, view.item != 0, view.item == work.item, view.generation == work.generation
    else {
      return nil
    }
    var target = ThreadReader.Target()
    target.index = index
    target.slot = UnsafePointer(slots + index)
    target.item = view.item
    target.generation = view.generation
    // SAFETY: the slot says so; owners are never freed.
    target.owners = UnsafePointer(bitPattern: UInt(view.owner_tid_address))
    target.queueHeadAddress = view.queue_head_address
    return target
  }

  /// Samples the owners of `target`, some at a time, in turn.
  @_noLocks private mutating func sampleOwners(_ target: ThreadReader.Target) {
    guard let owners = target.owners else { return }
    let used = observer_owners_used(owners)
    var looked = 0
    var step: UInt32 = 0
    while step < used, looked < ownersAtOnce, isActive {
      let place = (nextOwner &+ step) % used
      step &+= 1
      var one = target
      one.threadID = observer_owners_at(owners, place)
      guard one.threadID != 0, !reader.isAsked(target.index, one.threadID),
        backoffs[target.index].allows(one.item, clinux_clock_ns(), one.threadID)
      else { continue }
      looked &+= 1
      one.ownerTIDAddress = observer_owners_address(owners, place)
      // The queue is looked at once in a round: what several threads find is one moment.
      if looked > 1 { one.queueHeadAddress = 0 }
      look(one)
    }
    nextOwner = used > 0 ? (nextOwner &+ step) % used : 0
  }

  /// What is to be sampled in slot `index`, whose work item is a task's; `nil` when it is over, or a thread's.
  @_noLocks private func targetOfTask(_ index: Int) -> ThreadReader.Target? {
    // SAFETY: as in target(_:).
    let view = observer_slot_read(slots + index)
    let work = observer_work_read(sampling, UInt32(truncatingIfNeeded: index))
    guard view.owner_kind == OBSERVER_OWNER_TASK, view.item != 0, view.item == work.item,
      view.generation == work.generation
    else { return nil }
    var target = ThreadReader.Target()
    target.index = index
    target.slot = UnsafePointer(slots + index)
    target.item = view.item
    target.generation = view.generation
    target.ownTask = view.owner_tid_address
    target.ownTaskID = UInt32(truncatingIfNeeded: view.queue_head_address)
    return target
  }

  /// Samples who works for the task of `target`, or what is in its way, or where it waits.
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
        // Between two states of it nobody is known.
        if isEnqueued { emit(one, reader.enqueued(one)) }
        return
      }
      guard backoffs[one.index].allows(one.item, clinux_clock_ns(), work.tid) else { return }
      let inTheWay = work.is_on_actor ? OBSERVER_OF_ONE_ON_ACTOR : OBSERVER_OF_ONE_IN_THE_WAY
      one.whose = isEnqueued ? inTheWay : OBSERVER_OF_WORKER
      one.threadID = work.tid
      guard isEnqueued || one.waiters.count > 0 || one.task != one.ownTask || !putOff(one) else { return }
      let place = UInt32(truncatingIfNeeded: one.index)
      one.isAnother = isEnqueued || observer_work_tid(sampling, place, one.item) != one.threadID
      if !isEnqueued { observer_work_seen(sampling, place, one.item, one.threadID) }
      look(one)
    case OBSERVER_TASK_SUSPENDED: sampleSuspended(one)
    default:
      // What is just being found out will be known at the next sample.
      if observer_swift_task_is_known(), one.task == one.ownTask { emit(one, reader.taskGone(one)) }
    }
  }

  /// Samples the task of `target`, which is suspended. If it is where its last sample found it, the event contains no stack.
  @_noLocks private mutating func sampleSuspended(_ target: ThreadReader.Target) {
    let reading = reader.suspended(target)
    var label = observer_label()
    if let slot = target.slot { observer_slot_label(slot, &label) }
    let place = LastLook.place(target.taskID, stack: reader.stackHash, label)
    let index = target.index
    guard reading.status != OBSERVER_CAPTURED || !looks[index].isSuspended(target.item, at: place) else {
      stay(target, reading.time)
      return
    }
    isWritten = false
    emit(target, reading)
    if isWritten, reading.status == OBSERVER_CAPTURED { looks[index].sample(target.item, at: place) }
  }

  /// Tells the recorder that the task of `target` was at `time` where its last sample found it.
  @_noLocks private mutating func stay(_ target: ThreadReader.Target, _ time: UInt64) {
    let work = observer_work_read(sampling, UInt32(truncatingIfNeeded: target.index))
    guard work.item == target.item, isActive else { return }
    var event = observer_event()
    event.kind = OBSERVER_EVENT_STAYED.rawValue
    event.whose = OBSERVER_OF_WORKER.rawValue
    setTimes(time, work, target.index, &event)
    guard !observer_ring_write(ring, &event, nil, 0) else { return }
    observer_work_lose(sampling, event.slot, work.item)
  }

  /// What is to be sampled in slot `index`; `nil` when its work item is over.
  @_noLocks private mutating func target(_ index: Int) -> ThreadReader.Target? {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of the tables, which outlive this thread.
    let slot = slots + index
    let place = UInt32(truncatingIfNeeded: index)
    let view = observer_slot_read(slot)
    let work = observer_work_read(sampling, place)
    guard view.item != 0, view.item == work.item, view.generation == work.generation else { return nil }
    var target = ThreadReader.Target()
    target.index = index
    target.ownerTIDAddress = view.owner_tid_address
    target.queueHeadAddress = view.queue_head_address
    target.slot = UnsafePointer(slot)
    target.item = view.item
    target.generation = view.generation
    if view.owner_tid_address == 0 {
      target.isMarked = view.thread != nil
      target.thread = view.thread
      target.threadID = view.thread.map { observer_thread_id($0) } ?? 0
    } else {
      reader.beginStep(target)
      target.threadID = observer_slot_owner(view.owner_tid_address)
      reader.endStep()
      let isFirst = observer_work_tid(sampling, place, view.item) == 0
      observer_work_seen(sampling, place, view.item, target.threadID)
      if isFirst, target.threadID != 0 { observer_stall_suspect(stalls + index, target.threadID) }
    }
    if target.threadID != 0, view.owner_tid_address == 0 {
      observer_work_seen(sampling, place, view.item, target.threadID)
    }
    return target
  }

  /// Tells the recorder of a sample, and of those of threads that hold what its thread waits for.
  @_noLocks private mutating func emit(_ target: ThreadReader.Target, _ reading: ThreadReader.Reading) {
    // One after the other, and not one within the other: only the beginning of this thread's stack is kept in memory.
    var next: (target: ThreadReader.Target, reading: ThreadReader.Reading)? = (target, reading)
    while let one = next { next = emitOne(one.target, one.reading) }
  }

  /// Tells the recorder of a sample. Returns what was seen of who holds what its thread waits for, if that is there already.
  @_noLocks private mutating func emitOne(
    _ target: ThreadReader.Target,
    _ reading: ThreadReader.Reading
  ) -> (target: ThreadReader.Target, reading: ThreadReader.Reading)? {
    guard target.slot != nil else {
      allThreads.write(target, reading, reader, ring)
      allThreads.tell(ring)
      return nil
    }
    // A thread that is registered stays.
    if let thread = target.thread { observer_visit_end(thread) }
    let index = target.index
    let place = UInt32(truncatingIfNeeded: index)
    var reading = reading
    // What another thread works on by now is not what this one was seen to do.
    if target.threadID != 0, target.ownerTIDAddress != 0 {
      reader.beginStep(target)
      let isAnothers = observer_slot_owner(target.ownerTIDAddress) != target.threadID
      reader.endStep()
      // The others of several owners work on.
      if isAnothers, target.owners != nil { return nil }
      if isAnothers { reading = reader.nobody() }
    }
    // Nor is what was seen in the entry of a thread that has left, which may be another one's by now.
    if target.isMarked, let slot = target.slot, observer_slot_thread(slot) != target.thread {
      reading = reader.nobody()
    }
    // The thread runs another task by now.
    if target.task != 0, target.whose == OBSERVER_OF_WORKER, reading.task != target.task { return nil }
    switch reading.status {
    case OBSERVER_WORK_ITEM_OVER: return nil
    // Who holds the work up is asked each time, and then once until it has answered.
    case _ where target.whose == OBSERVER_OF_HOLDER: break
    case OBSERVER_CAPTURED: backoffs[index].answered(target.threadID)
    case OBSERVER_NO_ANSWER, OBSERVER_STATE_UNKNOWN, OBSERVER_REQUESTS_STUCK:
      backoffs[index].notAnswered(target.item, clinux_clock_ns(), target.threadID)
    default: break
    }
    let work = observer_work_read(sampling, place)
    // The monitor has gone on, or another sampler has.
    guard work.item == target.item, isActive else { return nil }
    var event = observer_event()
    event.kind = OBSERVER_EVENT_SAMPLE.rawValue
    reader.describe(target, reading, &event)
    event.whose = (target.owners == nil ? target.whose : OBSERVER_OF_ONE_OF_SEVERAL).rawValue
    tell(of: target, reading, work, &event)
    // A look at a holder is none at the work.
    let isHolder = target.whose == OBSERVER_OF_HOLDER
    if reading.status == OBSERVER_CAPTURED, !isHolder { reader.keepStack(target) }
    if !isHolder { looks[index].sample(target.item) }
    isWritten = reader.write(&event, to: ring)
    if !isWritten, !isHolder { observer_work_lose(sampling, place, work.item) }
    if isHolder, reading.status != OBSERVER_CAPTURED {
      observer_holders_rest(holders, target.threadID, clinux_clock_ns())
    }
    share(target, reading, event)
    return event.lock.holder != 0 && !event.lock.is_orphaned ? readHolder(of: event.lock, target) : nil
  }

  /// Fills in what `event` says of the work item of `target`, which is `work` to the monitor.
  @_noLocks private mutating func tell(
    of target: ThreadReader.Target,
    _ reading: ThreadReader.Reading,
    _ work: observer_work_snapshot,
    _ event: inout observer_event
  ) {
    setTimes(reading.time, work, target.index, &event)
    event.label.bytes = 0
    // What is said of the work is not said of who holds it up.
    if target.whose != OBSERVER_OF_HOLDER, let slot = target.slot { observer_slot_label(slot, &event.label) }
    if event.label.bytes == 0 {
      reader.beginStep(target)
      observer_swift_task_known_label(target.task != 0 ? target.task : reading.task, target.taskID, &event.label)
      // What is awaited may be done by now, or have no label.
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

  /// Fills in what `event`, of the time `time`, says of the work item in slot `index`, which is `work` to the monitor.
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
    // The age is that at the monitor's last tick. An answer may be older; what is newer by more than a tick came after
    // the process had been stopped.
    event.age_ns =
      time >= work.tick_ns
      ? work.age_ns &+ min(time &- work.tick_ns, longestTick) : work.age_ns &- min(work.age_ns, work.tick_ns &- time)
    event.gap_ns = work.gap_ns
    event.lost = observer_work_lost(sampling, event.slot, work.item)
  }

  /// Tells the recorder of a sample, `event`, for the other work items that the thread of `target` works on; of a holder's, for those
  /// of the thread that waits for it.
  @_noLocks private mutating func share(
    _ target: ThreadReader.Target,
    _ reading: ThreadReader.Reading,
    _ event: observer_event
  ) {
    let isHolder = target.whose == OBSERVER_OF_HOLDER
    // A stack that goes on with who awaits the work has one view only.
    guard followed.count > 1, target.waiters.count == 0, isHolder || target.whose == OBSERVER_OF_WORKER else { return }
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
      guard var other else { continue }
      let place = UInt32(truncatingIfNeeded: other.index)
      let work = observer_work_read(sampling, place)
      guard work.item == other.item, work.generation == other.generation else { continue }
      other.whose = target.whose
      var event = event
      event.whose = target.whose.rawValue
      event.is_shared = true
      tell(of: other, reading, work, &event)
      guard !isHolder else {
        _ = reader.write(&event, to: ring)
        continue
      }
      // The times of another thread than before tell nothing.
      if target.isAnother || other.isAnother {
        event.cpu_ns = 0
        event.run_delay_ns = .max
        event.evidence.has_counters = false
      }
      if reading.status == OBSERVER_CAPTURED {
        backoffs[other.index].answered(threadID)
      } else {
        backoffs[other.index].notAnswered(other.item, clinux_clock_ns(), threadID)
      }
      observer_work_seen(sampling, place, other.item, threadID)
      looks[other.index].sample(other.item)
      guard reader.write(&event, to: ring) else {
        observer_work_lose(sampling, place, work.item)
        continue
      }
      // What was wanted of it has been seen.
      _ = observer_work_take(sampling, place)
      observer_work_share(sampling, place, other.item, reading.time)
    }
  }

  /// Looks at who holds `lock`, which the thread of `target` waits for. Returns `nil` where the answer comes later, or he is left
  /// alone.
  @_noLocks private mutating func readHolder(
    of lock: observer_lock,
    _ target: ThreadReader.Target
  ) -> (target: ThreadReader.Target, reading: ThreadReader.Reading)? {
    var one = ThreadReader.Target()
    one.chain = target.chain
    _ = observer_lock_chain_add(&one.chain, target.threadID)
    guard lock.holder != clinux_task_self(), observer_lock_chain_add(&one.chain, lock.holder),
      reader.mayAskHolder(lock.holder), observer_ring_has_room(ring, eventsKept),
      observer_holders_take(holders, lock.holder, clinux_clock_ns())
    else { return nil }
    one.index = target.index
    one.slot = target.slot
    one.item = target.item
    one.generation = target.generation
    one.whose = OBSERVER_OF_HOLDER
    one.threadID = lock.holder
    one.thread = observer_visit_begin(lock.holder)
    guard one.thread != nil else { return nil }
    one.lock = lock
    return reader.read(one)
  }

  /// Counts what waits in the queue with that head; 0 where it was counted a moment ago.
  @_noLocks private mutating func waiting(_ queueHeadAddress: UInt64, _ index: Int) -> UInt32 {
    let begin = clinux_clock_ns()
    guard begin >= backoffs[index].nextCount else { return 0 }
    let count = observer_queue_waiting(queueHeadAddress)
    let end = clinux_clock_ns()
    // Whoever was stopped meanwhile has not counted for that long.
    backoffs[index].nextCount = end &+ countPause &* min(clinux_clock_between_ns(begin, end), countTimeMax)
    return count
  }
}
