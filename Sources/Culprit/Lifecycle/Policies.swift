import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

/// What is done about stalls that do not end, and whom it is told: the escalation thread and the blocking worker.
///
/// Neither thread is started before the configuration wants one of them.
final class Policies: Sendable {
  private struct Threads {
    var escalation: PosixThread?
    var worker: PosixThread?
    /// Reports a late shutdown when the process exits.
    var exit: PosixThread?
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
  /// Why handlers are never asked.
  private let handlerProblems = ProblemList()
  /// The slot of the shutdown while its report may be wanted; -1 otherwise.
  private let shutdownSlot = Atomic<Int>(-1)
  private let exitWake = WakeUp()
  private let isExiting = Atomic<Bool>(false)
  /// Whether the shutdown has been found to take too long since the exit's thread looked.
  private let isShutdownLate = Atomic<Bool>(false)
  private let exitIsReported = Promise<Bool>()
  /// Whether nothing needs to be said in place of the shutdown's report: there is one, or none is due.
  private let isShutdownNamed = Atomic<Bool>(false)
  /// How long after the report of a late shutdown has been prepared what has come meanwhile is, first and at most.
  private static let preparation: UInt64 = 500_000_000
  private static let preparationMax: UInt64 = 60_000_000_000
  /// What is said in its place.
  private static let noTime: StaticString =
    "culprit: the shutdown took too long, and two seconds at its end were too short to tell what took the time\n"
  /// Guards the writer's side of the status text.
  private let statusLock = Mutex(())

  init(control: ControlBlock, recorder: Recorder, reporter: Reporter, systemd: SystemdNotifier?) {
    self.control = control
    self.recorder = recorder
    self.reporter = reporter
    self.systemd = systemd
  }

  /// What is wrong with the environment, in sentences.
  var problems: [String] {
    var problems = (systemd?.problems ?? []) + handlerProblems.all
    if noticesTermination.withLock({ $0 }), cprocess_sigterm_chain(block.pointer) == CPROCESS_SIGTERM_REPLACED {
      problems.append("SIGTERM is not noticed, because another handler has been installed for it; call shuttingDown()")
    }
    return problems
  }

  /// Asks `handler` before the process is ended. Returns what takes it away again.
  func add(_ handler: @escaping TerminationHandler) -> @Sendable () -> Void {
    do throws(PosixThreadError) {
      let thread = try TerminationHandlerThread(block, lastReport, handler)
      handlers.withLock { $0.append(thread) }
      return { [weak self, weak thread] in
        thread?.remove()
        self?.handlers.withLock { $0.removeAll { $0 === thread } }
      }
    } catch {
      let reason = WatchdogError.threadNotStarted(error).message
      handlerProblems.note("a handler is not asked before the process is ended: \(reason)")
      return {}
    }
  }

  /// Does as `configuration` says from now on. Starts the threads when they are wanted for the first time.
  ///
  /// - Throws: ``PosixThreadError`` when they cannot be started.
  func follow(_ configuration: Configuration) throws(PosixThreadError) {
    let limit = configuration.isEnabled ? configuration.lifecycle.terminateAfter?.wholeNanoseconds : nil
    cprocess_escalation_set_terminate_after_ns(block.pointer, limit ?? 0)
    let hasPhases = phases.withLock { $0 } != nil
    if systemd?.isOpen == true || limit != nil || hasPhases || configuration.lifecycle.noticesTermination {
      try start()
    }
  }

  private func start() throws(PosixThreadError) {
    let error: PosixThreadError? = threads.withLock { threads in
      guard threads.escalation == nil, !threads.isStopped, let stalls = observer_stall_table(),
        let slots = observer_slot_table()
      else { return nil }
      do throws(PosixThreadError) {
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
          // From here on no lock is taken, nor the runtime used.
          clinux_fork_leave()
          thread.run()
          clinux_fork_enter()
          clinux_let_go_resident(stack)
        }
        // Work that stalls right away may hold the allocator's lock: by then they must have all that they need.
        while cprocess_escalation_started(block.pointer) < 2 { resting { _ = usleep(100) } }
        return nil
      } catch {
        return error
      }
    }
    if let error { throw error }
  }

