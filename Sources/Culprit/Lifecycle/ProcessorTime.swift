import CCulpritProcess
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

    init(_ termination: cprocess_termination_request) {
      elapsed = Duration(wholeNanoseconds: termination.elapsed_ns)
      machineElapsed = elapsed
      let used = termination.used
      let isTold = used.machine_user_ns > 0 || used.machine_system_ns > 0
      machineUser = isTold ? Duration(wholeNanoseconds: used.machine_user_ns) : nil
      machineSystem = !isTold ? nil : Duration(wholeNanoseconds: used.machine_system_ns)
      user = Duration(wholeNanoseconds: used.user_ns)
      system = Duration(wholeNanoseconds: used.system_ns)
      thread = termination.thread_elapsed_ns > 0 ? Duration(wholeNanoseconds: termination.thread_ns) : nil
      threadElapsed = Duration(wholeNanoseconds: termination.thread_elapsed_ns)
      processors = Int(termination.processors)
    }

    init(
      elapsed: UInt64,
      user: UInt64,
      system: UInt64,
      machineElapsed: UInt64,
      machineUser: UInt64,
      machineSystem: UInt64,
      thread: UInt64,
      processors: Int
    ) {
      self.elapsed = Duration(wholeNanoseconds: elapsed)
      self.machineElapsed = Duration(wholeNanoseconds: machineElapsed)
      let isTold = machineUser > 0 || machineSystem > 0
      self.machineUser = isTold ? Duration(wholeNanoseconds: machineUser) : nil
      self.machineSystem = isTold ? Duration(wholeNanoseconds: machineSystem) : nil
      self.user = Duration(wholeNanoseconds: user)
      self.system = Duration(wholeNanoseconds: system)
      self.thread = Duration(wholeNanoseconds: thread)
      threadElapsed = self.elapsed
      self.processors = processors
    }

    /// The statistics in a sentence without its end.
    public var description: String {
      func times(_ user: Duration, _ system: Duration, _ share: Double) -> String {
        "\(seconds(user + system)) (user \(seconds(user)), system \(seconds(system))), \(percent(share)) CPU"
      }
      func seconds(_ time: Duration) -> String {
        let milliseconds = (time.wholeNanoseconds + 500_000) / 1_000_000
        let fraction = String(milliseconds % 1000 + 1000).dropFirst()
        return "\(milliseconds / 1000).\(fraction)"
      }
      func percent(_ share: Double) -> String { "\(Int((share * 100).rounded())) %" }
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
      elapsed > .zero ? used.inSeconds / (elapsed.inSeconds * Double(processors)) : 0
    }
  }
}

/// What had been used at some times, so that what was used since the begin of a unit can be told.
struct CPUHistory: ~Copyable {
  /// How many times are remembered.
  static let length = 64

  private var source = cprocess_cpu_source()
  private let times: UnsafeMutablePointer<cprocess_cpu>
  private var next = 0

  /// Allocates.
  init() {
    cprocess_cpu_open(&source)
    times = .allocate(capacity: Self.length)
    times.initialize(repeating: cprocess_cpu(), count: Self.length)
  }

  deinit {
    // SAFETY: allocated by the initializer, and nobody else has it.
    times.deallocate()
  }

  var processors: UInt32 { @_noLocks get { source.processors } }

  /// What has been used by now.
  @_noLocks func current() -> cprocess_cpu {
    var now = cprocess_cpu()
    var source = source
    cprocess_cpu_read(&source, &now)
    return now
  }

  /// Remembers what has been used by now.
  @_noLocks mutating func note() {
    // SAFETY: `next` is below the length.
    cprocess_cpu_read(&source, times + next)
    next = (next &+ 1) % Self.length
  }

  /// What has been used since `begin`, or since shortly before it, as far as that is remembered: `taken_ns` is then.
  @_noLocks func used(since begin: UInt64) -> cprocess_cpu {
    var base = cprocess_cpu()
    var index = 0
    while index < Self.length {
      // SAFETY: `index` is below the length.
      let time = times[index]
      if time.taken_ns != 0 {
        // The last one before the begin, or the first one at all.
        let isBetter =
          base.taken_ns == 0
          || (time.taken_ns <= begin
            ? base.taken_ns > begin || time.taken_ns > base.taken_ns
            : base.taken_ns > begin && time.taken_ns < base.taken_ns)
        if isBetter { base = time }
      }
      index &+= 1
    }
    var now = current()
    if base.taken_ns == 0 { base = now }
    now.user_ns &-= min(now.user_ns, base.user_ns)
    now.system_ns &-= min(now.system_ns, base.system_ns)
    now.machine_user_ns &-= min(now.machine_user_ns, base.machine_user_ns)
    now.machine_system_ns &-= min(now.machine_system_ns, base.machine_system_ns)
    now.taken_ns = base.taken_ns
    return now
  }
}
