import CCulpritProcess
import Glibc
import Synchronization

/// The way to systemd, or whoever else started the service and speaks its protocol: sd_notify(3).
final class SystemdNotifier: @unchecked Sendable {
  // SAFETY: written by the initializer, and then by the escalation thread only.
  let target: UnsafeMutablePointer<cprocess_datagram>
  /// The time without a ping after which systemd takes the service for dead, in nanoseconds; 0 when it does not watch.
  let watchdog: UInt64
  /// What is wrong with what systemd says, in sentences.
  let problems: [String]

  /// The way that `environment` describes; `nil` when nobody listens.
  init?(_ environment: Environment) {
    guard let socket = environment.notifySocket else { return nil }
    var problems: [String] = []
    target = .allocate(capacity: 1)
    target.initialize(to: cprocess_datagram())
    target.pointee.socket.number = -1
    let error = cprocess_datagram_open(target, socket)
    if error != 0 {
      problems.append(
        "systemd cannot be told anything: NOTIFY_SOCKET is \(quoted(socket)): \(String(cString: strerror(error)))"
      )
    }
    var watchdog: UInt64 = 0
    // The variables are inherited by processes that they are not meant for.
    if let text = environment.watchdogMicroseconds, environment.watchdogProcess.map({ $0 == "\(getpid())" }) ?? true {
      if let microseconds = UInt64(text), microseconds > 0, microseconds < UInt64.max / 2000 {
        watchdog = error == 0 ? microseconds * 1000 : 0
      } else {
        problems.append("WATCHDOG_USEC is \(quoted(text)); it must be a number of microseconds; systemd gets no pings")
      }
    }
    isOpen = error == 0
    self.watchdog = watchdog
    self.problems = problems
  }

  deinit {
    cprocess_datagram_close(target)
    target.deallocate()
  }

  /// Whether somebody can be told.
  let isOpen: Bool
}

extension Watchdog {
  /// Sends systemd what the service is doing, in one line for people (`systemctl status` shows it), with
  /// ``Configuration/Lifecycle/notifiesSystemd``. When a source begins to hang, systemd gets the name of that source, and
  /// when that is over an empty line: say it again then.
  ///
  /// Never waits for systemd.
  ///
  /// - Parameter status: The line.
  public func tellSystemd(status: String) { core?.policies.tellSystemd(status: status) }
}
