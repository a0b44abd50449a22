import CCulpritLinux
import CCulpritObserver
import Glibc
import Synchronization

/// The threads of Swift's pool: who works while a ping waits, and for how long each has been in one job.
final class PoolThreads: Sendable {
  private struct State {
    /// The slot that the pool's pings are marked in.
    var slot: UnsafeMutablePointer<observer_slot>?
    /// A ping has waited for longer than one should.
    var isWaiting = false
    var next: UInt64 = 0
    var hasEnded = false
    /// The priority of the pool's pings: each priority has threads of its own. `nil` before the first ping was run.
    var priority: UInt8?
    var jobs = JobSlots()
    /// Why the kernel refuses to watch what threads write.
    var watchpointError: Int32?
    /// Whether enqueued tasks are counted instead.
    var countsEnqueues = false

    /// Whether a ping has been waiting for as long as it takes to be a stall.
    var isPoolStalled: Bool {
      guard isWaiting, let slot else { return false }
      return observer_slot_read(slot).isStalled(at: clinux_clock_ns())
    }
  }

  private struct Guarded: @unchecked Sendable {
    // SAFETY: the slot table is never freed, and its fields are atomic.
    var state = State()
  }

  /// Who works; never freed, as the slots that refer to it.
  struct Owners: @unchecked Sendable {
    // SAFETY: every field behind the pointer is atomic, and it is never freed.
    let pointer: UnsafeMutablePointer<observer_owners>
  }

  /// A thread that has run a task, known to the watcher alone.
  private struct Worker {
    var tracker: JobTracker
    var watchpoints = JobWatchpoints()
  }

  private struct Workers {
    var all: [Int32: Worker] = [:]
    /// The interval that their trackers were made for.
    var interval: UInt64 = 0
  }

