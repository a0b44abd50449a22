import CCulpritProcess
import Glibc

/// The connection to a service manager with systemd's protocol, sd_notify(3).
final class SystemdNotifier: @unchecked Sendable {
  // SAFETY: written by the initializer, then by the escalation thread only.
  let target: UnsafeMutablePointer<cprocess_datagram>
  /// The time without a ping after which systemd considers the service dead, in nanoseconds; 0: no watchdog.
  let watchdog: UInt64
  let problems: [String]

  /// Returns `nil` without NOTIFY_SOCKET.
  init?(_ environment: Environment) {
    guard let socket = environment.notifySocket else { return nil }
    var problems: [String] = []
    target = .allocate(capacity: 1)
    target.initialize(to: cprocess_datagram())
    target.pointee.socket.number = -1
    let error = cprocess_datagram_open(target, socket)
    if error != 0 {
      problems.append(
        "cannot notify systemd: NOTIFY_SOCKET is \(quoted(socket)): \(String(cString: strerror(error)))"
      )
    }
    var watchdog: UInt64 = 0
    // A child process inherits variables meant for its parent.
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

  let isOpen: Bool
}

extension Watchdog {
  /// Sends one line of status for `systemctl status` to systemd, if ``Configuration/Lifecycle/notifiesSystemd`` is set.
  /// Never waits for systemd.
  ///
  /// When a source begins to hang, the watchdog replaces the status with the name of the source. After the hang, the
  /// status is empty; then call this method again.
  ///
  /// - Parameter status: The line.
  public func notifySystemd(status: String) { engine?.lifecycle.notifySystemd(status: status) }
}
