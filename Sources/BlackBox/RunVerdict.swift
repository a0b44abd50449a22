import CulpritStallRecord

/// How a run of a service ended.
package enum RunVerdict: Hashable, Sendable, CustomStringConvertible {
  /// The run ended in an orderly way. The watchdog was stopped without a hang, `main` returned, exit(3) was called, or
  /// the process executed another program (execve(2)) while no work was stalled.
  case cleanExit
  /// SIGTERM, without a handler of the service, ended the run while no work was stalled.
  case terminated
  /// The run was killed, ended by a signal from another process, or replaced by another program while work was stalled.
  /// Also if the watchdog was stopped during a hang.
  case fatalHang
  /// The run ended without a trace while no work was stalled, usually by SIGKILL or _exit(2).
  case killed
  /// A signal from a fault or from the process itself (abort(3)) ended the run.
  case crash(signal: Int32)
  /// The kernel killed the run because memory was exhausted.
  case outOfMemory
  /// The run ended without a trace while no work was stalled, and the kernel killed a process outside the run's group
  /// because memory was exhausted.
  case possiblyOutOfMemory
  /// The machine stopped or restarted before the run ended.
  case machineGone

  /// `hasOpenHang` is needed only for a run with a recorded end. `boot` is the current boot ID.
  ///
  /// `wasReplaced` is whether the process continued without the run.
  package init(
    of run: RunRecord,
    hasOpenStall: Bool,
    hasOpenHang: Bool,
    boot: String,
    memoryKills: MemoryKills.Change,
    wasReplaced: Bool
  ) {
    if run.ended != nil {
      // A service that cannot finish its shutdown is killed after it has stopped its watchdog.
      self = hasOpenHang ? .fatalHang : .cleanExit
    } else if run.terminated != nil {
      self = hasOpenStall ? .fatalHang : .terminated
    } else if run.identity.boot != boot {
      self = .machineGone
    } else if let crash = run.crash {
      // systemd ends hung services with SIGABRT. A process that calls abort(3) itself has detected an error.
      let isSent = crash.sender != 0 && crash.sender != run.identity.process
      self = hasOpenStall && isSent ? .fatalHang : .crash(signal: crash.signal)
    } else if wasReplaced {
      self = hasOpenStall ? .fatalHang : .cleanExit
    } else if memoryKills == .inOwnGroup {
      self = .outOfMemory
    } else if hasOpenStall {
      self = .fatalHang
    } else {
      self = memoryKills == .above ? .possiblyOutOfMemory : .killed
    }
  }

  /// The name of the verdict in files.
  var name: String {
    switch self {
    case .cleanExit: "clean-exit"
    case .terminated: "terminated"
    case .fatalHang: "fatal-hang"
    case .killed: "killed"
    case .crash(let signal): "crash-\(signal)"
    case .outOfMemory: "out-of-memory"
    case .possiblyOutOfMemory: "possibly-out-of-memory"
    case .machineGone: "machine-gone"
    }
  }

  init?(name: String) {
    let plain: [RunVerdict] = [
      .cleanExit, .terminated, .fatalHang, .killed, .outOfMemory, .possiblyOutOfMemory, .machineGone,
    ]
    let signal = name.hasPrefix("crash-") ? Int32(name.dropFirst(6)) : nil
    guard let found = plain.first(where: { $0.name == name }) ?? signal.map({ .crash(signal: $0) }) else { return nil }
    self = found
  }

  package var description: String {
    switch self {
    case .cleanExit: "clean exit"
    case .terminated: "terminated by SIGTERM while nothing was stuck"
    case .fatalHang: "fatal hang: ended while work was stuck"
    case .killed: "killed, or ended by _exit, while nothing was stuck"
    case .crash(let signal): "crash: signal \(signal)"
    case .outOfMemory: "killed by the kernel: out of memory"
    case .possiblyOutOfMemory:
      "killed, possibly by the kernel: it killed a process of this machine for lack of memory at that time"
    case .machineGone: "the machine restarted or lost power before the run ended"
    }
  }
}