  /// Ends the threads, and waits for that until `deadline`. Returns whether they have ended.
  @discardableResult
  func stop(until deadline: UInt64) -> Bool {
    let (escalation, worker, exit) = threads.withLock { threads in
      threads.isStopped = true
      return (threads.escalation, threads.worker, threads.exit)
    }
    shutdownSlot.store(-1, ordering: .releasing)
    exitWake.stop()
    cprocess_escalation_stop(block.pointer)
    let hasEnded = [escalation, worker].compactMap { $0?.join(until: deadline) }.allSatisfy { $0 }
    // Before waiting for anybody else, which is no part of the shutdown.
    phases.withLock { $0 }?.end()
    // It may be reading a file of symbols. Who is to report what is under way has half of the time at least; whether it
    // has ended is looked at last (``finish(until:)``).
    let now = clinux_clock_ns()
    exit?.join(until: now >= deadline ? deadline : now &+ (deadline - now) / 2)
    // A handler may refer to the watchdog that refers to it: it goes with its thread.
    let asking = handlers.withLock { handlers in
      defer { handlers = [] }
      return handlers
    }
    return asking.map { $0.join(until: deadline) }.allSatisfy { $0 } && hasEnded
  }

  /// Waits for what ``stop(until:)`` has left at work, until `deadline`. Returns whether it has ended.
  func finish(until deadline: UInt64) -> Bool { threads.withLock { $0.exit }?.join(until: deadline) ?? true }

  func launched() {
    phases.withLock { $0 }?.launched()
    cprocess_escalation_add_notices(block.pointer, CPROCESS_NOTICE_READY.rawValue)
  }

  func shuttingDown() { cprocess_escalation_begin_shutdown(block.pointer, clinux_clock_ns()) }

  /// Watches the phases that `configuration` has budgets for.
  ///
  /// - Throws: ``WatchdogError/tooManySources(limit:)``; ``WatchdogError/Code/unsupported`` when there is no thread that
  ///   reports a shutdown when the process exits.
  func watchPhases(_ configuration: Configuration) throws(WatchdogError) {
    noticesTermination.withLock { $0 = configuration.lifecycle.noticesTermination }
    // The handler may be running when the watchdog is gone.
    if configuration.lifecycle.noticesTermination { _ = Unmanaged.passRetained(block) }
    guard configuration.lifecycle.launchThreshold != nil || configuration.lifecycle.shutdownThreshold != nil else {
      return
    }
    let phases = try Phases(configuration, control, block)
    self.phases.withLock { $0 = phases }
    if let shutdown = phases.shutdown { try reportAtExit(shutdown) }
  }

  /// Has ``reportShutdown(_:)`` done when the process exits, by a thread that stands by.
  private func reportAtExit(_ shutdown: SlotRegistry.Lease) throws(WatchdogError) {
    do throws(PosixThreadError) {
      let thread = try PosixThread(name: "culprit-exit") { [self] in
        var files: SharedFiles?
        // Again and again, ever more rarely: what is seen later may need more.
        var (interval, next) = (Self.preparation, UInt64.max)
        while true {
          let seen = exitWake.seen
          if isExiting.load(ordering: .acquiring) {
            reportShutdown(shutdown, files)
            exitIsReported.fulfill(true)
            return
          }
          if exitWake.isStopping { return }
          if isShutdownLate.exchange(false, ordering: .acquiring) { (interval, next) = (Self.preparation, 0) }
          if next <= clinux_clock_ns() {
            files = prepareReport(of: shutdown, files)
            next = clinux_clock_ns() &+ interval
            interval = min(2 &* interval, Self.preparationMax)
          }
          exitWake.wait(after: seen, until: next)
        }
      }
      threads.withLock { $0.exit = thread }
    } catch {
      throw .threadNotStarted(error)
    }
    shutdownSlot.store(shutdown.index, ordering: .releasing)
    ExitReport.arm(self)
  }

  /// Has a shutdown reported that has taken too long, and waits for that, for two seconds at most; says then that it was.
  ///
  /// Neither allocates nor locks: exit(3) may have been called by a handler of a signal that came in the midst of
  /// either, also of this library's.
  fileprivate func processExits() {
    let slot = shutdownSlot.load(ordering: .acquiring)
    guard slot >= 0, let table = observer_stall_table(), observer_stall_is_stalled(table + slot) else { return }
    isExiting.store(true, ordering: .releasing)
    exitWake.notify()
    _ = exitIsReported.wait(until: clinux_clock_ns() &+ BlockingWorker.patience)
    guard !isShutdownNamed.load(ordering: .acquiring) else { return }
    let text = UnsafeRawPointer(Self.noTime.utf8Start).assumingMemoryBound(to: CChar.self)
    cprocess_abort_say(text, Self.noTime.utf8CodeUnitCount)
  }

