import CulpritStallRecord

extension Watchdog {
  /// The CPU time used while a work item was stuck.
  public struct CPUTime: Sendable, Hashable, CustomStringConvertible {
    /// The time covered by the figures, approximately since the beginning of the work item.
    public var elapsed: Duration
    /// User time of all processes of the machine; `nil` if unknown.
    public var machineUser: Duration?
    /// System time of all processes of the machine; `nil` if unknown.
    public var machineSystem: Duration?
    /// The time covered by the machine's figures: ``elapsed``, but at most the time since the start of the watchdog.
    public var machineElapsed: Duration
    /// User time of this process.
    public var user: Duration
    /// System time of this process.
    public var system: Duration
    /// CPU time of the stuck thread; `nil` if unknown.
    public var thread: Duration?
    /// The time covered by ``thread``: since the thread's first sample.
    public var threadElapsed: Duration
    /// The number of CPUs of the machine.
    public var cpuCount: Int

    /// A sentence without its full stop.
    public var description: String {
      func times(_ user: Duration, _ system: Duration, _ share: Double) -> String {
        "\(seconds(user + system)) (user \(seconds(user)), system \(seconds(system))), \(percent(share)) CPU"
      }
      func seconds(_ time: Duration) -> String {
        let milliseconds = time.wholeNanoseconds / 1_000_000 + (time.wholeNanoseconds % 1_000_000 + 500_000) / 1_000_000
        let fraction = String(milliseconds % 1000 + 1000).dropFirst()
        return "\(milliseconds / 1000).\(fraction)"
      }
      func percent(_ share: Double) -> String { "\(Int(exactly: (share * 100).rounded()) ?? 0) %" }
      var parts: [String] = []
      if let machineUser, let machineSystem, let machineShare {
        parts.append("elapsed total CPU time (seconds): \(times(machineUser, machineSystem, machineShare))")
      }
      parts.append("elapsed application CPU time (seconds): \(times(user, system, processShare))")
      if let thread, let threadShare {
        parts.append("the thread's own: \(seconds(thread)), \(percent(threadShare)) of one")
      }
      let cpus = cpuCount == 1 ? "1 CPU" : "\(cpuCount) CPUs"
      return parts.joined(separator: "; ") + "; in \(seconds(elapsed)) s, on \(cpus)"
    }

    /// The machine's share of the time of all CPUs; `nil` if unknown.
    public var machineShare: Double? {
      machineUser.map { share($0 + (machineSystem ?? .zero), machineElapsed) }
    }

    /// The process's share of the time of all CPUs.
    public var processShare: Double { share(user + system, elapsed) }

    /// The thread's share of one CPU; `nil` if unknown.
    public var threadShare: Double? {
      thread.map { threadElapsed > .zero ? $0.inSeconds / threadElapsed.inSeconds : 0 }
    }

    private func share(_ used: Duration, _ elapsed: Duration) -> Double {
      elapsed > .zero && cpuCount > 0 ? used.inSeconds / (elapsed.inSeconds * Double(cpuCount)) : 0
    }
  }
}
