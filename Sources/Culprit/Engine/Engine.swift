import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

/// Threads and state common to all watchdogs of the process.
final class Engine: Sendable {
  let live: LiveConfiguration
  let control: ControlBlock
  let recorder: Recorder
  let reporter: Reporter
  let workers: Workers
  let sectionHandlers: SectionHandlers
  let lifecycle: ProcessLifecycle
  let prober: Prober
  let poolWatcher = PoolWatcher()
  let activities: Activities
  let contexts: ContextQueries
  let problems: ProblemList
  /// `nil` without a directory.
  let box: BlackBoxWriter?
  let previousRuns: PreviousRuns?
  let samplers: SamplerPool
  private let monitorThread: PosixThread
  private let recorderThread: PosixThread
  private let reporterThread: PosixThread
  private let fileWatcher: ConfigurationFileWatcher?
  let metricsFile: MetricsFile?
  let controlSocket = Mutex<ControlSocket?>(nil)
  let ending = Ending()
  private let isOver = Atomic<Bool>(false)
  let startTime: WallTime

  /// Throws ``WatchdogError/Code/unsupported`` if the engine cannot be started; nothing is running then.
  static func start(
    _ live: LiveConfiguration,
    _ file: ConfigurationFile?,
    _ environment: Environment
  ) throws(WatchdogError) -> Engine {
    let configuration = live.current
    let problems = ProblemList()
    let process = ObservedProcess(
      id: getpid(),
      executable: ProcessMap.executablePath(),
      architecture: String(cString: observer_machine_name()),
      observerVersion: Watchdog.version,
      watchedSince: WallTime(nanosecondsSince1970: clinux_clock_wall_ns()),
      ownModules: configuration.reporting.ownModules,
      wrappers: configuration.reporting.wrappers,
      host: HostName.ofThisProcess()
    )
    // An unusable directory must not stop the service.
    let box = configuration.storage.directory.flatMap { directory -> BlackBoxWriter? in
      let box = BlackBoxWriter(directory, configuration, process, problems)
      do throws(DirectoryError) { try box.open() } catch {
        LiveConfiguration.say([error.description])
        return nil
      }
      return box
    }
    do throws(WatchdogError) {
      let engine = try Engine(live, file, environment, process, box, problems)
      engine.startMetricsFile(executable: process.executable)
      engine.startControlSocket(environment.runtimeDirectory)
      engine.ending.start(engine)
      return engine
    } catch {
      box?.stop(until: 0)
      throw error
    }
  }

