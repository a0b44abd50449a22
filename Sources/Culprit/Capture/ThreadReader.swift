import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind

/// Takes the stacks of threads: of those that are blocked from outside and at once, of those that run by signal, whose
/// answer comes later.
///
/// A thread that is blocked is never sent a signal, however incomplete its stack is when read from outside: what it
/// waits in would return early. Nothing here waits for a thread.
struct ThreadReader: ~Copyable {
  /// Whose stack is to be taken.
  struct Target {
    /// What it is to the monitor.
    var index = 0
    var thread: UnsafeMutablePointer<observer_thread>?
    var threadID: Int32 = 0
    /// Whether the slot says that it is that thread.
    var isMarked = false
    /// What the thread must be working on still when it is looked at; anything, when there is no slot.
    var slot: UnsafePointer<observer_slot>?
    var item: UInt64 = 0
    /// The slot's owner then.
    var generation: UInt32 = 0
    /// Where the slot says who works on the work item, and what tells whether waiting work is taken up; 0 where nothing
    /// does.
    var ownerTIDAddress: UInt64 = 0
    var queueHeadAddress: UInt64 = 0
    /// The task that works on it, and its number; 0 where none does, or the number is not known.
    var task: UInt64 = 0
    var taskID: UInt32 = 0
    /// The task whose work item it is, where it awaits the one that works on it or is that one, and its number.
    var ownTask: UInt64 = 0
    var ownTaskID: UInt32 = 0
    /// Who awaits that task's value, and then another one's.
    var waiters = observer_task_waiters()
    /// Whose stack is to be taken, and whether it is another thread's than the last one was: its times tell nothing.
    var whose = OBSERVER_OF_WORKER
    var isAnother = false
    /// What the thread holds that another one waits for, and those that wait for each other up to it, of a holder.
    var lock = observer_lock()
    var chain = observer_lock_chain()
    /// Who works on it, where that are several threads; `ownerTIDAddress` is then where one of them is.
    var owners: UnsafePointer<observer_owners>?

    // Written out because the compiler checks @_noLocks file by file, and does not see into another file's implicit
    // one.
    @_noLocks init() {}
  }

  /// What came of it; ``write(_:to:)`` has the frames.
  struct Reading {
    var status = OBSERVER_NO_ANSWER
    var threadStatus = observer_thread_status()
    var handlerTime: UInt64 = 0
    /// When the stack was copied, or when it was given up.
    var time: UInt64 = 0
    /// The task that the thread ran then, or whose stack it is; 0: none that is known.
    var task: UInt64 = 0
    /// The processor time that the thread had used when it was found blocked; 0 where it was not.
    var blockedUsed: UInt64 = 0
  }

  /// How long a thread has to answer. One that is starved by others needs its turn twice: the kernel must find it on a
  /// processor in its tick, and the signal is delivered when the thread goes on.
  private static let patience: UInt64 = 500_000_000

  /// The same for a thread of which the kernel does not tell what it does: it is most likely blocked.
  private static let blindPatience: UInt64 = 100_000_000

  /// The most holders of locks that are asked at a time.
  private static let holdersAsked = 8

  /// How often a thread is looked at that sleeps whenever it is to be asked.
  private static let attempts = 3

  /// How often answers are to be collected while some are outstanding: the kernel's tick.
  let tick: UInt64
  private let frames: UnsafeMutablePointer<unwind_frame>
  private let places: UnsafeMutablePointer<UInt64>
  private let sent: UnsafeMutablePointer<Sent>
  /// So many of its places have been used: memory that nobody uses is not resident.
  private var sentMade = 0
  /// How many threads have been asked and have not answered.
  private(set) var openCount = 0
  /// The place in `sent` that ``nextAnswer(_:)`` looks at next.
  private var next = 0
  /// The frames of the last reading.
  private var stack: unwind_stack
  /// Where it is said what this reader is about, in case the kernel holds it up.
  private let sampling: UnsafeMutablePointer<observer_sampling>
  private let number: UInt32
  private let evidenceTimes: UnsafeMutablePointer<observer_evidence_times>

  /// A thread that was asked and has not answered yet.
  private struct Sent {
    var request: UInt32 = 0
    var target = Target()
    var threadStatus = observer_thread_status()
    var isOpen = false
    /// When it was asked, and when it is to be looked at from outside again.
    var time: UInt64 = 0
    var nextReading: UInt64 = 0
  }

