import CulpritStallRecord
import Synchronization

extension Watchdog.OwnCost {
  /// Reads procfs, so it must not be called on the observing path.
  static func sinceStart() -> Self {
    let used = PosixThread.used()
    return Self(
      cpuTime: Duration(wholeNanoseconds: used.cpuNanoseconds),
      wakeups: used.wakeups,
      handlerTime: Duration(wholeNanoseconds: HandlerTime.total.load(ordering: .relaxed))
    )
  }
}
