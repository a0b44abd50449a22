import CulpritStallRecord

extension Watchdog {
  /// The CPU time used while a work item was stuck. It distinguishes a process that computes from one that waits.
  public struct CPUTime: Sendable, Hashable, CustomStringConvertible {
    /// The time that the figures cover, approximately from the beginning of the work item.
    public var elapsed: Duration
    /// User time of all processes of the machine; `nil` if the kernel does not report it.
    public var machineUser: Duration?
    /// System time of all processes of the machine; `nil` if the kernel does not report it.
    public var machineSystem: Duration?
    /// The time that the machine's figures cover: ``elapsed``, but at most the time since the start of the watchdog.
    public var machineElapsed: Duration
    /// User time of this process.
    public var user: Duration
    /// System time of this process.
    public var system: Duration
    /// CPU time of the stuck thread; `nil` if unknown.
    public var thread: Duration?
    /// The time that ``thread`` covers: since the first sample of the thread.
    public var threadElapsed: Duration
    /// The number of CPUs of the machine.
    public var cpuCount: Int

    /// The statistics as a sentence without its full stop.
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

    /// The share of the time of all CPUs used by all processes of the machine; `nil` if the kernel does not report it.
    public var machineShare: Double? {
      machineUser.map { share($0 + (machineSystem ?? .zero), machineElapsed) }
    }

    /// The share of the time of all CPUs used by this process.
    public var processShare: Double { share(user + system, elapsed) }

    /// The share of one CPU's time used by the stuck thread; `nil` if unknown.
    public var threadShare: Double? {
      thread.map { threadElapsed > .zero ? $0.inSeconds / threadElapsed.inSeconds : 0 }
    }

    private func share(_ used: Duration, _ elapsed: Duration) -> Double {
      elapsed > .zero && cpuCount > 0 ? used.inSeconds / (elapsed.inSeconds * Double(cpuCount)) : 0
    }
  }
}