  /// The reader of sampler `number`.
  init(_ sampling: UnsafeMutablePointer<observer_sampling>, _ number: UInt32) {
    self.sampling = sampling
    self.number = number
    tick = clinux_clock_coarse_resolution_ns()
    frames = .allocate(capacity: Int(UNWIND_FRAMES_MAX))
    places = .allocate(capacity: Int(UNWIND_FRAMES_MAX))
    sent = .allocate(capacity: Int(OBSERVER_REQUESTS_MAX))
    evidenceTimes = .allocate(capacity: 1)
    evidenceTimes.initialize(to: observer_evidence_times())
    stack = unwind_stack()
    stack.frames = frames
    stack.places = places
    stack.end = UNWIND_END_NOT_CAPTURED
  }

  deinit {
    // SAFETY: they were allocated by this value's initializer and nobody else has them.
    frames.deallocate()
    places.deallocate()
    evidenceTimes.deallocate()
    sent.deallocate()
  }

  /// Whether the thread of a target with this index has been asked and has not answered yet; `threadID`, where it is given. Holders
  /// of locks are left out.
  @_noLocks func isAsked(_ index: Int, _ threadID: Int32 = 0) -> Bool {
    guard openCount > 0 else { return false }
    for place in 0..<sentMade where sent[place].isOpen && sent[place].target.index == index {
      guard sent[place].target.whose != OBSERVER_OF_HOLDER else { continue }
      if threadID == 0 || sent[place].target.threadID == threadID { return true }
    }
    return false
  }

  /// Whether the thread of `target` has been asked for another slot's work item, and has not answered yet.
  @_noLocks func isAskedForAnother(_ target: Target) -> Bool {
    guard openCount > 0 else { return false }
    for place in 0..<sentMade where sent[place].isOpen && sent[place].target.threadID == target.threadID {
      let asked = sent[place].target
      if asked.slot != nil, asked.index != target.index, asked.whose == OBSERVER_OF_WORKER { return true }
    }
    return false
  }

  /// Whether thread `threadID` is to be asked as a holder of a lock: nobody else has asked it, and there is room for more important
  /// ones.
  @_noLocks func mayAskHolder(_ threadID: Int32) -> Bool {
    guard openCount > 0 else { return true }
    var holders = 0
    for place in 0..<sentMade where sent[place].isOpen {
      if sent[place].target.threadID == threadID { return false }
      if sent[place].target.whose == OBSERVER_OF_HOLDER { holders &+= 1 }
    }
    return holders < Self.holdersAsked && openCount < Int(OBSERVER_REQUESTS_MAX) / 2
  }

  /// Takes the stack of `target`, or asks for it: then `nil` is returned, and the answer comes from ``nextAnswer(_:)``.
  @_noLocks mutating func read(_ target: Target) -> (target: Target, reading: Reading)? {
    clear()
    var reading = Reading()
    reading.time = clinux_clock_ns()
    if observer_sampling_avoids(sampling, target.threadID) {
      reading.status = OBSERVER_SAMPLER_STOPPED
      return (target, reading)
    }
    var (request, place): (UInt32, Int) = (0, 0)
    var attempt = 0
    repeat {
      reading.status = readFromOutside(target, &reading)
      switch reading.status {
      case OBSERVER_CAPTURED, OBSERVER_WORK_ITEM_OVER, OBSERVER_THREAD_GONE, OBSERVER_UNREADABLE:
        return (target, reading)
      default: break
      }
      // SAFETY: `sent` has OBSERVER_REQUESTS_MAX places.
      while place < sentMade, sent[place].isOpen { place &+= 1 }
      guard place < Int(OBSERVER_REQUESTS_MAX) else {
        reading.status = OBSERVER_REQUESTS_STUCK
        return (target, reading)
      }
      if place == sentMade {
        (sent + place).initialize(to: Sent())
        sentMade &+= 1
      }
      // It reads what the kernel tells of the thread, and of its memory.
      beginStep(target)
      reading.status = observer_capture_send(
        target.thread,
        target.slot,
        target.item,
        reading.threadStatus.activity == OBSERVER_RUNNING ? OBSERVER_SEND_SEEN_RUNNING : OBSERVER_SEND_WHEN_RUNNING,
        &request
      )
      endStep()
      attempt &+= 1
    } while reading.status == OBSERVER_ASLEEP && attempt < Self.attempts
    // It runs and sleeps by turns.
    if reading.status == OBSERVER_ASLEEP { reading.status = OBSERVER_NO_ANSWER }
    guard reading.status == OBSERVER_CAPTURED else { return (target, reading) }
    sent[place].request = request
    sent[place].target = target
    sent[place].threadStatus = reading.threadStatus
    sent[place].time = reading.time
    sent[place].nextReading = reading.time &+ 2 &* tick
    sent[place].isOpen = true
    openCount &+= 1
    return nil
  }

