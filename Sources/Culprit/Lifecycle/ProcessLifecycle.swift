import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CulpritStallRecord
import CulpritSymbols
import Glibc

/// Owns the escalation thread and the blocking worker, which are started only if the configuration needs them.
final class ProcessLifecycle: Sendable {
  private struct Threads {
    var escalation: PosixThread?
    var worker: PosixThread?
    var isStopped = false
  }

  let block = EscalationBlock()
  private let control: ControlBlock
  private let recorder: Recorder
  private let reporter: Reporter
  private let systemd: SystemdNotifier?
  private let threads = Mutex(Threads())
  private let phases = Mutex<Phases?>(nil)
  private let noticesTermination = Mutex(false)
  private let handlers = Mutex<[TerminationHandlerThread]>([])
  private let lastReport = LastReport()
  private let handlerProblems = ProblemList()
  private let statusLock = Mutex(())

  init(control: ControlBlock, recorder: Recorder, reporter: Reporter, systemd: SystemdNotifier?) {
    self.control = control
    self.recorder = recorder
    self.reporter = reporter
    self.systemd = systemd
  }

  var problems: [String] {
    var problems = (systemd?.problems ?? []) + handlerProblems.all
    if noticesTermination.withLock({ $0 }), cprocess_sigterm_chain(block.pointer) == CPROCESS_SIGTERM_REPLACED {
      problems.append("SIGTERM is not noticed, because another handler has been installed for it; call shuttingDown()")
    }
    return problems
  }

  /// Returns a function that removes the handler.
  func add(_ handler: @escaping TerminationHandler) -> @Sendable () -> Void {
    do throws(WatchdogError) {
      let thread = try TerminationHandlerThread(block, lastReport, handler)
      handlers.withLock { $0.append(thread) }
      return { [weak self, weak thread] in
        thread?.remove()
        self?.handlers.withLock { $0.removeAll { $0 === thread } }
      }
    } catch {
      handlerProblems.note("a termination handler is not called: \(error.message)")
      return {}
    }
  }

  /// Starts the threads when they are first needed.
  func follow(_ configuration: Configuration) throws(WatchdogError) {
    let limit = configuration.isEnabled ? configuration.lifecycle.terminateAfter?.wholeNanoseconds : nil
    cprocess_escalation_set_terminate_after_ns(block.pointer, limit ?? 0)
    let hasPhases = phases.withLock { $0 } != nil
    if systemd?.isOpen == true || limit != nil || hasPhases || configuration.lifecycle.noticesTermination {
      try start()
    }
  }

  private func start() throws(WatchdogError) {
    try threads.withLock { threads throws(WatchdogError) in
      guard threads.escalation == nil, !threads.isStopped, let stalls = observer_stall_table(),
        let slots = observer_slot_table()
      else { return }
      if threads.worker == nil {
        let worker = BlockingWorker(
          escalation: block,
          recorder: recorder,
          reporter: reporter,
          lastReport: lastReport
        )
        threads.worker = try PosixThread(name: "culprit-worker") { worker.run() }
      }
      let found = self.phases.withLock { $0 }
      let table = Tables(
        stalls: stalls,
        slots: slots,
        phases: EscalationThread.PhaseSlots(
          launch: found?.launch?.slot,
          shutdown: found?.shutdown?.slot,
          noticesTermination: noticesTermination.withLock { $0 }
        )
      )
      threads.escalation = try PosixThread(name: "culprit-escalat") { [block, control, systemd] in
        var thread = EscalationThread(
          own: block.pointer,
          control: control.pointer,
          stalls: table.stalls,
          slots: table.slots,
          systemd: systemd.map { EscalationThread.Systemd(target: $0.target, watchdog: $0.watchdog) },
          phases: table.phases
        )
        let stack = clinux_keep_stack_resident(true)
        // From here on, the thread uses neither locks nor the Swift runtime.
        clinux_fork_leave()
        thread.run()
        clinux_fork_enter()
        clinux_let_go_resident(stack)
      }
      // Both threads must have allocated their memory: an immediate stall might hold the allocator's lock.
      while cprocess_escalation_started(block.pointer) < 2 { allowingFork { _ = usleep(100) } }
    }
  }

  /// Waits for the threads until `deadline`. Returns whether they have ended.
  @discardableResult
  func stop(until deadline: UInt64) -> Bool {
    let (escalation, worker) = threads.withLock { threads in
      threads.isStopped = true
      return (threads.escalation, threads.worker)
    }
    cprocess_escalation_stop(block.pointer)
    let hasEnded = [escalation, worker].compactMap { $0?.join(until: deadline) }.allSatisfy { $0 }
    // Waiting for handlers does not count as shutdown.
    phases.withLock { $0 }?.end()
    // Breaks the cycle of a handler that retains the watchdog.
    return handlers.exchange([]).map { $0.join(until: deadline) }.allSatisfy { $0 } && hasEnded
  }

  func launched() {
    phases.withLock { $0 }?.launched()
    cprocess_escalation_add_notices(block.pointer, CPROCESS_NOTICE_READY.rawValue)
  }

  func shuttingDown() { cprocess_escalation_begin_shutdown(block.pointer, clinux_clock_ns()) }

  /// Throws ``WatchdogError/tooManySources(limit:)``.
  func watchPhases(_ configuration: Configuration) throws(WatchdogError) {
    noticesTermination.withLock { $0 = configuration.lifecycle.noticesTermination }
    // The signal handler might run after the watchdog is gone.
    if configuration.lifecycle.noticesTermination { _ = Unmanaged.passRetained(block) }
    guard configuration.lifecycle.launchThreshold != nil || configuration.lifecycle.shutdownThreshold != nil else {
      return
    }
    let phases = try Phases(configuration, control, block)
    self.phases.withLock { $0 = phases }
  }

  func notes(_ source: WatchedSource) -> [StallNote] { phases.withLock { $0 }?.notes(source) ?? [] }

  func notifySystemd(status: String) {
    // A line break would begin another variable.
    let line = "STATUS=" + printable(status.map { $0.isNewline ? " " : String($0) }.joined())
    statusLock.withLock { _ in
      cprocess_text_put(cprocess_escalation_status(block.pointer), 0, line, line.utf8.count)
    }
    cprocess_escalation_wake(block.pointer)
  }

  /// `nil` without a connection.
  var systemdState: Watchdog.SystemdState? {
    guard systemd?.isOpen == true else { return nil }
    let error = cprocess_escalation_send_error(block.pointer)
    return Watchdog.SystemdState(
      pings: cprocess_escalation_pings(block.pointer, true),
      hangs: cprocess_escalation_pings(block.pointer, false),
      problem: error == 0 ? nil : String(cString: strerror(error))
    )
  }

  private struct Tables: @unchecked Sendable {
    // SAFETY: the tables are never freed, and their fields are atomic.
    let stalls: UnsafeMutablePointer<observer_stall>
    let slots: UnsafeMutablePointer<observer_slot>
    let phases: EscalationThread.PhaseSlots
  }
}
