import CulpritStallRecord

extension Watchdog {
  /// The processor time that was used while a work item was stuck: it tells a process that computes from one that
  /// waits.
  public struct ProcessorTime: Sendable, Hashable, CustomStringConvertible {
    /// The time that the figures cover: about from the beginning of the work item.
    public var elapsed: Duration
    /// User time of all processes of the machine; `nil` where the kernel does not tell.
    public var machineUser: Duration?
    /// System time of all processes of the machine; `nil` where the kernel does not tell.
    public var machineSystem: Duration?
    /// The time that the machine's figures cover: as ``elapsed``, but from the start of the watchdog at the earliest.
    public var machineElapsed: Duration
    /// User time of this process.
    public var user: Duration
    /// System time of this process.
    public var system: Duration
    /// Processor time of the stuck thread; `nil` if unknown.
    public var thread: Duration?
    /// The time that ``thread`` covers: since the thread was looked at for the first time.
    public var threadElapsed: Duration
    /// The number of processors of the machine.
    public var processors: Int

    /// The statistics in a sentence without its end.
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
      return parts.joined(separator: "; ") + "; in \(seconds(elapsed)) s, on \(processors) processors"
    }

    /// The part of all processors' time that every process of the machine used; `nil` where the kernel does not tell.
    public var machineShare: Double? {
      machineUser.map { share($0 + (machineSystem ?? .zero), machineElapsed) }
    }

    /// The part of all processors' time that this process used.
    public var processShare: Double { share(user + system, elapsed) }

    /// The part of one processor's time that the stuck thread used; `nil` if unknown.
    public var threadShare: Double? {
      thread.map { threadElapsed > .zero ? $0.inSeconds / threadElapsed.inSeconds : 0 }
    }

    private func share(_ used: Duration, _ elapsed: Duration) -> Double {
      elapsed > .zero && processors > 0 ? used.inSeconds / (elapsed.inSeconds * Double(processors)) : 0
    }
  }
}
