import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import Glibc

/// Acts on stalls that do not end. Pings systemd only while no source hangs and the monitor runs. Must work when every
/// pool, the allocator and the disk are blocked.
struct EscalationThread: ~Copyable {
  struct Systemd {
    var target: UnsafeMutablePointer<cprocess_datagram>
    /// The time without a ping after which systemd considers the service dead, in nanoseconds; 0: no watchdog.
    var watchdog: UInt64
  }

  struct PhaseSlots {
    var launch: UnsafeMutablePointer<observer_slot>?
    var shutdown: UnsafeMutablePointer<observer_slot>?
    var noticesTermination: Bool
  }

  /// Interval of checks for a SIGTERM handler, in nanoseconds.
  private static let chainInterval: UInt64 = 500_000_000
  /// Interval of checks for the end of a hang.
  private static let hangInterval: UInt64 = 250_000_000
  private static let resendInterval: UInt64 = 100_000_000
  /// Time without a tick after which the monitor counts as stopped.
  private static let monitorPatience: UInt64 = 2_000_000_000

  let own: UnsafeMutablePointer<cprocess_escalation>
  let control: UnsafeMutablePointer<observer_control>
  let stalls: StallTable
  let slots: SlotTable
  private let systemd: Systemd?
  private let phases: PhaseSlots
  private var isShuttingDown = false
  private var isChained = false
  var text = PlainText(capacity: 2 * Int(CPROCESS_TEXT_BYTES))
  var view = observer_stall_snapshot()

  private(set) var lastRequest: UInt32 = 0
  private var lastPing: UInt64 = 0
  private var nextPing: UInt64 = 0
  var history = CPUHistory()
  var nextNote: UInt64 = 0
  /// For each slot, the work item whose termination was vetoed.
  let vetoed: UnsafeMutablePointer<UInt64>
  let processID = Int(getpid())
  /// Whether pings are withheld, and whether the last report has been requested since.
  private var isHung = false
  private var isReported = false
  /// The monitor's tick count, and the time of its last change.
  private var ticks: UInt64 = 0
  private var ticked: UInt64 = 0

  init(
    own: UnsafeMutablePointer<cprocess_escalation>,
    control: UnsafeMutablePointer<observer_control>,
    stalls: UnsafeMutablePointer<observer_stall>,
    slots: UnsafeMutablePointer<observer_slot>,
    systemd: Systemd?,
    phases: PhaseSlots
  ) {
    self.own = own
    self.control = control
    self.stalls = StallTable(stalls)
    self.slots = SlotTable(slots)
    self.systemd = systemd
    self.phases = phases
    vetoed = .allocate(capacity: Int(OBSERVER_SLOTS_MAX))
    vetoed.initialize(repeating: 0, count: Int(OBSERVER_SLOTS_MAX))
  }

  deinit {
    // SAFETY: allocated by the initializer, without another owner.
    vetoed.deallocate()
  }

  @_noLocks mutating func run() {
    ticked = clinux_clock_ns()
    lastPing = ticked
    cprocess_escalation_start(own)
    while true {
      let seen = cprocess_escalation_word(own)
      let now = clinux_clock_ns()
      let nextChain = followShutdown(now)
      if cprocess_escalation_stopping(own) {
        // Sends messages posted just before the stop.
        if let systemd { _ = notify(systemd, now) }
        return
      }
      var next = nextChain
      if let systemd {
        next = min(next, notify(systemd, now))
        if systemd.watchdog > 0 { next = min(next, ping(systemd, now)) }
      }
      next = min(next, terminateIfDue(now))
      cprocess_escalation_wait(own, seen, next)
    }
  }

  /// Returns the time of the next check.
  @_noLocks mutating func followShutdown(_ now: UInt64) -> UInt64 {
    let since = cprocess_escalation_shutdown_ns(own)
    if since != 0, !isShuttingDown {
      isShuttingDown = true
      cprocess_escalation_note_shutdown(
        own,
        history.current(),
        clinux_clock_thread_cpu_ns(pid_t(truncatingIfNeeded: processID))
      )
      if let launch = phases.launch { launch.end() }
      if let shutdown = phases.shutdown {
        shutdown.begin(since: since, unwatched: now &- min(now, since))
        observer_control_tick_by(control, now)
      }
      cprocess_escalation_add_notices(own, CPROCESS_NOTICE_STOPPING.rawValue)
    }
    guard phases.noticesTermination, !isChained else { return .max }
    isChained = cprocess_sigterm_chain(own) != CPROCESS_SIGTERM_UNCHAINED
    return isChained ? .max : now &+ Self.chainInterval
  }

