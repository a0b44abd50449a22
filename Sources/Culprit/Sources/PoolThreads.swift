import CCulpritLinux
import CCulpritObserver
import Glibc

/// The threads of Swift's pool that work while a ping waits, and the long jobs of all pool threads.
final class PoolThreads: Sendable {
  private struct State: @unchecked Sendable {
    // SAFETY: the slot table is never freed, and its fields are atomic.
    var slot: UnsafeMutablePointer<observer_slot>?
    /// Whether a ping has waited longer than one interval.
    var isWaiting = false
    var next: UInt64 = 0
    var hasEnded = false
    /// The priority of pings, because each priority has separate threads. `nil` before the first ping has run.
    var priority: UInt8?
    var jobs = JobSlots()
    var watchpointError: Int32?
    var countsEnqueues = false

    var isPoolStalled: Bool {
      guard isWaiting, let slot else { return false }
      return slot.read().isStalled(at: clinux_clock_ns())
    }
  }

  /// Never freed, like the slots that refer to them.
  struct Owners: @unchecked Sendable {
    // SAFETY: every field behind the pointer is atomic, and the memory is never freed.
    let pointer: UnsafeMutablePointer<observer_owners>
  }

  private struct Worker {
    var tracker: JobTracker
    var watchpoints = JobWatchpoints()
  }

  private struct Workers {
    var all: [Int32: Worker] = [:]
    var interval: UInt64 = 0
  }

  let owners: Owners
  private let state = Mutex(State())
  /// Used by the watcher thread only.
  private let workers = Mutex(Workers())
  private let search: TaskLayoutSearch
  private let wake: WakeUp
  private let queueLayout: QueueLayout?
  private let lease: @Sendable (String) -> SlotRegistry.Lease?

  init(
    _ search: TaskLayoutSearch,
    _ queueLayout: QueueLayout?,
    _ wake: WakeUp,
    _ lease: @escaping @Sendable (String) -> SlotRegistry.Lease?
  ) {
    owners = Owners(pointer: .allocate(capacity: 1))
    owners.pointer.initialize(to: observer_owners())
    (self.search, self.queueLayout, self.wake, self.lease) = (search, queueLayout, wake, lease)
    if let refusal = JobWatchpoints.refusal { countEnqueuesInstead(refusal) }
  }

  var hasEnded: Bool { state.withLock { $0.hasEnded } }

  /// The kernel's error, and whether enqueued tasks are counted instead of using watchpoints.
  var watchpointRefusal: (error: Int32, countsEnqueues: Bool)? {
    state.withLock { state in state.watchpointError.map { ($0, state.countsEnqueues) } }
  }

  func follow(_ lease: SlotRegistry.Lease) {
    state.withLock { $0.slot = lease.slot }
    wake.notify()
  }

  func end() {
    state.withLock { state in
      state.hasEnded = true
      state.jobs.endAll()
    }
    wake.notify()
  }

  func probeWaits() {
    let isNew = state.withLock { state in
      guard !state.isWaiting else { return false }
      (state.isWaiting, state.next) = (true, 0)
      return true
    }
    if isNew { wake.notify() }
  }

  /// Called by the thread that runs the ping.
  func probeIsAnswered() {
    state.withLock { state in
      state.isWaiting = false
      guard state.priority == nil, !state.hasEnded, let slot = state.slot else { return }
      let priority = observer_swift_task_priority(TaskProbe.current)
      state.priority = priority == 0 ? nil : priority
      let head = queueLayout?.firstWaitingAddress(ofQueueAt: observer_queue_current()) ?? 0
      observer_slot_set_queue_head(slot, head)
    }
  }

  /// Samples the working threads if a round is due. Returns the time of the next call in nanoseconds.
  func observeIfDue(_ threads: inout TaskThreads) -> UInt64 {
    let now = clinux_clock_ns()
    let (suspicion, isWaiting, next) = state.withLock { state in
      (state.slot.map { $0.suspicion }, state.isWaiting, state.next)
    }
    guard let suspicion else { return .max }
    guard now >= next else { return next }
    guard suspicion != .max, let layout = search.found else {
      // The watchdog is disabled, or the task layout is still unknown.
      return later(now, by: suspicion == .max ? Self.intervalWhileOff : suspicion)
    }
    let interval = suspicion / 2
    let working = threads.running(layout).filter(\.tracking.isPool)
    let countsEnqueues = state.withLock { $0.countsEnqueues }
    let yield = TaskProbe.shared.layout?.value.yield
    let observed = workers.withLock { workers in
      working.map { thread in
        let start = clinux_clock_ns()
        let enqueues = observer_enqueues_of(thread.task)
        var seen = TaskThreads.observe(thread.threadID, thread.task, at: thread.place)
        seen.time = start
        // Read at once, so later hits count for the next sample.
        seen.isHit = workers.all[thread.threadID].flatMap { $0.watchpoints.wereHit(seen.task) }
        // Enqueues to the separate queue of an actor are not counted, nor is a yield that resumes at once.
        if countsEnqueues, thread.tracking.executor == 0, seen.resumption != yield { seen.enqueues = enqueues }
        return Observed(thread: thread, seen: seen)
      }
    }
    // Threads of another priority do not delay the ping.
    let ids = observed.filter(isOfProbes).map(\.thread.threadID)
    observer_owners_set(owners.pointer, ids, ids.count)
    followJobs(observed, interval, waitedFor: isWaiting ? Set(ids) : [])
    let confirmation = state.withLock { $0.jobs.nextConfirmation(after: now) }
    return later(now, by: working.isEmpty && !isWaiting ? suspicion : interval, atLatest: confirmation)
  }

