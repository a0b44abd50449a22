import CCulpritProcess
import CulpritStallRecord

extension Watchdog.ProcessorTime {
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
    let now = current()
    if base.taken_ns == 0 { base = now }
    var used = now.since(base)
    used.taken_ns = base.taken_ns
    return used
  }
}

extension cprocess_cpu {
  /// What has been used since `base`; of the machine nothing where its figures were not there at one of the times.
  @_noLocks func since(_ base: cprocess_cpu) -> cprocess_cpu {
    var used = self
    if base.machine_user_ns == 0 { (used.machine_user_ns, used.machine_system_ns) = (0, 0) }
    used.user_ns &-= min(used.user_ns, base.user_ns)
    used.system_ns &-= min(used.system_ns, base.system_ns)
    used.machine_user_ns &-= min(used.machine_user_ns, base.machine_user_ns)
    used.machine_system_ns &-= min(used.machine_system_ns, base.machine_system_ns)
    return used
  }
}

/// Where this file's code lies (``Residency``).
func cpuHistoryCodeAnchor() -> CodeAnchor { { 7 } }
