import CCulpritLinux
import CCulpritObserver
import Synchronization

/// The thread that finds out which threads of a pool work, while a ping waits for one of them.
///
/// It reads the memory of other threads, which the kernel may hold up: nobody waits for it. Without it a stall of the pool
/// is noticed all the same, and what the threads did is known from one look at all of them.
final class PoolWatcher: Sendable {
  private struct State {
    var pools: [PoolThreads] = []
    var isStopping = false
  }

  private let state = Mutex(State())
  private let wake = WakeUp()
  private let thread = Mutex<PosixThread?>(nil)
  private let search = Mutex<TaskLayoutSearch?>(nil)

  /// Follows the threads of a pool from now on. The thread is started with the first one.
  ///
  /// - Throws: ``WatchdogError/Code/unsupported`` when the thread cannot be started.
  func add() throws(WatchdogError) -> PoolThreads {
    let search = self.search.withLock { search in
      if search == nil { search = TaskLayoutSearch() }
      return search ?? TaskLayoutSearch()
    }
    let error: PosixThreadError? = thread.withLock { thread in
      guard thread == nil, !search.hasFailed else { return nil }
      do throws(PosixThreadError) {
        thread = try PosixThread(name: "culprit-pool") { [self] in run() }
        return nil
      } catch {
        return error
      }
    }
    if let error { throw .threadNotStarted(error.number) }
    let pool = PoolThreads(search, wake)
    state.withLock { $0.pools.append(pool) }
    return pool
  }

  /// Whether the threads of a pool are to be followed, and it is known that they cannot.
  var hasFailed: Bool { search.withLock { $0?.hasFailed ?? false } }

  /// Ends, and waits for that until `deadline`. Returns whether it has.
  func stop(until deadline: UInt64) -> Bool {
    state.withLock { $0.isStopping = true }
    wake.notify()
    return thread.withLock { $0 }?.join(until: deadline) ?? true
  }

  private func run() {
    let threads = TaskThreads()
    while true {
      let seen = wake.seen
      let (pools, isStopping) = state.withLock { state in
        state.pools.removeAll { $0.hasEnded }
        return (state.pools, state.isStopping)
      }
      if isStopping { return }
      var next = UInt64.max
      for pool in pools { next = min(next, pool.lookIfDue(threads)) }
      wake.wait(after: seen, until: next)
    }
  }
}

/// The threads of Swift's pool, as far as a ping that waits needs them.
final class PoolThreads: Sendable {
  private struct State {
    /// How often to look; `nil`: no ping waits.
    var interval: UInt64?
    var next: UInt64 = 0
    var hasEnded = false
  }

  /// Who works; never freed, as the slots that refer to it.
  struct Owners: @unchecked Sendable {
    // SAFETY: every field behind the pointer is atomic, and it is never freed.
    let pointer: UnsafeMutablePointer<observer_owners>
  }

  let owners: Owners
  private let state = Mutex(State())
  private let search: TaskLayoutSearch
  private let wake: WakeUp

  fileprivate init(_ search: TaskLayoutSearch, _ wake: WakeUp) {
    owners = Owners(pointer: .allocate(capacity: 1))
    owners.pointer.initialize(to: observer_owners())
    (self.search, self.wake) = (search, wake)
  }

  fileprivate var hasEnded: Bool { state.withLock { $0.hasEnded } }

  /// No ping will come any more.
  func end() {
    state.withLock { $0.hasEnded = true }
    wake.notify()
  }

  /// A ping has waited for a while: who works is looked up every `interval` nanoseconds.
  func waits(lookingEvery interval: UInt64) {
    let isNew = state.withLock { state in
      guard state.interval == nil else { return false }
      (state.interval, state.next) = (interval, 0)
      return true
    }
    if isNew { wake.notify() }
  }

  /// The ping has been run: by the calling thread, which is one of the pool's.
  func isAnswered() {
    search.lookAtCurrentTask()
    state.withLock { $0.interval = nil }
  }

  /// Looks who works, if it is time to. Returns when to call again, on the observer's clock.
  fileprivate func lookIfDue(_ threads: borrowing TaskThreads) -> UInt64 {
    let now = clinux_clock_ns()
    let (interval, next) = state.withLock { ($0.interval, $0.next) }
    guard let interval else { return .max }
    guard now >= next else { return next }
    let working = search.found.map { threads.running($0) } ?? []
    let ids = working.filter(\.tracking.isPool).map(\.threadID)
    observer_owners_set(owners.pointer, ids, ids.count)
    state.withLock { $0.next = now &+ interval }
    return now &+ interval
  }
}
