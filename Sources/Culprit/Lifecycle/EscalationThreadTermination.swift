import CCulpritLinux
import CCulpritObserver
import CCulpritProcess

extension EscalationThread {
  /// Longest wait for the application's handlers.
  private static let patience: UInt64 = 2_000_000_000
  /// Time after which the kernel ends the process if the escalation thread itself is blocked.
  private static let lastResort: UInt64 = 3 * patience

  /// Returns the time of the next check.
  @_noLocks mutating func terminateIfDue(_ now: UInt64) -> UInt64 {
    let limit = cprocess_escalation_terminate_after_ns(own)
    guard limit != 0 else { return .max }
    cprocess_abort_prepare()
    let interval = min(max(limit / 32, 20_000_000), 1_000_000_000)
    if now >= nextNote {
      history.note()
      nextNote = now &+ interval
    }
    var next = nextNote
    let used = Int(observer_control_slots_used(control))
    var index = 0
    while index < used {
      if stalls[index].isStalled {
        view = stalls[index].read()
        if view.item != 0, view.item != vetoed[index], isMarked(view.item, index) {
          if view.age_ns >= limit {
            terminate(index, limit)
            return 0
          }
          next = min(next, now &+ max(limit &- view.age_ns, 10_000_000))
        }
      }
      index &+= 1
    }
    return next
  }

  /// Terminates the process because of the stall in ``view``, unless a handler vetoes this.
  @_noLocks private mutating func terminate(_ index: Int, _ limit: UInt64) {
    let item = view.item
    guard let termination = cprocess_escalation_termination(own) else { return }
    termination.pointee.slot = UInt32(truncatingIfNeeded: index)
    termination.pointee.item = item
    termination.pointee.tid = view.tid
    termination.pointee.limit_ns = limit
    _ = cprocess_abort_arm(Self.lastResort)
    reportBeforeTermination(item, index)
    guard isStill(item, index) else {
      cprocess_abort_disarm()
      return
    }
    measure(termination)
    describe(termination)
    cprocess_escalation_set_reason(own, text.start, text.count)
    cprocess_abort_say(text.start, text.count)
    let isVetoed = askHandlers()
    let isStill = isStill(item, index)
    if isVetoed || !isStill {
      if isVetoed { vetoed[index] = item }
      cprocess_abort_disarm()
      text.clear()
      if isStill {
        text.append("culprit: a handler prevented the termination")
      } else if view.item != item || !isMarked(item, index) {
        text.append("culprit: not terminating: the work has ended")
      } else {
        text.append("culprit: not terminating: terminateAfter was withdrawn")
      }
      text.append("; the process goes on\n")
      cprocess_abort_say(text.start, text.count)
      return
    }
    cprocess_abort_disarm()
    cprocess_abort_thread(termination.pointee.tid)
  }

  /// Whether the stall continues and still exceeds the limit, which might have changed.
  @_noLocks private mutating func isStill(_ item: UInt64, _ index: Int) -> Bool {
    view = stalls[index].read()
    let limit = cprocess_escalation_terminate_after_ns(own)
    return view.item == item && isMarked(item, index) && !cprocess_escalation_stopping(own)
      && limit != 0 && view.age_ns >= limit
  }

  /// Whether the slot still has the work item. The monitor notices an end only at the next tick.
  @_noLocks private func isMarked(_ item: UInt64, _ index: Int) -> Bool {
    slots[index].item == item
  }

  /// Waits until the last words are complete, the worker is blocked, or the termination is no longer wanted.
  @_noLocks private mutating func reportBeforeTermination(_ item: UInt64, _ index: Int) {
    send(.lastWords)
    var patience = WorkerPatience(since: clinux_clock_ns())
    while true {
      let seen = cprocess_escalation_word(own)
      if cprocess_escalation_is_done(own, lastRequest) || !isStill(item, index) { return }
      _ = cprocess_abort_arm(Self.lastResort)
      let now = clinux_clock_ns()
      if patience.ends(now, used: cprocess_escalation_worker_cpu_ns(own)) { return }
      continueNotifying(now)
      cprocess_escalation_wait(own, seen, now &+ WorkerPatience.interval)
    }
  }

  /// Returns whether a handler vetoes the termination within ``patience``.
  @_noLocks private mutating func askHandlers() -> Bool {
    cprocess_escalation_ask(own)
    let deadline = clinux_clock_ns() &+ Self.patience
    while true {
      let seen = cprocess_escalation_word(own)
      if cprocess_escalation_is_answered(own) || cprocess_escalation_stopping(own) { break }
      let now = clinux_clock_ns()
      if now >= deadline { break }
      continueNotifying(now)
      cprocess_escalation_wait(own, seen, min(deadline, now &+ WorkerPatience.interval))
    }
    return cprocess_escalation_end_question(own)
  }

  @_noLocks private mutating func measure(_ termination: UnsafeMutablePointer<cprocess_termination_request>) {
    let now = clinux_clock_ns()
    termination.pointee.age_ns = view.age_ns
    if view.tid != 0 { termination.pointee.tid = view.tid }
    termination.pointee.used = history.used(since: now &- min(now, view.age_ns))
    termination.pointee.elapsed_ns = clinux_clock_between_ns(termination.pointee.used.taken_ns, now)
    termination.pointee.cpus = history.cpus
    termination.pointee.thread_ns = 0
    termination.pointee.thread_elapsed_ns = 0
    let used = termination.pointee.tid == 0 ? 0 : clinux_clock_thread_cpu_ns(termination.pointee.tid)
    if view.suspected_cpu != 0, used >= view.suspected_cpu, view.suspected_ns != 0, now > view.suspected_ns {
      termination.pointee.thread_ns = used &- view.suspected_cpu
      termination.pointee.thread_elapsed_ns = now &- view.suspected_ns
    }
  }