  /// A reading of a work item that no thread works on.
  @_noLocks mutating func nobody() -> Reading {
    clear()
    var reading = Reading()
    reading.status = OBSERVER_NO_WORKER
    reading.time = clinux_clock_ns()
    return reading
  }

  /// A reading of the task of `target`, which is not there any more.
  @_noLocks mutating func taskGone(_ target: Target) -> Reading {
    var reading = nobody()
    reading.status = OBSERVER_TASK_GONE
    reading.task = target.task
    return reading
  }

  /// A reading of the task of `target`, which is ready to run, and nobody knows where.
  @_noLocks mutating func enqueued(_ target: Target) -> Reading {
    var reading = nobody()
    reading.task = target.task
    reading.threadStatus.activity = OBSERVER_ENQUEUED
    return reading
  }

  /// A reading of the task of `target`, which is suspended.
  @_noLocks mutating func suspended(_ target: Target) -> Reading {
    var reading = nobody()
    beginStep(target)
    observer_swift_task_stack(target.task, &stack)
    var waiters = target.waiters
    observer_swift_task_waiters(&waiters, &stack)
    endStep()
    reading.task = target.task
    reading.threadStatus.activity = OBSERVER_SUSPENDED
    if stack.count > 0 { reading.status = OBSERVER_CAPTURED }
    return reading
  }

  /// A hash of the frames of the last reading.
  var stackHash: UInt64 {
    @_noLocks get {
      var hash: UInt64 = 0xcbf2_9ce4_8422_2325
      var number = 0
      while number < Int(stack.count) {
        // SAFETY: `frames` has `count` frames.
        hash = (hash ^ frames[number].address ^ UInt64(frames[number].kind) << 56) &* 0x9e37_79b9_7f4a_7c15
        hash ^= hash >> 29
        number &+= 1
      }
      return hash
    }
  }

  /// Begins to collect what threads have answered.
  @_noLocks mutating func beginCollecting() { next = 0 }

  /// Takes the next answer of a thread that was asked.
  ///
  /// A request for a work item that is not followed any more is taken back.
  ///
  /// - Returns: The answer, or what came of it instead; `nil` when there are no more for now.
  @_noLocks mutating func nextAnswer() -> (target: Target, reading: Reading)? {
    while openCount > 0, next < sentMade {
      let place = next
      next &+= 1
      // SAFETY: `place` is one that was made; a slot is never freed.
      guard sent[place].isOpen else { continue }
      let target = sent[place].target
      if let slot = target.slot, observer_slot_work_item(slot) != target.item {
        abandon(place)
        continue
      }
      var reading = Reading()
      reading.threadStatus = sent[place].threadStatus
      reading.time = clinux_clock_ns()
      if observer_capture_is_answered(sent[place].request) {
        collect(place, &reading)
        return (target, reading)
      }
      guard reading.time >= sent[place].nextReading else { continue }
      sent[place].nextReading = reading.time &+ 2 &* tick
      // It may have blocked since.
      clear()
      var seen = reading
      seen.status = readFromOutside(target, &seen)
      if seen.status != OBSERVER_NOT_BLOCKED, seen.status != OBSERVER_STATE_UNKNOWN {
        takeBack(place)
        return (target, seen)
      }
      let patience = seen.status == OBSERVER_STATE_UNKNOWN ? Self.blindPatience : Self.patience
      guard reading.time &- sent[place].time >= patience else { continue }
      collect(place, &reading)
      // A thread that did not run, and of which the kernel does not tell, is blocked as far as can be known.
      if reading.status == OBSERVER_NO_ANSWER, seen.status == OBSERVER_STATE_UNKNOWN {
        reading.status = OBSERVER_STATE_UNKNOWN
      }
      return (target, reading)
    }
    return nil
  }

