import CCulpritLinux

/// The thread that samples the threads of pools.
///
/// The kernel might block reads of other threads' memory, so no other thread waits for the watcher. While the watcher
/// is blocked, a stall of the pool has one sample of all pool threads.
final class PoolWatcher: Sendable {
  private struct State {
    var pools: [PoolThreads] = []
    var isStopping = false
  }

  private let state = Mutex(State())
  private let wake = WakeUp()
  private let thread = OnDemandThread()
  private let isUsed = Mutex(false)

  /// The first pool starts the thread. `lease` leases a slot for the jobs of one thread.
  func add(
    _ queueLayout: QueueLayout?,
    _ lease: @escaping @Sendable (_ name: String) -> SlotRegistry.Lease?
  ) throws(WatchdogError) -> PoolThreads {
    isUsed.withLock { $0 = true }
    TaskProbe.shared.start()
    let search = TaskProbe.shared.search
    if !search.hasFailed { try thread.start(name: "culprit-pool") { [self] in run() } }
    let pool = PoolThreads(search, queueLayout, wake, lease)
    // If the search has failed, there is no watcher thread that would remove the pool.
    if !search.hasFailed { state.withLock { $0.pools.append(pool) } }
    return pool
  }

  /// Whether pool threads should be followed but cannot be.
  var hasFailed: Bool { isUsed.withLock { $0 } && TaskProbe.shared.search.hasFailed }

  var watchpointRefusal: (error: Int32, countsEnqueues: Bool)? {
    for pool in state.withLock({ $0.pools }) {
      if let refusal = pool.watchpointRefusal { return refusal }
    }
    return nil
  }

  func stop(until deadline: UInt64) -> Bool {
    state.withLock { $0.isStopping = true }
    wake.notify()
    return thread.join(until: deadline)
  }

  func remove(_ pool: PoolThreads) { state.withLock { $0.pools.removeAll { $0 === pool } } }

  private func run() {
    // No thread must wait for the watcher while the kernel blocks it.
    clinux_context_enter_watchers()
    _ = clinux_descriptor_take_own_table()
    clinux_memory_start_context()
    var threads = TaskThreads()
    while true {
      let seen = wake.seen
      let (pools, isStopping) = state.withLock { ($0.pools, $0.isStopping) }
      var next = UInt64.max
      for pool in pools {
        if isStopping || pool.hasEnded {
          pool.forgetAll()
          remove(pool)
        } else {
          next = min(next, pool.observeIfDue(&threads))
        }
      }
      if isStopping { return }
      wake.wait(after: seen, until: next)
    }
  }
}
