import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind

/// Takes the stacks of threads. Stacks of blocked threads are read from outside at once; running threads answer a
/// signal later.
///
/// A blocked thread is never sent a signal, because its system call would return early.
struct ThreadReader: ~Copyable {
  /// A thread to sample, and the work item for which it is sampled.
  struct Target {
    /// The slot's index; -1 for an all-threads capture.
    var index = 0
    var thread: UnsafeMutablePointer<observer_thread>?
    var threadID: Int32 = 0
    /// Whether the slot names `thread`.
    var isMarked = false
    /// The slot that must still have work item `item` at the sample; `nil`: no condition.
    var slot: UnsafeMutablePointer<observer_slot>?
    var item: UInt64 = 0
    var generation: UInt32 = 0
    /// The addresses of the working thread's id and of the queue's head; 0: none.
    var ownerTIDAddress: UInt64 = 0
    var queueHeadAddress: UInt64 = 0
    /// The task that does the work, and its id; 0: none or unknown.
    var task: UInt64 = 0
    var taskID: UInt32 = 0
    /// The task that owns the work item, and its id: `task` or a task that awaits `task`.
    var ownTask: UInt64 = 0
    var ownTaskID: UInt32 = 0
    var waiters = observer_task_waiters()
    var role = OBSERVER_OF_WORKER
    /// Whether the last sample was of another thread, so differences of times are meaningless.
    var threadChanged = false
    /// For a lock owner: the contended lock, and the chain of waits that leads to the lock.
    var lock = observer_lock()
    var chain = observer_lock_chain()
    /// The owners, if several threads do the work. `ownerTIDAddress` then belongs to one of them.
    var owners: UnsafePointer<observer_owners>?

    @_noLocks init() {}
    @_noLocks init(_ index: Int, _ slot: UnsafeMutablePointer<observer_slot>?, item: UInt64, generation: UInt32) {
      (self.index, self.slot, self.item, self.generation) = (index, slot, item, generation)
    }
  }

  /// The result of a capture, without the frames.
  struct Reading {
    var status = OBSERVER_NO_ANSWER
    var threadStatus = observer_thread_status()
    var handlerTime: UInt64 = 0
    var time: UInt64 = 0
    /// The task that the thread ran, or the suspended task; 0: unknown.
    var task: UInt64 = 0
    /// CPU time of the thread in nanoseconds when it was found blocked; otherwise 0.
    var blockedUsed: UInt64 = 0
    /// The lowest copied address of the thread's stack; 0: none.
    var stackStart: UInt64 = 0
  }

  /// Longest wait for an answer in nanoseconds. A starved thread must run twice: during a tick of the kernel, which
  /// sends the signal, and again to receive the signal.
  private static let patience: UInt64 = 500_000_000

  /// Longest wait in nanoseconds for a thread of unknown state, which is most likely blocked.
  private static let blindPatience: UInt64 = 100_000_000

  private static let holdersAsked = 8

  /// Number of attempts for a thread that is asleep at each request.
  private static let attempts = 3

  /// Interval in nanoseconds for collecting answers to open requests: the kernel's tick.
  let tick: UInt64
  private let frames: UnsafeMutablePointer<unwind_frame>
  private let places: UnsafeMutablePointer<UInt64>
  private let sent: UnsafeMutablePointer<Sent>
  /// Number of entries of `sent` used so far.
  private var sentMade = 0
  private(set) var openCount = 0
  private var next = 0
  private var stack: unwind_stack
  private let sampling: UnsafeMutablePointer<observer_sampling>
  private let number: UInt32
  private let evidenceTimes: UnsafeMutablePointer<observer_evidence_times>

