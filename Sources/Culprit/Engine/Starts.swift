import CCulpritLinux
import CCulpritObserver
import Glibc

/// Who has started a watchdog in this process: the first start makes the ``Core``, the others join it, the last stop ends it.
enum Starts {
  private enum Phase {
    case none
    /// A thread is starting it.
    case starting
    case running(Core, starts: Int)
    /// A thread is stopping it.
    case stopping
  }

  private struct State {
    var phase = Phase.none
    /// The process that it is of: a child of fork(2) begins with none.
    var process: pid_t?
    /// The number of the last start.
    var last: UInt64 = 0
  }

  private static let state = Mutex(State())

  /// How long a start waits for one that ends, or for another one that begins.
  private static let patience: UInt64 = 10_000_000_000

  /// Takes part in what runs, or makes it.
  ///
  /// - Parameter make: Starts it.
  /// - Returns: What runs, whether it did before, and the number of this start.
  /// - Throws: What `make` throws; ``WatchdogError/Code/timedOut`` when an earlier one neither ends nor begins.
  static func join(
    _ make: () throws(WatchdogError) -> Core
  ) throws(WatchdogError) -> (core: Core, isJoined: Bool, number: UInt64) {
    let deadline = clinux_clock_ns() &+ patience
    while true {
      let (found, isMine, isChild, number) = state.withLock { state -> (Core?, Bool, Bool, UInt64) in
        let isChild = state.process != nil && state.process != getpid()
        // What the parent watched is nothing that this process does.
        if isChild || state.process == nil {
          // Nothing of it is taken down, either: that could take locks which a thread of the parent holds.
          if case .running(let core, _) = state.phase { _ = Unmanaged.passRetained(core) }
          state.phase = .none
        }
        switch state.phase {
        case .none:
          state.process = getpid()
          state.phase = .starting
          state.last += 1
          return (nil, true, isChild, state.last)
        case .running(let core, let starts):
          state.phase = .running(core, starts: starts + 1)
          state.last += 1
          return (core, false, false, state.last)
        case .starting, .stopping: return (nil, false, false, 0)
        }
      }
      if let found { return (found, true, number) }
      if isMine {
        if isChild {
          SlotRegistry.shared.startOver()
          PosixThread.startOver()
          HandlerTime.startOver()
          EndingCounts.shared.startOver()
          Residency.startOver()
          observer_visit_start_over()
        }
        do throws(WatchdogError) {
          let core = try make()
          state.withLock { $0.phase = .running(core, starts: 1) }
          return (core, false, number)
        } catch {
          state.withLock { $0.phase = .none }
          throw error
        }
      }
      guard clinux_clock_ns() < deadline else { throw .stillStopping }
      resting { clinux_pause_ns(1_000_000) }
    }
  }

  /// Takes no more part in `core`.
  ///
  /// - Parameters:
  ///   - core: The core that a start has joined.
  ///   - flush: Waits for what `core` has under way; called if others take part. Until it returns nobody stops `core`.
  ///   - stop: Ends it; called if nobody else takes part any more.
  /// - Returns: Whether `stop` was called, and whether what was called has succeeded.
  static func leave(_ core: Core, flush: () -> Bool, stop: () -> Bool) -> (isLast: Bool, hasEnded: Bool) {
    var hasEnded = true
    if !isLast(core, leaving: false) {
      hasEnded = flush()
      guard isLast(core, leaving: true) else { return (false, hasEnded) }
    }
    defer { state.withLock { $0.phase = .none } }
    return (true, stop() && hasEnded)
  }

  /// Ends `core` because the process exits, whichever watchdogs take part in it. Where another thread is ending it, waits for
  /// that until `deadline`. No watchdog can be started from then on.
  static func end(_ core: Core, until deadline: UInt64, stop: () -> Void) {
    let isMine = state.withLock { state in
      guard case .running(let running, _) = state.phase, running === core else { return false }
      state.phase = .stopping
      return true
    }
    guard !isMine else { return stop() }
    while !core.hasStopped, clinux_clock_ns() < deadline { resting { clinux_pause_ns(1_000_000) } }
  }

  /// Whether nobody else takes part in `core`, which is then being stopped. Otherwise one start less does, if `leaving`.
  private static func isLast(_ core: Core, leaving: Bool) -> Bool {
    state.withLock { state in
      guard case .running(let running, let starts) = state.phase, running === core else { return false }
      if starts == 1 {
        state.phase = .stopping
      } else if leaving {
        state.phase = .running(core, starts: starts - 1)
      }
      return starts == 1
    }
  }
}
