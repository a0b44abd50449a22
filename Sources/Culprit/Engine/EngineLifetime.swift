import CCulpritLinux
import CCulpritObserver
import Glibc

/// Reference count of the process-wide ``Engine``. The first start creates the engine; the last stop shuts it down.
enum EngineLifetime {
  private enum Phase {
    case none
    case starting
    case running(Engine, starts: Int)
    case stopping
  }

  private struct State {
    var phase = Phase.none
    /// The process of this state, to detect a child of fork(2).
    var process: pid_t?
    var last: UInt64 = 0
  }

  private static let state = Mutex(State())

  /// Longest wait for another thread's start or stop, in nanoseconds.
  private static let patience: UInt64 = 10_000_000_000

  /// Joins the running engine, or creates one with `make`. Throws the error of `make`, or
  /// ``WatchdogError/Code/timedOut`` after ``patience``.
  static func join(
    _ make: () throws(WatchdogError) -> Engine
  ) throws(WatchdogError) -> (engine: Engine, isJoined: Bool, number: UInt64) {
    let deadline = clinux_clock_ns() &+ patience
    while true {
      let (found, number, isChild) = state.withLock { state -> (Engine?, UInt64?, Bool) in
        let isChild = state.process != nil && state.process != getpid()
        // A child of fork(2) has none of the engine's threads.
        if isChild || state.process == nil {
          // The parent's engine is not released: its `deinit` could take locks held at the fork.
          if case .running(let engine, _) = state.phase { _ = Unmanaged.passRetained(engine) }
          state.phase = .none
        }
        switch state.phase {
        case .none:
          state.process = getpid()
          state.phase = .starting
          state.last += 1
          return (nil, state.last, isChild)
        case .running(let engine, let starts):
          state.phase = .running(engine, starts: starts + 1)
          state.last += 1
          return (engine, state.last, isChild)
        case .starting, .stopping: return (nil, nil, isChild)
        }
      }
      if let number {
        if let found { return (found, true, number) }
        if isChild {
          SlotRegistry.shared.startOver()
          PosixThread.startOver()
          HandlerTime.startOver()
          EndingCounts.shared.startOver()
          PageLocking.startOver()
          observer_visit_start_over()
        }
        do throws(WatchdogError) {
          let engine = try make()
          state.withLock { $0.phase = .running(engine, starts: 1) }
          return (engine, false, number)
        } catch {
          state.withLock { $0.phase = .none }
          throw error
        }
      }
      guard clinux_clock_ns() < deadline else { throw .stillStopping }
      allowingFork { clinux_pause_ns(1_000_000) }
    }
  }

  /// Removes one start of `engine`: calls `stop` for the last start, otherwise `flush`. No thread stops `engine` before
  /// `flush` returns. Returns whether `stop` was called, and whether the called functions have succeeded.
  static func leave(_ engine: Engine, flush: () -> Bool, stop: () -> Bool) -> (isLast: Bool, hasEnded: Bool) {
    var hasEnded = true
    if !isLast(engine, leaving: false) {
      hasEnded = flush()
      guard isLast(engine, leaving: true) else { return (false, hasEnded) }
    }
    defer { state.withLock { $0.phase = .none } }
    return (true, stop() && hasEnded)
  }

  /// Stops `engine` at process exit, or waits until `deadline` for the thread that is stopping it. No watchdog can
  /// start afterwards.
  static func end(_ engine: Engine, until deadline: UInt64, stop: () -> Void) {
    let isMine = state.withLock { state in
      guard case .running(let running, _) = state.phase, running === engine else { return false }
      state.phase = .stopping
      return true
    }
    guard !isMine else { return stop() }
    while !engine.hasStopped, clinux_clock_ns() < deadline { allowingFork { clinux_pause_ns(1_000_000) } }
  }

  /// Marks `engine` as stopping if this is its only start; otherwise removes one start if `leaving`.
  private static func isLast(_ engine: Engine, leaving: Bool) -> Bool {
    state.withLock { state in
      guard case .running(let running, let starts) = state.phase, running === engine else { return false }
      if starts == 1 {
        state.phase = .stopping
      } else if leaving {
        state.phase = .running(engine, starts: starts - 1)
      }
      return starts == 1
    }
  }
}