  private init(
    _ live: LiveConfiguration,
    _ file: ConfigurationFile?,
    _ environment: Environment,
    _ process: ObservedProcess,
    _ box: BlackBoxWriter?,
    _ problems: ProblemList
  ) throws(WatchdogError) {
    let configuration = live.current
    clinux_descriptor_start()
    // Read before the start of the threads that keep time or take stacks.
    _ = clinux_process_cpus()
    guard clinux_memory_start() != CLINUX_MEMORY_UNREADABLE else {
      throw .unsupported("process_vm_readv, /proc/self/mem and a pipe all fail to read this process's memory")
    }
    guard clinux_module_start(true) != CLINUX_MODULES_UNKNOWN else {
      throw .unsupported("the C library has no _dl_find_object (glibc 2.35 has), and /proc/self/maps cannot be read")
    }
    if let missing = observer_unwind_start() { throw .unsupported(String(cString: missing)) }
    observer_lock_know_threads()
    // This thread captures only itself. Each sampler maps its own buffers.
    let error = observer_capture_start(16 << 10)
    guard error == 0 else { throw .unsupported(Self.captureProblem(error)) }
    guard let slots = observer_slot_table(), let stalls = observer_stall_table(),
      let rings = Recorder.Rings(samplers: Int(OBSERVER_SAMPLERS_MAX)),
      let trackers = MonitorTable<WorkItemTracker>(count: Int(OBSERVER_SLOTS_MAX)),
      let samplers = SamplerPool(
        stackBytesMax: configuration.sampling.stackBytesMax,
        budget: configuration.sampling.cpuBudget,
        rings
      )
    else {
      throw .unsupported("out of memory")
    }
    let control = ControlBlock()
    let limits = ReportLimiter(
      perMinute: configuration.reporting.perMinute,
      perCulprit: configuration.reporting.perCulprit
    )
    let settings = ReportSettings(configuration)
    let reporterWake = WakeUp(static: cprocess_ending_wakeup())
    let workers = Workers(control, supervisor: reporterWake)
    let pending = PendingReports()
    let reporter = Reporter(
      settings,
      limits: limits,
      servers: configuration.reporting.fetchesDebugInformation
        ? Self.servers(configuration.reporting.fetchPatience, problems) : nil,
      problems: problems,
      pending: pending,
      workers: workers,
      wake: reporterWake
    )
    let activities = Activities(
      limit: configuration.activities.countMax,
      expirationThreshold: configuration.activities.expirationThreshold,
      reports: limits,
      control,
      workers
    )
    let contexts = ContextQueries(workers)
    let moduleReader = ModuleReader(reader: reporterWake)
    moduleReader.start()
    reporter.attend { workers.supervise() }
    reporter.attend { moduleReader.attend() }
    let phaseNotes = PhaseNotes()
    let recorder = Recorder(
      rings: rings,
      process: process,
      box: box,
      problems: problems,
      modules: { moduleReader.present() },
      keepsRecovered: configuration.storage.keepsRecoveredStalls,
      whileDebugged: configuration.sampling.whileDebugged,
      settings: settings,
      pending: pending,
      deliverEvent: { reporter.deliverEvent($0) },
      notes: { activities.notes() + contexts.notes() },
      phaseNotes: { [poolWatcher] source in
        let isLikely = source.kind == .job && poolWatcher.watchpointRefusal != nil
        return phaseNotes.notes(source) + (isLikely ? [StallNote(.likely)] : [])
      },
      name: { reporter.name($0, in: $1) },
      deliver: { reporter.report($0, file: $1, isOver: true) }
    )
    let sectionHandlers = SectionHandlers(control, workers, recorder, process, settings)
    let table = SlotTable(pointer: slots, stalls: stalls)
    let lifecycle = ProcessLifecycle(
      control: control,
      recorder: recorder,
      reporter: reporter,
      systemd: configuration.lifecycle.notifiesSystemd ? SystemdNotifier(environment) : nil
    )
    phaseNotes.set(lifecycle)
    LiveConfiguration.say(lifecycle.problems)
    do {
      let reporterThread = try PosixThread(name: "culprit-report") {
        _ = clinux_keep_root()
        reporter.run()
      }
      let recorderThread = try PosixThread(name: "culprit-record") {
        _ = clinux_keep_root()
        recorder.run()
      }
      box?.run.add(moduleReader.known)
      observer_last_stacks_start()
      try samplers.start(control, slots: table.pointer, stalls: table.stalls)
      PageLocking.keep(table.pointer, table.stalls)
      let monitorThread = try PosixThread(name: "culprit-monitor") {
        let stack = clinux_keep_stack_resident(true)
        defer { clinux_let_go_resident(stack) }
        var monitor = Monitor(
          control: control.pointer,
          slots: table.pointer,
          stalls: table.stalls,
          sampling: samplers.sampling,
          trackers: trackers.pointer,
          ring: rings.monitor
        )
        // From here on, the thread uses neither locks nor the Swift runtime.
        clinux_fork_leave()
        monitor.run()
        clinux_fork_enter()
        withExtendedLifetime((control, samplers, trackers, rings)) {}
      }
      // The monitor must have allocated its memory: an immediate stall might hold the allocator's lock.
      while observer_control_wakeups(control.pointer) == 0 { allowingFork { _ = usleep(100) } }
      SlotRegistry.shared.activate(control, configuration)
      do throws(WatchdogError) { try lifecycle.watchPhases(configuration) } catch {
        LiveConfiguration.say([error.description])
      }
      try lifecycle.follow(configuration)
      live.follow { configuration in
        SlotRegistry.shared.follow(configuration, for: control)
        do throws(WatchdogError) { try lifecycle.follow(configuration) } catch { return [error.message] }
        return []
      }
      let previousRuns = box.map { PreviousRuns(directory: $0.directory, own: $0.run.name, settings, workers) }
      previousRuns?.addNames()
      (self.live, self.control, self.recorder, self.reporter, self.lifecycle) = (
        live, control, recorder, reporter, lifecycle
      )
      (self.activities, self.contexts, self.problems, self.box) = (activities, contexts, problems, box)
      (self.previousRuns, self.samplers) = (previousRuns, samplers)
      (self.workers, self.sectionHandlers) = (workers, sectionHandlers)
      (self.monitorThread, self.recorderThread, self.reporterThread) = (monitorThread, recorderThread, reporterThread)
      prober = Prober()
      startTime = process.watchedSince
      metricsFile = configuration.metrics.file.map {
        MetricsFile(path: $0, interval: configuration.metrics.interval, problems)
      }
      fileWatcher = try file.map { file throws(WatchdogError) in try Self.watch(file, live) }
    } catch {
      lifecycle.stop(until: 0)
      samplers.stop(until: 0)
      observer_control_stop(control.pointer)
      workers.stop()
      recorder.stop()
      reporter.stop()
      throw error
    }
  }

