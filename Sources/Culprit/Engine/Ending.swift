import CCulpritLinux
import CCulpritProcess
import Glibc
import Synchronization

/// The thread that stops the watchdog when the process exits, and that reports a watchdog which watches nothing.
///
/// The exit handler (`ending.c`) neither allocates nor locks: it wakes this thread and waits for it, with a bound.
final class Ending: Sendable {
  /// How long the application has to register something that is watched.
  static let idleTime = Duration.seconds(10)

  private let stopping = StopFlag()
  private let thread = Mutex<PosixThread?>(nil)

  /// Starts the thread for `core`.
  ///
  /// - Throws: ``PosixThreadError`` when it cannot be started.
  func start(_ core: Core) throws(PosixThreadError) {
    let started = try PosixThread(name: "culprit-end") { [self] in run(core) }
    thread.withLock { $0 = started }
    cprocess_ending_arm()
  }

  /// Ends the thread, and waits for that until `deadline`. Returns whether it has ended.
  func stop(until deadline: UInt64) -> Bool {
    stopping.set()
    cprocess_ending_wake()
    return thread.withLock { $0 }?.join(until: deadline) ?? true
  }

  private func run(_ core: Core) {
    var idle = clinux_clock_ns() &+ Self.idleTime.wholeNanoseconds
    while true {
      let seen = cprocess_ending_word()
      let exit = cprocess_ending_began_ns()
      if exit != 0 {
        Starts.end(core, until: exit &+ cprocess_ending_stop_ns) {
          core.stop(until: exit &+ cprocess_ending_reports_ns, saving: exit &+ cprocess_ending_stop_ns)
        }
        return
      }
      if stopping.isSet { return }
      if clinux_clock_ns() >= idle {
        idle = .max
        core.reportIdleness()
      }
      resting { cprocess_ending_wait(seen, idle) }
    }
  }
}

extension Core {
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