  /// What is to be noted about a phase that takes too long.
  func notes(_ source: WatchedSource) -> [StallNote] { phases.withLock { $0 }?.notes(source) ?? [] }

  /// A stall has begun, or has become a hang. Where it is the shutdown's, its report is prepared.
  func noteStall(_ event: StallEvent) {
    guard event.source.kind == .phase, event.source.name == Phases.shutdownName, !event.isHang else { return }
    isShutdownLate.store(true, ordering: .releasing)
    exitWake.notify()
  }

  /// Reads what the report of `shutdown`, which takes too long, needs beside `files`, so that the exit need not wait for
  /// that.
  private func prepareReport(of shutdown: SlotRegistry.Lease, _ files: SharedFiles?) -> SharedFiles? {
    let request = recorder.requestSoFar()
    let stalls = request.stalls.wait(until: clinux_clock_ns() &+ BlockingWorker.patience) ?? []
    guard let stall = stalls.first(where: { $0.slot == shutdown.index }) else { return files }
    return reporter.prepareLast(stall.recording, files: files) { [self] in
      !isExiting.load(ordering: .relaxed) && !exitWake.isStopping
    }
  }

  /// Reports `shutdown`, which has taken too long, when the process ends without having stopped its watchdog. Of the
  /// modules' files `files` are open.
  private func reportShutdown(_ shutdown: SlotRegistry.Lease, _ files: SharedFiles?) {
    guard SlotRegistry.shared.owns(shutdown) else {
      isShutdownNamed.store(true, ordering: .releasing)
      return
    }
    var deadline = clinux_clock_ns() &+ BlockingWorker.patience
    // The process's end is that of its shutdown.
    let request = recorder.requestSoFar(ending: shutdown.index)
    let stalls = request.stalls.wait(until: deadline) ?? []
    if let stall = stalls.first(where: { $0.slot == shutdown.index }) {
      var isNamed = false
      deadline = reporter.reportLast(
        stall.recording,
        file: stall.file,
        files: files,
        told: { report in
          isNamed = report != nil
          isShutdownNamed.store(true, ordering: .releasing)
        },
        until: deadline
      )
      if isNamed { stall.file?.endNames() }
      stall.file?.close(keepsFile: true)
      stall.file?.settle(until: deadline)
    }
    _ = request.saved.wait(until: deadline)
  }

  func tellSystemd(status: String) {
    // Each line would be a variable of its own.
    let line = "STATUS=" + printable(status.map { $0.isNewline ? " " : String($0) }.joined())
    statusLock.withLock { _ in
      cprocess_text_put(cprocess_escalation_status(block.pointer), 0, line, line.utf8.count)
    }
    cprocess_escalation_wake(block.pointer)
  }

  /// What systemd has been told; `nil` when it is not told anything.
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

/// What is reported when the process ends by exit(3).
private enum ExitReport {
  private struct Armed {
    weak var policies: Policies?
    var isRegistered = false
  }

  /// Whose it is. Read before the lock is tried.
  private static let process = Atomic<UInt32>(0)

  private static let armed = Mutex(Armed())

  static func arm(_ policies: Policies) {
    let isFirst = armed.withLock { armed in
      defer { armed = Armed(policies: policies, isRegistered: true) }
      return !armed.isRegistered
    }
    Self.process.store(clinux_process_stamp(), ordering: .releasing)
    if isFirst {
      atexit {
        // Not in a child of the process, which runs this, too.
        guard clinux_process_is(ExitReport.process.load(ordering: .acquiring)) else { return }
        // Who holds the lock is about to start a watchdog.
        guard let policies = ExitReport.armed.withLockIfAvailable({ $0.policies }) ?? nil else { return }
        // Never let go: that might free it, and the allocator's lock may be held by this very thread.
        _ = Unmanaged.passRetained(policies)
        policies.processExits()
      }
    }
  }
}
