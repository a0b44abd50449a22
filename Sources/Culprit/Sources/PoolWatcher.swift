import CCulpritLinux
import CCulpritObserver
import Synchronization

/// The thread that looks what the threads of a pool run.
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
  private let isUsed = Mutex(false)

  /// Follows the threads of a pool from now on. The thread is started with the first one.
  ///
  /// - Parameters:
  ///   - queueLayout: Where queues have what waits in them; `nil` where that is not known.
  ///   - lease: Leases a slot for the jobs of one thread, which is called so; `nil` where there is none.
  /// - Returns: The threads.
  /// - Throws: ``WatchdogError/Code/unsupported`` when the thread cannot be started.
  func add(
    _ queueLayout: QueueLayout?,
    _ lease: @escaping @Sendable (_ name: String) -> SlotRegistry.Lease?
  ) throws(WatchdogError) -> PoolThreads {
    isUsed.withLock { $0 = true }
    TaskProbe.shared.start()
    let search = TaskProbe.shared.search
    let error: PosixThreadError? = thread.withLock { thread in
      guard thread == nil, !search.hasFailed else { return nil }
      do throws(PosixThreadError) {
        thread = try PosixThread(name: "culprit-pool") { [self] in run() }
        return nil
      } catch {
        return error
      }
    }
    if let error { throw .threadNotStarted(error) }
    let pool = PoolThreads(search, queueLayout, wake, lease)
    // Without a thread nobody would look at them.
    if !search.hasFailed { state.withLock { $0.pools.append(pool) } }
    return pool
  }

  /// Whether the threads of a pool are to be followed, and it is known that they cannot.
  var hasFailed: Bool { isUsed.withLock { $0 } && TaskProbe.shared.search.hasFailed }

  /// Why the kernel refuses to watch what a thread writes, and whether enqueued tasks are counted instead; `nil` while
  /// the kernel has not refused.
  var watchpointRefusal: (error: Int32, countsEnqueues: Bool)? {
    state.withLock { $0.pools }.lazy.compactMap(\.watchpointRefusal).first
  }

  /// Ends, and waits for that until `deadline`. Returns whether it has.
  func stop(until deadline: UInt64) -> Bool {
    state.withLock { $0.isStopping = true }
    wake.notify()
    return thread.withLock { $0 }?.join(until: deadline) ?? true
  }

  /// Follows the threads of `pool` no more.
  func remove(_ pool: PoolThreads) { state.withLock { $0.pools.removeAll { $0 === pool } } }

  private func run() {
    // Nobody is to wait for this thread when it is held up.
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
          next = min(next, pool.lookIfDue(&threads))
        }
      }
      if isStopping { return }
      wake.wait(after: seen, until: next)
    }
  }
}