  /// Puts the reason into ``text``.
  @_noLocks private mutating func describe(_ termination: UnsafeMutablePointer<cprocess_termination_request>) {
    let used = termination.pointee.used
    text.clear()
    text.append("culprit: ending process ")
    text.append(number: UInt64(truncatingIfNeeded: processID))
    text.append(" (code 0x8badf00d): ")
    appendKind()
    text.append(" \"")
    appendName()
    text.append("\" ")
    if termination.pointee.tid != 0 {
      text.append("on thread ")
      text.append(number: UInt64(truncatingIfNeeded: Int(termination.pointee.tid)))
      text.append(" ")
    }
    text.append("has been stuck for ")
    text.append(seconds: termination.pointee.age_ns)
    text.append(" s and exhausted its allowance of ")
    text.append(seconds: termination.pointee.limit_ns)
    text.append(" s. ")
    let all = UInt64(termination.pointee.cpus) &* termination.pointee.elapsed_ns
    if used.machine_user_ns > 0 || used.machine_system_ns > 0 {
      text.append("Elapsed total CPU time (seconds): ")
      appendTimes(used.machine_user_ns, used.machine_system_ns, of: all)
    }
    text.append("Elapsed application CPU time (seconds): ")
    appendTimes(used.user_ns, used.system_ns, of: all)
    if termination.pointee.thread_elapsed_ns > 0 {
      text.append("The thread's own: ")
      text.append(seconds: termination.pointee.thread_ns, digits: 3)
      text.append(", ")
      appendPercent(termination.pointee.thread_ns, of: termination.pointee.thread_elapsed_ns)
      text.append(" of one. ")
    }
    text.append("These are of the last ")
    text.append(seconds: termination.pointee.elapsed_ns)
    text.append(" s, on ")
    text.append(number: UInt64(termination.pointee.cpus))
    text.append(termination.pointee.cpus == 1 ? " CPU. " : " CPUs. ")
    let culprit = cprocess_escalation_culprit(own)
    let bytes = cprocess_text_take(culprit)
    // The answer might belong to an earlier request.
    let isOurs = bytes > 0 && cprocess_text_number(culprit) == lastRequest
    if isOurs { text.append(cprocess_text_bytes(culprit), bytes) }
    if bytes > 0 { cprocess_text_taken(culprit, false) }
    if !isOurs { text.append("The culprit is unknown: the report was not finished in time.") }
    text.append("\n")
  }

  /// Appends "12.345 (user 12.000, system 0.345), 51 % CPU. "
  @_noLocks private mutating func appendTimes(_ user: UInt64, _ system: UInt64, of all: UInt64) {
    text.append(seconds: user &+ system, digits: 3)
    text.append(" (user ")
    text.append(seconds: user, digits: 3)
    text.append(", system ")
    text.append(seconds: system, digits: 3)
    text.append("), ")
    appendPercent(user &+ system, of: all)
    text.append(" CPU. ")
  }

  @_noLocks private mutating func appendPercent(_ part: UInt64, of all: UInt64) {
    let hundredth = max(1, all / 100)
    text.append(number: (part &+ hundredth / 2) / hundredth)
    text.append(" %")
  }

  @_noLocks private mutating func appendKind() {
    switch view.kind {
    case 1, 7: text.append("event loop")
    case 2: text.append("run loop")
    case 3: text.append("section")
    case 4: text.append("dispatch queue")
    case 5: text.append("thread pool")
    case 6: text.append("executor")
    case 8: text.append("phase")
    case 9: text.append("job")
    default: text.append("source")
    }
  }
}

/// Bounds the wait for the blocking worker. The wait is longer while the worker uses CPU time, so reports from a busy
/// machine name the culprit, too. Times are in nanoseconds.
struct WorkerPatience {
  static let least: UInt64 = 2_000_000_000
  static let most: UInt64 = 10_000_000_000
  static let interval: UInt64 = 100_000_000
  /// Time without progress after which the worker counts as blocked. Longer than a thread waits for a fork.
  static let standstill: UInt64 = 700_000_000
  /// CPU time that counts as progress. Polling a lock uses less within ``standstill``.
  static let step: UInt64 = 5_000_000

  private let begin: UInt64
  private var used: UInt64 = 0
  private var moved: UInt64

  @_noLocks init(since begin: UInt64) {
    self.begin = begin
    moved = begin
  }

  /// Returns whether the wait ends at `now`. `used` is the worker's CPU time.
  @_noLocks mutating func ends(_ now: UInt64, used: UInt64) -> Bool {
    if used >= self.used &+ Self.step {
      self.used = used
      moved = now
    }
    let elapsed = now &- begin
    return elapsed >= Self.most || elapsed >= Self.least && now &- moved >= Self.standstill
  }
}

func terminationCodeAnchor() -> CodeAnchor { { 5 } }
