import CCulpritProcess
import CulpritStallRecord

extension Watchdog.CPUTime {
  init(_ termination: cprocess_termination_request) {
    elapsed = Duration(wholeNanoseconds: termination.elapsed_ns)
    machineElapsed = elapsed
    let used = termination.used
    let isReported = used.machine_user_ns > 0 || used.machine_system_ns > 0
    machineUser = isReported ? Duration(wholeNanoseconds: used.machine_user_ns) : nil
    machineSystem = !isReported ? nil : Duration(wholeNanoseconds: used.machine_system_ns)
    user = Duration(wholeNanoseconds: used.user_ns)
    system = Duration(wholeNanoseconds: used.system_ns)
    thread = termination.thread_elapsed_ns > 0 ? Duration(wholeNanoseconds: termination.thread_ns) : nil
    threadElapsed = Duration(wholeNanoseconds: termination.thread_elapsed_ns)
    cpuCount = Int(termination.cpus)
  }

  init(
    elapsed: UInt64,
    user: UInt64,
    system: UInt64,
    machineElapsed: UInt64,
    machineUser: UInt64,
    machineSystem: UInt64,
    thread: UInt64,
    cpuCount: Int
  ) {
    self.elapsed = Duration(wholeNanoseconds: elapsed)
    self.machineElapsed = Duration(wholeNanoseconds: machineElapsed)
    let isReported = machineUser > 0 || machineSystem > 0
    self.machineUser = isReported ? Duration(wholeNanoseconds: machineUser) : nil
    self.machineSystem = isReported ? Duration(wholeNanoseconds: machineSystem) : nil
    self.user = Duration(wholeNanoseconds: user)
    self.system = Duration(wholeNanoseconds: system)
    self.thread = Duration(wholeNanoseconds: thread)
    threadElapsed = self.elapsed
    self.cpuCount = cpuCount
  }
}

/// CPU usage at recent times.
struct CPUHistory: ~Copyable {
  static let length = 64

  private var source = cprocess_cpu_source()
  private let times: UnsafeMutablePointer<cprocess_cpu>
  private var next = 0

  init() {
    cprocess_cpu_open(&source)
    times = .allocate(capacity: Self.length)
    times.initialize(repeating: cprocess_cpu(), count: Self.length)
  }

  deinit {
    // SAFETY: allocated by this value's initializer, and not shared.
    times.deallocate()
  }

  var cpus: UInt32 { @_noLocks get { source.cpus } }

  @_noLocks func current() -> cprocess_cpu {
    var now = cprocess_cpu()
    var source = source
    cprocess_cpu_read(&source, &now)
    return now
  }

  @_noLocks mutating func note() {
    // SAFETY: `next` is below ``length``.
    cprocess_cpu_read(&source, times + next)
    next = (next &+ 1) % Self.length
  }

  /// Returns the usage since about `begin`. `taken_ns` of the result is the exact time.
  @_noLocks func used(since begin: UInt64) -> cprocess_cpu {
    var base = cprocess_cpu()
    var index = 0
    while index < Self.length {
      // SAFETY: `index` is below ``length``.
      let time = times[index]
      if time.taken_ns != 0 {
        // The last recorded time up to `begin`, otherwise the first after `begin`.
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
  /// Returns the usage since `base`. The machine's figures are 0 if `base` lacks them.
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

func cpuHistoryCodeAnchor() -> CodeAnchor { { 7 } }