  private struct Sent {
    var request: UInt32 = 0
    var target = Target()
    var threadStatus = observer_thread_status()
    var isOpen = false
    /// The time of the request, and of the next reading from outside.
    var time: UInt64 = 0
    var nextReading: UInt64 = 0
  }

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
    // SAFETY: allocated by this value's initializer, and not shared.
    frames.deallocate()
    places.deallocate()
    evidenceTimes.deallocate()
    sent.deallocate()
  }

  /// Whether thread `threadID` of slot `index` has an open request, other than as a lock owner. Thread 0: any.
  @_noLocks func isAsked(_ index: Int, _ threadID: Int32 = 0) -> Bool {
    guard openCount > 0 else { return false }
    for place in 0..<sentMade where sent[place].isOpen && sent[place].target.index == index {
      guard sent[place].target.role != OBSERVER_OF_HOLDER else { continue }
      if threadID == 0 || sent[place].target.threadID == threadID { return true }
    }
    return false
  }

  @_noLocks func isAskedForAnother(_ target: Target) -> Bool {
    guard openCount > 0 else { return false }
    for place in 0..<sentMade where sent[place].isOpen && sent[place].target.threadID == target.threadID {
      let asked = sent[place].target
      if asked.slot != nil, asked.index != target.index, asked.role == OBSERVER_OF_WORKER { return true }
    }
    return false
  }

  /// Whether thread `threadID` can get a request as a lock owner: enough requests must remain for important threads.
  @_noLocks func mayAskHolder(_ threadID: Int32) -> Bool {
    guard openCount > 0 else { return true }
    var holders = 0
    for place in 0..<sentMade where sent[place].isOpen {
      if sent[place].target.threadID == threadID { return false }
      if sent[place].target.role == OBSERVER_OF_HOLDER { holders &+= 1 }
    }
    return holders < Self.holdersAsked && openCount < Int(OBSERVER_REQUESTS_MAX) / 2
  }

  /// Takes the stack of `target`, or sends a request and returns `nil` (``nextAnswer()``).
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
      // SAFETY: `sent` has OBSERVER_REQUESTS_MAX entries.
      while place < sentMade, sent[place].isOpen { place &+= 1 }
      guard place < Int(OBSERVER_REQUESTS_MAX) else {
        reading.status = OBSERVER_REQUESTS_STUCK
        return (target, reading)
      }
      if place == sentMade {
        (sent + place).initialize(to: Sent())
        sentMade &+= 1
      }
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
    // The thread alternates between running and sleeping.
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

  @_noLocks mutating func noWorker() -> Reading {
    clear()
    var reading = Reading()
    reading.status = OBSERVER_NO_WORKER
    reading.time = clinux_clock_ns()
    return reading
  }

  @_noLocks mutating func taskGone(_ target: Target) -> Reading {
    var reading = noWorker()
    reading.status = OBSERVER_TASK_GONE
    reading.task = target.task
    return reading
  }

  @_noLocks mutating func sectionLeft() -> Reading {
    var reading = noWorker()
    reading.status = OBSERVER_SECTION_LEFT
    return reading
  }

  @_noLocks mutating func enqueued(_ target: Target) -> Reading {
    var reading = noWorker()
    reading.task = target.task
    reading.threadStatus.activity = OBSERVER_ENQUEUED
    return reading
  }

  @_noLocks mutating func suspended(_ target: Target) -> Reading {
    var reading = noWorker()
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

  @_noLocks mutating func beginCollecting() { next = 0 }

  /// Returns the next answer or failed request; `nil` if none is available. Cancels requests for finished work items.
  @_noLocks mutating func nextAnswer() -> (target: Target, reading: Reading)? {
    while openCount > 0, next < sentMade {
      let place = next
      next &+= 1
      // SAFETY: `place` is below `sentMade`. Slots are never freed.
      guard sent[place].isOpen else { continue }
      let target = sent[place].target
      if let slot = target.slot, slot.item != target.item {
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
      // The thread might have blocked since the request.
      clear()
      var seen = reading
      seen.status = readFromOutside(target, &seen)
      if seen.status != OBSERVER_NOT_BLOCKED, seen.status != OBSERVER_STATE_UNKNOWN {
        cancel(place)
        return (target, seen)
      }
      let patience = seen.status == OBSERVER_STATE_UNKNOWN ? Self.blindPatience : Self.patience
      guard reading.time &- sent[place].time >= patience else { continue }
      collect(place, &reading)
      if reading.status == OBSERVER_NO_ANSWER, seen.status == OBSERVER_STATE_UNKNOWN {
        reading.status = OBSERVER_STATE_UNKNOWN
      }
      return (target, reading)
    }
    return nil
  }

  @_noLocks mutating func cancelAll() {
    var place = 0
    while place < sentMade {
      // SAFETY: `place` is below `sentMade`.
      if sent[place].isOpen { abandon(place) }
      place &+= 1
    }
  }

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
    // A copy of the whole struct: a pointer to one element of a tuple is valid for that element only.
    var status = reading.threadStatus
    let hasTimes = target.threadID != 0 && !target.threadChanged
    event.run_delay_ns = .max
    // These data cost as much as a sample. The all-threads capture and samples of lock owners do not need them.
    if target.slot != nil, target.threadID != 0, target.role != OBSERVER_OF_HOLDER,
      reading.status != OBSERVER_SAMPLER_STOPPED, reading.status != OBSERVER_NO_WORKER,
      reading.status != OBSERVER_THREAD_GONE
    {
      readMore(target, &status, hasTimes, &event)
    }
    event.descriptor.number = -1
    if event.activity == OBSERVER_IN_CALL.rawValue, target.slot != nil || target.index < 0 {
      let number = observer_awaited_descriptor(&status)
      if number >= 0 {
        observer_descriptor_read(target.threadID, number, &event.descriptor)
      } else {
        observer_awaited_path(&status, &event.descriptor)
      }
      observer_awaited_lock(target.threadID, &status, &event.lock)
      // The thread has run since the copy: it might have left its wait, and its memory might have changed.
      if reading.blockedUsed != 0, clinux_clock_thread_cpu_ns(target.threadID) != reading.blockedUsed {
        event.lock = observer_lock()
        event.descriptor = observer_descriptor()
        event.descriptor.number = -1
        event.evidence.word_count = 0
      }
    }
    if target.role == OBSERVER_OF_HOLDER {
      var lock = target.lock
      event.holds = lock.address
      event.is_held = observer_lock_holder(&lock) == target.threadID
    }
    event.cpu_ns =
      !hasTimes ? 0 : reading.blockedUsed != 0 ? reading.blockedUsed : clinux_clock_thread_cpu_ns(target.threadID)
    event.handler_ns = reading.handlerTime
    event.unwind_ns = stack.unwind_ns
    event.end = stack.end.rawValue
    event.left_out = stack.left_out
    event.joined_from = stack.joined_from
  }

  @_noLocks private func readMore(
    _ target: Target,
    _ status: inout observer_thread_status,
    _ hasTimes: Bool,
    _ event: inout observer_event
  ) {
    let place = UInt32(truncatingIfNeeded: target.index)
    observer_evidence_read(target.threadID, place, &status, evidenceTimes, &event.evidence)
    if event.activity != OBSERVER_IN_CALL.rawValue { event.evidence.has_arguments = false }
    guard hasTimes else {
      event.evidence.has_counters = false
      return
    }
    event.run_delay_ns = clinux_task_run_delay_ns(target.threadID, &event.evidence.turns)
  }

  /// Writes `event` and the frames of the last reading. Returns whether they fit into the ring.
  @_noLocks func write(_ event: inout observer_event, to ring: OpaquePointer) -> Bool {
    observer_ring_write(ring, &event, frames, stack.count)
  }

  @_noLocks func keepStack(_ target: Target) {
    withUnsafePointer(to: stack) { observer_last_stacks_add(UInt32(truncatingIfNeeded: target.index), target.item, $0) }
  }

  /// Writes without waking the reader of the ring.
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
      reading.stackStart = copy.pointee.stack_start
      reading.task = unwind(copy, target)
      if reading.task == 0, target.task != 0 { reading.task = observer_swift_task_current(target.threadID) }
      observer_capture_release(copy)
    }
    return status
  }

  /// Unwinds a stack, completes it with an earlier one if it ends early, and adds async callers. Returns the task that
  /// the thread ran; 0: unknown.
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
    if target.waiters.count > 0, target.role == OBSERVER_OF_WORKER {
      var waiters = target.waiters
      observer_swift_task_waiters(&waiters, &stack)
    }
    return task
  }

  /// Records that the kernel might block this sampler until ``endStep()``.
  @_noLocks func beginStep(_ target: Target) {
    // If the kernel blocks the sampler at a lock owner, only this thread is avoided; sampling of the work item
    // continues.
    let isWork = target.slot != nil && target.role != OBSERVER_OF_HOLDER
    let index = isWork ? Int32(truncatingIfNeeded: target.index) : -1
    observer_sampler_begin_step(sampling, number, index, target.threadID)
  }
  @_noLocks func endStep() { observer_sampler_end_step(sampling, number) }

  @_noLocks private mutating func collect(_ place: Int, _ reading: inout Reading) {
    clear()
    close(place)
    var copy: UnsafePointer<stack_copy>?
    reading.status = observer_capture_collect(sent[place].request, &copy)
    guard reading.status == OBSERVER_CAPTURED, let copy else { return }
    // An answer proves that the thread was running.
    reading.threadStatus.activity = OBSERVER_RUNNING
    reading.time = copy.pointee.taken_ns
    reading.handlerTime = max(1, copy.pointee.handler_ns)
    reading.stackStart = copy.pointee.stack_start
    beginStep(sent[place].target)
    reading.task = unwind(copy, sent[place].target)
    endStep()
    observer_capture_release(copy)
  }

  /// Cancels the request and ends the visit of its thread.
  @_noLocks private mutating func abandon(_ place: Int) {
    // SAFETY: `place` is below `sentMade`.
    let thread = sent[place].target.thread
    cancel(place)
    if let thread { observer_visit_end(thread) }
  }

  @_noLocks private mutating func cancel(_ place: Int) {
    close(place)
    var copy: UnsafePointer<stack_copy>?
    if observer_capture_collect(sent[place].request, &copy) == OBSERVER_CAPTURED, let copy {
      observer_capture_release(copy)
    }
  }

  @_noLocks private mutating func close(_ place: Int) {
    // SAFETY: `place` is below `sentMade`.
    sent[place].isOpen = false
    openCount &-= 1
  }
}