  let owners: Owners
  private let guarded = Mutex(Guarded())
  /// Only the watcher's.
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
    if let refusal = JobWatchpoints.refusal { doWithoutWatchpoints(refusal) }
  }

  /// Whether no ping will come any more.
  var hasEnded: Bool { guarded.withLock { $0.state.hasEnded } }

  /// Why the kernel refuses to watch what a thread writes, and whether enqueued tasks are counted instead; `nil` while
  /// the kernel has not refused.
  var watchpointRefusal: (error: Int32, countsEnqueues: Bool)? {
    guarded.withLock { guarded in guarded.state.watchpointError.map { ($0, guarded.state.countsEnqueues) } }
  }

  /// The pool's pings are marked in `lease`.
  func follow(_ lease: SlotRegistry.Lease) {
    guarded.withLock { $0.state.slot = lease.slot }
    wake.notify()
  }

  /// No ping will come any more.
  func end() {
    guarded.withLock { guarded in
      guarded.state.hasEnded = true
      guarded.state.jobs.endAll()
    }
    wake.notify()
  }

  /// A ping has been waiting for longer than it should.
  func pingWaits() {
    let isNew = guarded.withLock { guarded in
      guard !guarded.state.isWaiting else { return false }
      (guarded.state.isWaiting, guarded.state.next) = (true, 0)
      return true
    }
    if isNew { wake.notify() }
  }

  /// The ping is being run by the calling thread.
  func pingIsAnswered() {
    guarded.withLock { guarded in
      guarded.state.isWaiting = false
      guard guarded.state.priority == nil, !guarded.state.hasEnded, let slot = guarded.state.slot else { return }
      let priority = observer_swift_task_priority(TaskProbe.current)
      guarded.state.priority = priority == 0 ? nil : priority
      let head = queueLayout?.firstWaitingAddress(ofQueueAt: observer_queue_current()) ?? 0
      observer_slot_set_queue_head(slot, head)
    }
  }

  /// Looks who works, if it is time to. Returns when to call again, on the observer's clock.
  func lookIfDue(_ threads: inout TaskThreads) -> UInt64 {
    let now = clinux_clock_ns()
    let (suspicion, isWaiting, next) = guarded.withLock { guarded in
      (guarded.state.slot.map { observer_slot_suspicion_ns($0) }, guarded.state.isWaiting, guarded.state.next)
    }
    guard let suspicion else { return .max }
    guard now >= next else { return next }
    guard suspicion != .max, let layout = search.found else {
      // It is switched off, or the first pings have not told yet.
      return later(now, by: suspicion == .max ? Self.intervalWhileOff : suspicion)
    }
    let interval = suspicion / 2
    let working = threads.running(layout).filter(\.tracking.isPool)
    let countsEnqueues = guarded.withLock { $0.state.countsEnqueues }
    let looks = workers.withLock { workers in
      working.map { thread in
        let start = clinux_clock_ns()
        let enqueues = observer_enqueues_of(thread.task)
        var seen = TaskThreads.look(thread.threadID, thread.task, at: thread.place)
        seen.time = start
        // At once: what is written later is for the next look.
        seen.isHit = workers.all[thread.threadID].flatMap { $0.watchpoints.areHit(seen.task) }
        // An actor has a queue of its own, in which nothing is counted.
        if countsEnqueues, thread.tracking.executor == 0 { seen.enqueues = enqueues }
        return Look(thread: thread, seen: seen)
      }
    }
    // Threads of another priority are in nobody's way.
    let ids = looks.filter(isOfPings).map(\.thread.threadID)
    observer_owners_set(owners.pointer, ids, ids.count)
    followJobs(looks, interval, waitedFor: isWaiting ? Set(ids) : [])
    let confirmation = guarded.withLock { $0.state.jobs.nextConfirmation(after: now) }
    return later(now, by: working.isEmpty && !isWaiting ? suspicion : interval, atLatest: confirmation)
  }

  private static let intervalWhileOff: UInt64 = 1_000_000_000

  /// Whether a ping could run on the thread that was seen so. What runs for an actor may have another priority than the thread.
  private func isOfPings(_ look: Look) -> Bool {
    guard look.seen.priority != 0, look.thread.tracking.executor == 0,
      let priority = guarded.withLock({ $0.state.priority })
    else { return true }
    return look.seen.priority == priority
  }

  private func later(_ now: UInt64, by interval: UInt64, atLatest latest: UInt64 = .max) -> UInt64 {
    guarded.withLock { guarded in
      // A ping that is late meanwhile wants a look at once.
      if guarded.state.next <= now { guarded.state.next = min(now &+ interval, latest) }
      return guarded.state.next
    }
  }

  // MARK: Jobs

  /// What a thread that runs a task was seen to do.
  private struct Look {
    var thread: TaskThreads.Running
    var seen: JobTracker.Look
  }

  private func followJobs(_ looks: [Look], _ interval: UInt64, waitedFor: Set<Int32>) {
    workers.withLock { workers in
      if workers.interval != interval {
        for id in workers.all.keys { forget(id, &workers) }
        workers.interval = interval
      }
      let present = Set(looks.map(\.thread.threadID))
      for id in workers.all.keys where !present.contains(id) { forget(id, &workers) }
      for look in looks {
        let id = look.thread.threadID
        var worker = workers.all[id] ?? Worker(tracker: JobTracker(interval: 2 * interval))
        follow(look, &worker)
        workers.all[id] = worker
      }
      // Who waits for a thread waits for all of them: that is one stall, of the pool. Until it is one it may be a job's all the
      // same, which goes on when a thread is free again, or none where the machine has no processor for the ping.
      let (isNew, stalled): (Bool, Set<Int32>?) = guarded.withLock { guarded in
        let isNew = guarded.state.jobs.deferStalls(of: waitedFor)
        return (isNew, guarded.state.isPoolStalled ? guarded.state.jobs.endAllButStalled(of: waitedFor) : nil)
      }
      if isNew { SlotRegistry.shared.tick(after: .zero) }
      guard let stalled else { return }
      for id in waitedFor.subtracting(stalled) {
        workers.all[id]?.tracker.restart()
        workers.all[id]?.watchpoints.clear()
      }
    }
  }

  /// Nothing of any thread is watched any more.
  func forgetAll() { workers.withLock { workers in for id in workers.all.keys { forget(id, &workers) } } }

  /// The thread runs no task of the pool's any more.
  private func forget(_ id: Int32, _ workers: inout Workers) {
    guard var worker = workers.all.removeValue(forKey: id) else { return }
    worker.watchpoints.clear()
    guarded.withLock { $0.state.jobs.end(id) }
  }

  private func follow(_ look: Look, _ worker: inout Worker) {
    var look = look
    let thread = look.thread
    let step = worker.tracker.advance(look.seen)
    carryOut(step, look)
    if look.seen.isHit == true { worker.watchpoints.clear() }
    guard step.wantsWatchpoint, watchpointRefusal == nil else { return }
    let error = worker.watchpoints.set(thread.threadID, thread.task, at: thread.place)
    guard error == 0 else {
      if JobWatchpoints.refusals.contains(error) { doWithoutWatchpoints(error) }
      return
    }
    look.seen = TaskThreads.look(thread.threadID, thread.task, at: thread.place)
    carryOut(worker.tracker.watched(look.seen), look)
  }

  /// The kernel refuses watchpoints, with `error`.
  private func doWithoutWatchpoints(_ error: Int32) {
    let counts = observer_enqueues_start()
    guarded.withLock { guarded in
      (guarded.state.watchpointError, guarded.state.countsEnqueues) = (error, counts)
    }
  }

  private func carryOut(_ step: JobTracker.Step, _ look: Look) {
    let id = look.thread.threadID
    let suspicion: UInt64? = guarded.withLock { guarded in
      if step.hasEnded { guarded.state.jobs.end(id) }
      guard !guarded.state.hasEnded else { return nil }
      let suspicion = step.began.flatMap { guarded.state.jobs.begin(id, since: $0, lease) }
      if let time = step.unbrokenUntil { guarded.state.jobs.confirm(id, until: time) }
      return suspicion
    }
    if let suspicion { SlotRegistry.shared.tick(after: Duration(wholeNanoseconds: suspicion)) }
  }
}
