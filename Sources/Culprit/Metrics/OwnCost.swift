import CCulpritLinux
import CulpritStallRecord
import Glibc
import Synchronization

extension Watchdog.OwnCost {
  /// What Culprit has used in this process so far. Reads files of procfs: never on the observing path.
  static func sinceStart() -> Self {
    let used = PosixThread.used()
    return Self(
      processorTime: Duration(wholeNanoseconds: used.processorNanoseconds),
      wakeups: used.wakeups,
      handlerTime: Duration(wholeNanoseconds: HandlerTime.total.load(ordering: .relaxed))
    )
  }
}