  private static let intervalWhileOff: UInt64 = 1_000_000_000

  /// Work of an actor can have another priority than its thread.
  private func isOfProbes(_ observed: Observed) -> Bool {
    guard observed.seen.priority != 0, observed.thread.tracking.executor == 0,
      let priority = state.withLock({ $0.priority })
    else { return true }
    return observed.seen.priority == priority
  }

  private func later(_ now: UInt64, by interval: UInt64, atLatest latest: UInt64 = .max) -> UInt64 {
    state.withLock { state in
      // A ping that became late during this round needs an immediate round.
      if state.next <= now { state.next = min(now &+ interval, latest) }
      return state.next
    }
  }

  // MARK: Jobs

  private struct Observed {
    var thread: TaskThreads.Running
    var seen: JobTracker.Observation
  }

  private func followJobs(_ all: [Observed], _ interval: UInt64, waitedFor: Set<Int32>) {
    workers.withLock { workers in
      if workers.interval != interval {
        for id in workers.all.keys { forget(id, &workers) }
        workers.interval = interval
      }
      let present = Set(all.map(\.thread.threadID))
      for id in workers.all.keys where !present.contains(id) { forget(id, &workers) }
      for observed in all {
        let id = observed.thread.threadID
        var worker = workers.all[id] ?? Worker(tracker: JobTracker(interval: 2 * interval))
        follow(observed, &worker)
        workers.all[id] = worker
      }
      // A waiting ping means that all pool threads are busy: one stall, of the pool. Before this stall is declared,
      // each job can become a separate stall, because a thread might become free.
      let (isNew, stalled): (Bool, Set<Int32>?) = state.withLock { state in
        let isNew = state.jobs.deferStalls(of: waitedFor)
        return (isNew, state.isPoolStalled ? state.jobs.endAllButStalled(of: waitedFor) : nil)
      }
      if isNew { SlotRegistry.shared.tick(after: .zero) }
      guard let stalled else { return }
      for id in waitedFor.subtracting(stalled) {
        workers.all[id]?.tracker.restart()
        workers.all[id]?.watchpoints.clear()
      }
    }
  }

  func forgetAll() { workers.withLock { workers in for id in workers.all.keys { forget(id, &workers) } } }

  private func forget(_ id: Int32, _ workers: inout Workers) {
    guard var worker = workers.all.removeValue(forKey: id) else { return }
    worker.watchpoints.clear()
    state.withLock { $0.jobs.end(id) }
  }

  private func follow(_ observed: Observed, _ worker: inout Worker) {
    var observed = observed
    let thread = observed.thread
    let step = worker.tracker.advance(observed.seen)
    perform(step, observed)
    if observed.seen.isHit == true { worker.watchpoints.clear() }
    guard step.wantsWatchpoint, watchpointRefusal == nil else { return }
    let error = worker.watchpoints.set(thread.threadID, thread.task, at: thread.place)
    guard error == 0 else {
      if JobWatchpoints.refusals.contains(error) { countEnqueuesInstead(error) }
      return
    }
    observed.seen = TaskThreads.observe(thread.threadID, thread.task, at: thread.place)
    perform(worker.tracker.watched(observed.seen), observed)
  }

  /// Switches from watchpoints to counting enqueues, after the kernel refused watchpoints with `error`.
  private func countEnqueuesInstead(_ error: Int32) {
    let counts = observer_enqueues_start()
    state.withLock { ($0.watchpointError, $0.countsEnqueues) = (error, counts) }
  }

  private func perform(_ step: JobTracker.Step, _ observed: Observed) {
    let id = observed.thread.threadID
    let suspicion: UInt64? = state.withLock { state in
      if step.hasEnded { state.jobs.end(id) }
      guard !state.hasEnded else { return nil }
      let suspicion = step.began.flatMap { state.jobs.begin(id, since: $0, lease) }
      if let time = step.unbrokenUntil { state.jobs.confirm(id, until: time) }
      return suspicion
    }
    if let suspicion { SlotRegistry.shared.tick(after: Duration(wholeNanoseconds: suspicion)) }
  }
}