  private static func servers(_ patience: Duration, _ problems: ProblemList) -> DebugInfoServers? {
    DebugInfoServers(patience: .total(patience)) { fetch in
      do throws(WatchdogError) {
        // Detached: the client library of debuginfod might block the thread.
        try PosixThread(name: "culprit-fetch", fetch).detach()
        return true
      } catch {
        return false
      }
    } say: { message in
      guard case .gaveUp = message else { return }
      problems.note("no response from DEBUGINFOD_URLS in time: reports lack debug information from there")
    }
  }

  private func startMetricsFile(executable: String) {
    let given = live.initial.metrics.labels
    let name = executable.split(separator: "/").last.map(String.init) ?? executable
    let labels = given.isEmpty ? ["service": printable(name)] : given
    do throws(WatchdogError) {
      try metricsFile?.start { [weak self] isLast in
        self.map { Watchdog.Metrics($0, mode: isLast ? .stopped : nil).prometheusText(labels: labels) }
      }
    } catch {
      problems.note("metrics are not written: \(error.message)")
    }
  }

  private static func watch(
    _ file: ConfigurationFile,
    _ live: LiveConfiguration
  ) throws(WatchdogError) -> ConfigurationFileWatcher {
    let watcher = ConfigurationFileWatcher()
    let thread = try PosixThread(name: "culprit-config") { watcher.run(file) { live.fileChanged($0) } }
    // Detached: the file system might block the thread.
    thread.detach()
    return watcher
  }

  /// Waits until `deadline` for the reports of all present stalls. Returns whether they were delivered.
  func flush(until deadline: UInt64) -> Bool {
    control.waitForTick(until: deadline) && recorder.requestSoFar().stalls.wait(until: deadline) != nil
      && reporter.flush(until: deadline)
  }

  /// Whether the watch has ended. Blocked threads might still run.
  var hasStopped: Bool { isOver.load(ordering: .acquiring) }

  /// Ends the watch. Waits until `deadline` for reports and until `savingDeadline` for the directory. Returns whether
  /// everything has ended. A stall with a late report gets one line on standard error.
  @discardableResult
  func stop(until deadline: UInt64, saving savingDeadline: UInt64? = nil) -> Bool {
    let began = clinux_clock_ns()
    // A blocked handler or disk must leave most of the time to the reports.
    let early = began &+ (max(began, deadline) &- began) / 4
    live.unfollow(until: early)
    fileWatcher?.stop()
    _ = controlSocket.withLock { $0 }?.stop(until: early)
    _ = prober.stop(until: early)
    _ = poolWatcher.stop(until: early)
    var hasEnded = lifecycle.stop(until: early)
    hasEnded = activities.stop(until: early) && hasEnded
    observer_control_stop(control.pointer)
    hasEnded = monitorThread.join(until: deadline) && hasEnded
    _ = samplers.stop(until: early)
    recorder.stop()
    hasEnded = recorderThread.join(until: deadline) && hasEnded
    SlotRegistry.shared.deactivate()
    reporter.stop()
    hasEnded = reporterThread.join(until: deadline) && hasEnded
    hasEnded = reporter.finish(until: deadline) && hasEnded
    contexts.stop()
    hasEnded = previousRuns?.finish(until: deadline) ?? true && hasEnded
    workers.stop()
    hasEnded = box?.stop(until: savingDeadline ?? deadline) ?? true && hasEnded
    // Stopped last, so the file contains all counts.
    hasEnded = metricsFile?.stop(until: deadline) ?? true && hasEnded
    let now = clinux_clock_ns()
    // At an exit, the exit handler prints the lines. Reports that this stop has not waited for might still arrive.
    if cprocess_ending_began_ns() == 0, hasEnded || now &- began >= cprocess_ending_reports_ns {
      cprocess_pending_print(now &+ 100_000_000)
    }
    isOver.store(true, ordering: .releasing)
    cprocess_ending_done()
    hasEnded = prober.stop(until: deadline) && hasEnded
    hasEnded = poolWatcher.stop(until: deadline) && hasEnded
    return samplers.stop(until: deadline) && hasEnded
  }

  private struct SlotTable: @unchecked Sendable {
    // SAFETY: the tables are never freed, and their fields are atomic.
    let pointer: UnsafeMutablePointer<observer_slot>
    let stalls: UnsafeMutablePointer<observer_stall>
  }

  private static func captureProblem(_ error: Int32) -> String {
    switch error {
    case ENOTSUP: "this processor architecture is not supported"
    case ETIMEDOUT: "a thread did not run the handler of SIGPROF"
    case EPERM: "the kernel refuses to signal threads of this process"
    case ENOBUFS:
      "the calling thread's alternate stack is too small for a signal (sigaltstack(2)); start the watchdog on another thread"
    default: String(cString: strerror(error))
    }
  }
}
