import CulpritStallRecord

/// How a run of a service ended.
package enum RunVerdict: Hashable, Sendable, CustomStringConvertible {
  /// In an orderly way: its watchdog was stopped, it returned from `main` or called exit(3), or its process has gone on as
  /// another program (execve(2)) while nothing was stuck.
  case cleanExit
  /// By SIGTERM, for which the service had no handler, while nothing was stuck.
  case terminated
  /// In mid-stall: it was killed, ended by a signal that was sent, or replaced by another program, while work was stuck.
  case fatalHang
  /// By a signal that left no trace (SIGKILL, mostly) or by _exit(2), while nothing was stuck.
  case killed
  /// By this signal, which came from a fault of its own or from itself (abort(3)).
  case crash(signal: Int32)
  /// The kernel killed it for want of memory.
  case outOfMemory
  /// The machine went down, or was started anew, before it had ended.
  case machineGone

  /// Judges a run that is over.
  ///
  /// - Parameters:
  ///   - run: What it wrote about itself.
  ///   - hasOpenStall: Whether one of its stalls has no end.
  ///   - boot: The boot id of now.
  ///   - memoryKills: Where the kernel has killed for want of memory since the run began.
  ///   - wasReplaced: Whether the process has gone on without it.
  package init(
    of run: RunRecord,
    hasOpenStall: Bool,
    boot: String,
    memoryKills: MemoryKills.Change,
    wasReplaced: Bool
  ) {
    if run.ended != nil {
      self = .cleanExit
    } else if run.terminated != nil {
      self = hasOpenStall ? .fatalHang : .terminated
    } else if run.identity.boot != boot {
      self = .machineGone
    } else if let crash = run.crash {
      // systemd ends what hangs by SIGABRT. Who calls abort(3) has found something wrong with itself.
      let isSent = crash.sender != 0 && crash.sender != run.identity.process
      self = hasOpenStall && isSent ? .fatalHang : .crash(signal: crash.signal)
    } else if wasReplaced {
      // Nobody has killed it: the process lived on.
      self = hasOpenStall ? .fatalHang : .cleanExit
    } else if memoryKills == .inOwnGroup {
      self = .outOfMemory
    } else if hasOpenStall {
      self = .fatalHang
    } else {
      // A group that contains that of the service, which is gone by now: others in it may have been killed. But this
      // one has been killed by somebody, too.
      self = memoryKills == .above ? .outOfMemory : .killed
    }
  }

  /// Its name in files.
  var name: String {
    switch self {
    case .cleanExit: "clean-exit"
    case .terminated: "terminated"
    case .fatalHang: "fatal-hang"
    case .killed: "killed"
    case .crash(let signal): "crash-\(signal)"
    case .outOfMemory: "out-of-memory"
    case .machineGone: "machine-gone"
    }
  }

  /// The verdict that is called `name` in files.
  init?(name: String) {
    switch name {
    case "clean-exit": self = .cleanExit
    case "terminated": self = .terminated
    case "fatal-hang": self = .fatalHang
    case "killed": self = .killed
    case "out-of-memory": self = .outOfMemory
    case "machine-gone": self = .machineGone
    default:
      guard name.hasPrefix("crash-"), let signal = Int32(name.dropFirst(6)) else { return nil }
      self = .crash(signal: signal)
    }
  }

  /// The verdict in words.
  package var description: String {
    switch self {
    case .cleanExit: "clean exit"
    case .terminated: "terminated by SIGTERM while nothing was stuck"
    case .fatalHang: "fatal hang: it was ended while work was stuck"
    case .killed: "killed, or ended by _exit, while nothing was stuck"
    case .crash(let signal): "crash: signal \(signal)"
    case .outOfMemory: "killed by the kernel for want of memory"
    case .machineGone: "the machine went down before it had ended"
    }
  }
}