  /// Takes back every request: nobody waits for the answers any more.
  @_noLocks mutating func takeAllBack() {
    var place = 0
    while place < sentMade {
      // SAFETY: as in nextAnswer(_:).
      if sent[place].isOpen { abandon(place) }
      place &+= 1
    }
  }

  /// Fills in what `event` says of the thread.
  @_noLocks func describe(_ target: Target, _ reading: Reading, _ event: inout observer_event) {
    event.tid = target.threadID
    event.status = reading.status.rawValue
    event.activity = reading.threadStatus.activity.rawValue
    event.call =
      reading.threadStatus.activity == OBSERVER_IN_CALL ? Int32(truncatingIfNeeded: reading.threadStatus.call) : -1
    beginStep(target)
    defer { endStep() }
    if reading.threadStatus.activity == OBSERVER_IN_CALL, observer_is_restart(reading.threadStatus.call) {
      event.activity = OBSERVER_IN_RESTARTED_CALL.rawValue
      event.call = observer_restarted_call(reading.threadStatus.pc)
    }
    // A thread that runs has no call, and one that is begun anew has other arguments.
    // As a whole: a pointer to the first of a tuple's elements is one to that alone.
    var status = reading.threadStatus
    let hasTimes = target.threadID != 0 && !target.isAnother
    event.run_delay_ns = .max
    // Of many threads that are looked at once these would tell nothing, and cost as much as a look; of holders, which may come a
    // thousand times a second, nobody asks. A thread that holds up samplers is left alone.
    if target.slot != nil, target.threadID != 0, target.whose != OBSERVER_OF_HOLDER,
      reading.status != OBSERVER_SAMPLER_STOPPED, reading.status != OBSERVER_NO_WORKER,
      reading.status != OBSERVER_THREAD_GONE
    {
      readMore(target, &status, hasTimes, &event)
    }
    event.descriptor.number = -1
    if event.activity == OBSERVER_IN_CALL.rawValue, target.slot != nil {
      let number = observer_awaited_descriptor(&status)
      if number >= 0 {
        observer_descriptor_read(target.threadID, number, &event.descriptor)
      } else {
        observer_awaited_path(&status, &event.descriptor)
      }
      observer_awaited_lock(target.threadID, &status, &event.lock)
      // What it waited for it may have by now, and what was in its memory may be something else.
      if reading.blockedUsed != 0, clinux_clock_thread_cpu_ns(target.threadID) != reading.blockedUsed {
        event.lock = observer_lock()
        event.descriptor = observer_descriptor()
        event.descriptor.number = -1
        event.evidence.word_count = 0
      }
    }
    if target.whose == OBSERVER_OF_HOLDER {
      var lock = target.lock
      event.holds = lock.address
      event.is_held = observer_lock_holder(&lock) == target.threadID
    }
    // Of a blocked thread it has been read.
    event.cpu_ns =
      !hasTimes ? 0 : reading.blockedUsed != 0 ? reading.blockedUsed : clinux_clock_thread_cpu_ns(target.threadID)
    event.handler_ns = reading.handlerTime
    event.unwind_ns = stack.unwind_ns
    event.end = stack.end.rawValue
    event.left_out = stack.left_out
    event.joined_from = stack.joined_from
  }

  /// Reads what the kernel tells of the thread beside its stack. Of another thread than before its counts tell nothing (`hasTimes`).
  @_noLocks private func readMore(
    _ target: Target,
    _ status: inout observer_thread_status,
    _ hasTimes: Bool,
    _ event: inout observer_event
  ) {
    let place = UInt32(truncatingIfNeeded: target.index)
    observer_evidence_read(target.threadID, place, &status, evidenceTimes, &event.evidence)
    // A call that is begun anew has other arguments.
    if event.activity != OBSERVER_IN_CALL.rawValue { event.evidence.has_arguments = false }
    guard hasTimes else {
      event.evidence.has_counters = false
      return
    }
    event.run_delay_ns = clinux_task_run_delay_ns(target.threadID, &event.evidence.turns)
  }

  /// Writes `event` with the frames of the last reading to `ring`. Returns whether there was room.
  @_noLocks func write(_ event: inout observer_event, to ring: OpaquePointer) -> Bool {
    observer_ring_write(ring, &event, frames, stack.count)
  }

