import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CulpritStallRecord
import Glibc
import Synchronization

/// The phases of the process's life that have budgets: its launch and its shutdown. Each is a work item of the main
/// thread.
final class Phases: @unchecked Sendable {
  // SAFETY: the slots and the word are never freed; what changes is under the mutex.
  static let launchName = "launch"
  static let shutdownName = "shutdown"

  /// A process is launched once, however often it is watched.
  private static let isLaunched = Mutex(false)

  /// The slot of the shutdown, not marked before it begins; `nil` when it has no budget.
  let shutdown: SlotRegistry.Lease?
  /// The slot of the launch; `nil` when it has no budget.
  let launch: SlotRegistry.Lease?
  /// How long the launch had been going on when it began to be watched.
  private let head: UInt64
  /// What had been used when the launch began.
  private let atLaunch: cprocess_program_start
  /// What had been used then.
  private let base: cprocess_cpu
  private let processors: UInt32
  private let escalation: EscalationBlock

  /// Watches the phases that `configuration` has budgets for. The launch has begun with the program.
  init(_ configuration: Configuration, _ control: ControlBlock, _ escalation: EscalationBlock) throws(WatchdogError) {
    self.escalation = escalation
    let now = clinux_clock_ns()
    var source = cprocess_cpu_source()
    cprocess_cpu_open(&source)
    var base = cprocess_cpu()
    cprocess_cpu_read(&source, &base)
    self.base = base
    processors = source.processors
    // Where the slots have the id of the thread that works on them. Never freed: who looks there may be late.
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
    observer_slot_begin_since(launch.slot, atLaunch.at_ns, head)
    observer_control_tick_by(control.pointer, now)
  }

  /// The launch is over.
  func launched() {
    Self.isLaunched.withLock { $0 = true }
    if let launch { SlotRegistry.shared.endItem(launch) }
  }

  /// Ends the watch. The escalation thread must have ended.
  func end() { for lease in [launch, shutdown] { if let lease { SlotRegistry.shared.end(lease) } } }

  /// What is to be noted about a phase that takes too long, now.
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
    let statistics = Watchdog.ProcessorTime(
      // What the machine used before the watchdog was there is not known, but what this process did is.
      elapsed: isLaunch ? elapsed &+ head : elapsed,
      user: used.user_ns,
      system: used.system_ns,
      machineElapsed: elapsed,
      machineUser: used.machine_user_ns,
      machineSystem: used.machine_system_ns,
      thread: clinux_clock_between_ns(threadFrom, thread),
      processors: Int(processors)
    )
    var notes = [StallNote(.processorTime, text: statistics.description)]
    if isLaunch, head > 0 { notes.append(StallNote(.unwatched, time: Duration(wholeNanoseconds: head))) }
    return notes
  }

  /// When the launch began, and what had been used then, for a launch that may take `budget`.
  ///
  /// With the process, as long as no more than an eighth of the budget passed until the program was there: that is what
  /// the loader takes. A process that is older by then has run another program before (execve(2)), a shell's script or
  /// an earlier run of the service, for as long as days: then with the program.
  private static func launchStart(_ now: UInt64, budget: Duration?) -> cprocess_program_start {
    let program = cprocess_cpu_at_program_start()
    let process = processStart(now)
    let loading = (budget?.wholeNanoseconds ?? 0) / 8
    if process &+ loading < program.at_ns { return program }
    return cprocess_program_start(at_ns: process, user_ns: 0, system_ns: 0, thread_ns: 0)
  }

  /// When the process was started, on the observer's clock: field 22 of /proc/self/stat, in ticks since the machine was
  /// started (proc(5)). `now` when the kernel does not tell.
  static func processStart(_ now: UInt64) -> UInt64 {
    guard let text = ProcessMap.readAll("/proc/self/stat"), let name = text.lastIndex(of: ")") else { return now }
    // The fields after the name begin with the third one.
    let fields = text[text.index(after: name)...].split(separator: " ")
    let ticks = sysconf(Int32(_SC_CLK_TCK))
    guard fields.count > 19, let start = UInt64(fields[19]), ticks > 0 else { return now }
    let (began, overflow) = start.multipliedReportingOverflow(by: 1_000_000_000 / UInt64(ticks))
    let age = overflow ? 0 : clinux_clock_between_ns(began, clinux_clock_boot_ns())
    return now &- min(age, now &- 1)
  }
}

/// The notes of phases, for a recorder that is made before the phases are.
final class PhaseNotes: Sendable {
  private struct Source {
    weak var policies: Policies?
  }

  private let source = Mutex(Source())

  func set(_ policies: Policies) { source.withLock { $0.policies = policies } }

  func notes(_ source: WatchedSource) -> [StallNote] { self.source.withLock { $0.policies }?.notes(source) ?? [] }
}

extension Watchdog {
  /// Ends the launch: the service is ready (``Configuration/Lifecycle/launchThreshold``). Sends READY=1 to systemd,
  /// with ``Configuration/Lifecycle/notifiesSystemd``.
  public func launched() { core?.policies.launched() }

  /// Begins the shutdown: the service is about to end (``Configuration/Lifecycle/shutdownThreshold``). Sends STOPPING=1
  /// to systemd, with ``Configuration/Lifecycle/notifiesSystemd``.
  public func shuttingDown() { core?.policies.shuttingDown() }
}
