import CCulpritLinux
import CCulpritProcess
import Glibc
import Synchronization

/// Stops the watchdog when the process exits, and reports a watchdog which watches nothing.
///
/// The exit handler (`ending.c`) neither allocates nor locks: it wakes the reporter's thread and waits, with a bound. That
/// thread starts another one, which stops the watchdog.
final class Ending: Sendable {
  /// How long the application has to register something that is watched.
  static let idleTime = Duration.seconds(10)

  private struct State {
    /// When it is checked whether something is watched.
    var idle: UInt64
    var hasBegun = false
  }

  private let state = Mutex(State(idle: .max))

  /// Has the reporter's thread attend to the end of the process.
  func start(_ core: Core) {
    state.withLock { $0.idle = clinux_clock_ns() &+ Self.idleTime.wholeNanoseconds }
    core.reporter.attend { [weak core] in core?.attendToEnding() ?? .max }
    cprocess_ending_arm()
  }

  /// Returns when to call it again.
  fileprivate func attend(_ core: Core) -> UInt64 {
    let exit = cprocess_ending_began_ns()
    let now = clinux_clock_ns()
    let (isExit, isIdle, next) = state.withLock { state in
      defer {
        state.hasBegun = exit != 0
        if now >= state.idle { state.idle = .max }
      }
      return (exit != 0 && !state.hasBegun, exit == 0 && now >= state.idle, now >= state.idle ? .max : state.idle)
    }
    if isExit { stop(core, exit) }
    if isIdle { core.reportIdleness() }
    return next
  }

  private func stop(_ core: Core, _ exit: UInt64) {
    do throws(PosixThreadError) {
      try PosixThread(name: "culprit-end") {
        Starts.end(core, until: exit &+ cprocess_ending_stop_ns) {
          core.stop(until: exit &+ cprocess_ending_reports_ns, saving: exit &+ cprocess_ending_stop_ns)
        }
      }
      .detach()
    } catch {
      // The exit prints the lines of pending reports itself.
      cprocess_ending_done()
    }
  }
}

extension Core {
  fileprivate func attendToEnding() -> UInt64 { ending.attend(self) }

  /// Whether something has been watched.
  private var hasBeenUsed: Bool { control.hasSources.load(ordering: .relaxed) || activities.haveBegun }

  /// Reports on standard error that nothing is watched, if that is so although the watchdog is switched on.
  fileprivate func reportIdleness() {
    guard live.current.isEnabled, !hasBeenUsed else { return }
    let seconds = Ending.idleTime.components.seconds
    printToStandardError(
      "culprit: the watchdog watches nothing \(seconds) s after its start: register something, "
        + "for example by watchConcurrency(), or measure sections by withSection(_:threshold:_:)\n",
      until: clinux_clock_ns() &+ 500_000_000
    )
  }
}
