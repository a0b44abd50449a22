import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import Synchronization

/// Stops the watchdog at process exit, and warns if it watches nothing. The exit handler (`ending.c`) neither allocates
/// nor locks: the reporter's thread starts a thread that stops the watchdog.
final class Ending: Sendable {
  /// Time after which a watchdog without sources is reported.
  static let idleTime = Duration.seconds(10)

  private struct State {
    var idle: UInt64
    var hasBegun = false
  }

  private let state = Mutex(State(idle: .max))

  func start(_ engine: Engine) {
    state.withLock { $0.idle = clinux_clock_ns() &+ Self.idleTime.wholeNanoseconds }
    engine.reporter.attend { [weak engine] in engine?.attendToEnding() ?? .max }
    cprocess_ending_arm(observer_stall_age_ns)
  }

  /// Returns the time of the next call.
  fileprivate func attend(_ engine: Engine) -> UInt64 {
    let exit = cprocess_ending_began_ns()
    let now = clinux_clock_ns()
    let (isExit, isIdle, next) = state.withLock { state in
      defer {
        state.hasBegun = exit != 0
        if now >= state.idle { state.idle = .max }
      }
      return (exit != 0 && !state.hasBegun, exit == 0 && now >= state.idle, now >= state.idle ? .max : state.idle)
    }
    if isExit { stop(engine, exit) }
    if isIdle { engine.reportIdleness() }
    return next
  }

  private func stop(_ engine: Engine, _ exit: UInt64) {
    do throws(WatchdogError) {
      try PosixThread(name: "culprit-end") {
        EngineLifetime.end(engine, until: exit &+ cprocess_ending_stop_ns) {
          engine.stop(until: exit &+ cprocess_ending_reports_ns, saving: exit &+ cprocess_ending_stop_ns)
        }
      }
      .detach()
    } catch {
      // The exit handler then prints the lines of pending reports.
      cprocess_ending_done()
    }
  }
}

extension Engine {
  fileprivate func attendToEnding() -> UInt64 { ending.attend(self) }

  private var hasBeenUsed: Bool { control.hasSources.load(ordering: .relaxed) || activities.haveBegun }

  fileprivate func reportIdleness() {
    guard live.current.isEnabled, !hasBeenUsed else { return }
    let seconds = Ending.idleTime.components.seconds
    printToStandardError(
      "culprit: the watchdog has no sources \(seconds) s after its start: register one, "
        + "for example with watchConcurrency(), or use withSection(_:threshold:_:)\n",
      until: clinux_clock_ns() &+ 500_000_000
    )
  }
}