  /// Keeps the stack of the last reading among the last ones of the work of `target`.
  @_noLocks func keepStack(_ target: Target) {
    withUnsafePointer(to: stack) { observer_last_stacks_add(UInt32(truncatingIfNeeded: target.index), target.item, $0) }
  }

  /// The same without waking the reader of `ring`.
  @_noLocks func add(_ event: inout observer_event, to ring: OpaquePointer) -> Bool {
    observer_ring_add(ring, &event, frames, stack.count)
  }

  @_noLocks private mutating func clear() {
    stack.count = 0
    stack.left_out = 0
    stack.joined_from = 0
    stack.end = UNWIND_END_NOT_CAPTURED
    stack.unwind_ns = 0
  }

  /// Reads a blocked thread; its frames are then in ``stack``.
  @_noLocks private mutating func readFromOutside(
    _ target: Target,
    _ reading: inout Reading
  ) -> observer_capture_status {
    beginStep(target)
    defer { endStep() }
    var copy: UnsafePointer<stack_copy>?
    let status = observer_capture_passively(target.thread, target.slot, target.item, &reading.threadStatus, &copy)
    if status == OBSERVER_CAPTURED, let copy {
      reading.time = copy.pointee.taken_ns
      reading.blockedUsed = copy.pointee.blocked_used_ns
      reading.task = unwind(copy, target)
      if reading.task == 0, target.task != 0 { reading.task = observer_swift_task_current(target.threadID) }
      observer_capture_release(copy)
    }
    return status
  }

  /// Unwinds a stack of `target`, joins it with an earlier one of the same work where it ends early, and adds async callers.
  /// Returns the task that the thread ran; 0: none that is known.
  @_noLocks private mutating func unwind(_ copy: UnsafePointer<stack_copy>, _ target: Target) -> UInt64 {
    observer_unwind(copy, &stack)
    if target.slot != nil {
      var item = unwind_work_item()
      item.slot = UInt32(truncatingIfNeeded: target.index)
      item.generation = target.generation
      item.began_ns = target.item
      item.tid = target.threadID
      observer_join(copy, item, &stack)
    }
    let task = observer_swift_task_callers(copy, &stack)
    if target.waiters.count > 0, target.whose == OBSERVER_OF_WORKER {
      var waiters = target.waiters
      observer_swift_task_waiters(&waiters, &stack)
    }
    return task
  }

  /// Says that what comes may hold up this sampler, and that it has not.
  @_noLocks func beginStep(_ target: Target) {
    // Who holds up a sampler as a holder is avoided; the work goes on being sampled.
    let isWork = target.slot != nil && target.whose != OBSERVER_OF_HOLDER
    let index = isWork ? Int32(truncatingIfNeeded: target.index) : -1
    observer_sampler_begin_step(sampling, number, index, target.threadID)
  }
  @_noLocks func endStep() { observer_sampler_end_step(sampling, number) }

  /// Takes the answer to the request at `place` and ends the request.
  @_noLocks private mutating func collect(_ place: Int, _ reading: inout Reading) {
    clear()
    close(place)
    var copy: UnsafePointer<stack_copy>?
    reading.status = observer_capture_collect(sent[place].request, &copy)
    guard reading.status == OBSERVER_CAPTURED, let copy else { return }
    // It ran, whatever was seen before.
    reading.threadStatus.activity = OBSERVER_RUNNING
    reading.time = copy.pointee.taken_ns
    reading.handlerTime = max(1, copy.pointee.handler_ns)
    beginStep(sent[place].target)
    reading.task = unwind(copy, sent[place].target)
    endStep()
    observer_capture_release(copy)
  }

  /// Ends the request at `place` and what there is of its thread.
  @_noLocks private mutating func abandon(_ place: Int) {
    // SAFETY: as in nextAnswer(_:).
    let thread = sent[place].target.thread
    takeBack(place)
    if let thread { observer_visit_end(thread) }
  }

  /// Ends the request at `place`, whose answer is not needed any more.
  @_noLocks private mutating func takeBack(_ place: Int) {
    close(place)
    var copy: UnsafePointer<stack_copy>?
    if observer_capture_collect(sent[place].request, &copy) == OBSERVER_CAPTURED, let copy {
      observer_capture_release(copy)
    }
  }

  @_noLocks private mutating func close(_ place: Int) {
    // SAFETY: as in nextAnswer(_:).
    sent[place].isOpen = false
    openCount &-= 1
  }
}
