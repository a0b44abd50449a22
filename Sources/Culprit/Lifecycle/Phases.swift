import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CulpritStallRecord
import Glibc

/// Launch and shutdown with a time budget, each a work item of the main thread.
final class Phases: @unchecked Sendable {
  // SAFETY: slots and thread-id words are never freed. The only mutable state is behind the mutex.
  static let launchName = "launch"
  static let shutdownName = "shutdown"

  /// Static, because a process is launched only once.
  private static let isLaunched = Mutex(false)

  /// Unmarked before the shutdown begins; `nil` without a budget.
  let shutdown: SlotRegistry.Lease?
  /// `nil` without a budget.
  let launch: SlotRegistry.Lease?
  /// Duration of the launch before the watch, in nanoseconds.
  private let head: UInt64
  private let atLaunch: cprocess_program_start
  private let base: cprocess_cpu
  private let cpus: UInt32
  private let escalation: EscalationBlock

  init(_ configuration: Configuration, _ control: ControlBlock, _ escalation: EscalationBlock) throws(WatchdogError) {
    self.escalation = escalation
    let now = clinux_clock_ns()
    var source = cprocess_cpu_source()
    cprocess_cpu_open(&source)
    var base = cprocess_cpu()
    cprocess_cpu_read(&source, &base)
    self.base = base
    cpus = source.cpus
    // Never freed, because samplers might read the words late.
    let mainThread = UnsafeMutablePointer<UInt32>.allocate(capacity: 2)
    mainThread.initialize(repeating: UInt32(truncatingIfNeeded: getpid()), count: 2)
    func lease(_ name: String, _ budget: Duration) throws(WatchdogError) -> SlotRegistry.Lease {
      let source = WatchedSource(kind: .phase, name: name)
      let lease = try SlotRegistry.shared.lease(source, for: control, threshold: budget, polled: false)
      observer_slot_set_addresses(lease.slot, UInt64(UInt(bitPattern: mainThread)), 0)
      return lease
    }
    shutdown = try configuration.lifecycle.shutdownThreshold.map { budget throws(WatchdogError) in
      try lease(Self.shutdownName, budget)
    }
    atLaunch = Self.launchStart(now, budget: configuration.lifecycle.launchThreshold)
    head = now &- min(now, atLaunch.at_ns)
    guard let budget = configuration.lifecycle.launchThreshold, !Self.isLaunched.withLock({ $0 }) else {
      launch = nil
      return
    }
    let launch = try lease(Self.launchName, budget)
    self.launch = launch
    launch.slot.begin(since: atLaunch.at_ns, unwatched: head)
    observer_control_tick_by(control.pointer, now)
  }

  func launched() {
    Self.isLaunched.withLock { $0 = true }
    if let launch { SlotRegistry.shared.endItem(launch) }
  }

  /// Called after the escalation thread has ended.
  func end() { for lease in [launch, shutdown] { if let lease { SlotRegistry.shared.end(lease) } } }

  func notes(_ source: WatchedSource) -> [StallNote] {
    guard source.kind == .phase else { return [] }
    let isLaunch = source.name == Self.launchName
    var source = cprocess_cpu_source()
    cprocess_cpu_open(&source)
    var now = cprocess_cpu()
    cprocess_cpu_read(&source, &now)
    let thread = clinux_clock_thread_cpu_ns(getpid())
    var from = base
    var threadFrom = atLaunch.thread_ns
    if isLaunch {
      from.user_ns = atLaunch.user_ns
      from.system_ns = atLaunch.system_ns
    } else if !cprocess_escalation_shutdown_base(escalation.pointer, &from, &threadFrom) {
      return []
    }
    let elapsed = clinux_clock_between_ns(from.taken_ns, now.taken_ns)
    let used = now.since(from)
    let statistics = Watchdog.CPUTime(
      // The CPU time before the watch is known for the process, but not for the machine.
      elapsed: isLaunch ? elapsed &+ head : elapsed,
      user: used.user_ns,
      system: used.system_ns,
      machineElapsed: elapsed,
      machineUser: used.machine_user_ns,
      machineSystem: used.machine_system_ns,
      thread: clinux_clock_between_ns(threadFrom, thread),
      cpuCount: Int(cpus)
    )
    var notes = [StallNote(.cpuTime, text: statistics.description)]
    if isLaunch, head > 0 { notes.append(StallNote(.unwatched, time: Duration(wholeNanoseconds: head))) }
    return notes
  }

  /// Returns the beginning of a launch: the start of the process, if the program ran within an eighth of `budget`, the
  /// time allowed for the loader. An older process ran another program before execve(2), so its launch begins with the
  /// program.
  private static func launchStart(_ now: UInt64, budget: Duration?) -> cprocess_program_start {
    let program = cprocess_cpu_at_program_start()
    let process = processStart(now)
    let loading = (budget?.wholeNanoseconds ?? 0) / 8
    if process &+ loading < program.at_ns { return program }
    return cprocess_program_start(at_ns: process, user_ns: 0, system_ns: 0, thread_ns: 0)
  }

  /// Returns the start time of the process by the observer's clock: field 22 of /proc/self/stat, in ticks since boot
  /// (proc(5)); `now` if unknown.
  static func processStart(_ now: UInt64) -> UInt64 {
    guard let text = ProcessMap.readAll("/proc/self/stat"), let name = text.lastIndex(of: ")") else { return now }
    // The first field after the name is number 3.
    let fields = text[text.index(after: name)...].split(separator: " ")
    let ticks = sysconf(Int32(_SC_CLK_TCK))
    guard fields.count > 19, let start = UInt64(fields[19]), ticks > 0 else { return now }
    let (began, overflow) = start.multipliedReportingOverflow(by: 1_000_000_000 / UInt64(ticks))
    let age = overflow ? 0 : clinux_clock_between_ns(began, clinux_clock_boot_ns())
    return now &- min(age, now &- 1)
  }
}

/// Gives a recorder access to the phases, which are created later.
final class PhaseNotes: Sendable {
  private struct Source {
    weak var lifecycle: ProcessLifecycle?
  }

  private let source = Mutex(Source())

  func set(_ lifecycle: ProcessLifecycle) { source.withLock { $0.lifecycle = lifecycle } }

  func notes(_ source: WatchedSource) -> [StallNote] { self.source.withLock { $0.lifecycle }?.notes(source) ?? [] }
}

extension Watchdog {
  /// Ends the launch (``Configuration/Lifecycle/launchThreshold``). Sends READY=1 to systemd if
  /// ``Configuration/Lifecycle/notifiesSystemd`` is set.
  public func launched() { engine?.lifecycle.launched() }

  /// Begins the shutdown (``Configuration/Lifecycle/shutdownThreshold``). Sends STOPPING=1 to systemd if
  /// ``Configuration/Lifecycle/notifiesSystemd`` is set.
  public func shuttingDown() { engine?.lifecycle.shuttingDown() }
}