  /// Returns the time of the next check.
  @_noLocks mutating func notify(_ systemd: Systemd, _ now: UInt64) -> UInt64 {
    var next = UInt64.max
    let notices = cprocess_escalation_notices(own)
    if notices & CPROCESS_NOTICE_READY.rawValue != 0 {
      text.clear()
      text.append("READY=1")
      if send(systemd) { cprocess_escalation_remove_notices(own, CPROCESS_NOTICE_READY.rawValue) } else { next = 0 }
    }
    if notices & CPROCESS_NOTICE_STOPPING.rawValue != 0 {
      text.clear()
      text.append("STOPPING=1")
      if send(systemd) { cprocess_escalation_remove_notices(own, CPROCESS_NOTICE_STOPPING.rawValue) } else { next = 0 }
    }
    let status = cprocess_escalation_status(own)
    let bytes = cprocess_text_take(status)
    if bytes > 0 {
      text.clear()
      text.append(cprocess_text_bytes(status), bytes)
      let isSent = send(systemd)
      cprocess_text_taken(status, !isSent)
      if !isSent { next = 0 }
    }
    return next == 0 ? now &+ Self.resendInterval : next
  }

  /// Returns the time of the next check.
  @_noLocks mutating func ping(_ systemd: Systemd, _ now: UInt64) -> UInt64 {
    let isWatching = monitorTicks(now)
    let hasHang = findHang()
    guard isWatching, !hasHang else {
      if !isHung {
        isHung = true
        isReported = false
        cprocess_escalation_count_ping(own, false)
        notifyHang(systemd, isWatching: isWatching)
      }
      // The report must be complete before systemd terminates the service.
      let reportTime = lastPing &+ systemd.watchdog &- min(systemd.watchdog / 4, 2_000_000_000)
      if !isReported, now >= reportTime {
        isReported = true
        send(.lastReport)
      }
      return isReported ? now &+ Self.hangInterval : min(now &+ Self.hangInterval, reportTime)
    }
    if isHung {
      isHung = false
      nextPing = now
      text.clear()
      text.append("STATUS=")
      _ = send(systemd)
    }
    return pingIfDue(systemd, now)
  }

  @_noLocks private mutating func pingIfDue(_ systemd: Systemd, _ now: UInt64) -> UInt64 {
    guard now >= nextPing else { return nextPing }
    text.clear()
    text.append("WATCHDOG=1")
    guard send(systemd) else { return now &+ min(Self.resendInterval, systemd.watchdog / 8) }
    cprocess_escalation_count_ping(own, true)
    lastPing = now
    nextPing = now &+ systemd.watchdog / 2
    return nextPing
  }

  /// Follows the shutdown and notifies systemd during a wait for the worker or handlers. Changes ``view`` and ``text``.
  @_noLocks mutating func continueNotifying(_ now: UInt64) {
    _ = followShutdown(now)
    guard let systemd else { return }
    _ = notify(systemd, now)
    if systemd.watchdog > 0, !isHung, monitorTicks(now), !findHang() { _ = pingIfDue(systemd, now) }
  }

  @_noLocks private mutating func notifyHang(_ systemd: Systemd, isWatching: Bool) {
    text.clear()
    if isWatching {
      text.append("STATUS=\"")
      appendName()
      text.append("\" has been stuck for ")
      text.append(seconds: view.age_ns)
      text.append(" s")
    } else {
      text.append("STATUS=Culprit's monitor does not run")
    }
    _ = send(systemd)
  }

  @_noLocks private mutating func send(_ systemd: Systemd) -> Bool {
    let error = cprocess_datagram_send(systemd.target, text.start, text.count)
    cprocess_escalation_set_send_error(own, error)
    return error == 0
  }

  @_noLocks private mutating func monitorTicks(_ now: UInt64) -> Bool {
    let count = observer_control_wakeups(control)
    if count != ticks {
      ticks = count
      ticked = now
    }
    return clinux_clock_between_ns(ticked, now) < Self.monitorPatience
  }

  /// Stores the longest hang in ``view``.
  @_noLocks private mutating func findHang() -> Bool {
    let used = Int(observer_control_slots_used(control))
    let delay = observer_control_hang_delay_ns(control)
    var found: Int?
    var longest: UInt64 = 0
    var index = 0
    while index < used {
      if stalls[index].isStalled {
        view = stalls[index].read()
        let (hang, overflow) = view.threshold_ns.addingReportingOverflow(delay)
        if view.item != 0, !overflow, view.age_ns >= hang, view.age_ns > longest {
          longest = view.age_ns
          found = index
        }
      }
      index &+= 1
    }
    guard let found else { return false }
    view = stalls[found].read()
    return view.item != 0
  }

  @_noLocks mutating func appendName() {
    let start = text.count
    var index = 0
    while index < Int(view.name_bytes) {
      text.append(observer_stall_name_byte(&view, index))
      index &+= 1
    }
    text.makePrintable(from: start)
  }

  @_noLocks mutating func send(_ request: EscalationRequest) {
    lastRequest = (lastRequest | 3) &+ 1 | request.rawValue
    cprocess_escalation_send_request(own, lastRequest)
  }
}

/// The lower two bits of a request's number.
enum EscalationRequest: UInt32 {
  case lastReport = 1
  /// For a process that is about to be terminated.
  case lastWords = 2
}

func escalationCodeAnchor() -> CodeAnchor { { 4 } }
