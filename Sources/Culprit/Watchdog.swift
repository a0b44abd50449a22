import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

/// The version of Culprit.
public let culpritVersion = "0.1.0"

/// Watches the work of a service's threads and reports what makes it stall.
///
///     let watchdog = try Watchdog(Configuration(stallThreshold: .seconds(4)))
///     watchdog.onStall { report in log.error("\(report)") }
///     let loop = try watchdog.watchLoop(named: "accept")
///
/// A watchdog runs from its creation until ``stop()``, or until the last reference to it is gone. There can be one at a
/// time in a process. Every method may be called from any thread.
///
/// Where the environment variable CULPRIT_DISABLE is set, it does nothing: everything can be watched and nothing is.
public final class Watchdog: Sendable {
  /// How it watches now: what the code says, with what the environment and the configuration file change in it.
  ///
  /// In a child of the watched process (fork(2)), how it watched when it was started.
  public var configuration: Configuration { clinux_process_is(process) ? live.current : live.initial }

  let live: LiveConfiguration

  private struct Parts: Sendable {
    /// The process that the threads are in. A child of it after fork(2) has this value, but not the threads.
    let processID: pid_t
    let control: ControlBlock
    let recorder: Recorder
    let reporter: Reporter
    let policies: Policies
    let pinger: Pinger
    let activities: Activities
    let contexts: ContextQueries
    let problems: ProblemList
    /// Where there is a directory.
    let box: BlackBoxWriter?
    let previousRuns: PreviousRuns?
    let samplers: SamplerPool
    let remoteModules: RemoteModules
    let monitorThread: PosixThread
    let recorderThread: PosixThread
    let reporterThread: PosixThread
    /// Where there is a configuration file.
    let fileWatcher: ConfigurationFileWatcher?
  }

  /// The process in which a watchdog is running: this one, or one that this one was forked from.
  private static let owner = Mutex<pid_t?>(nil)

  /// `nil` when it is disabled.
  private let startedParts: Parts?
  /// The same; `nil` in a child of the process, which must touch nothing of it: locks are held by threads that are not
  /// there.
  private var parts: Parts? { clinux_process_is(process) ? startedParts : nil }
  /// Whose watchdog it is.
  private let process = clinux_process_stamp()
  /// Why the environment could not be followed in saying whether to start.
  private let disableProblem: String?
  private let hasStopped = Mutex(false)

  /// Starts a watchdog.
  ///
  /// The environment beats `configuration`, and the file that CULPRIT_CONFIGURATION names beats the environment. What
  /// makes no sense there is told of on standard error and in ``status``, and left out.
  ///
  /// - Throws: ``WatchdogError`` when `configuration` makes no sense, stacks cannot be captured here, the directory
  ///   cannot be used, or a watchdog is running already. Nothing is watched then.
  public convenience init(_ configuration: Configuration = Configuration()) throws(WatchdogError) {
    try self.init(configuration, environment: .ofProcess)
  }

  /// The same in this environment.
  init(_ configuration: Configuration, environment: Environment) throws(WatchdogError) {
    try configuration.validate()
    let (isDisabled, disableProblem) = environment.disables
    self.disableProblem = disableProblem
    if let disableProblem { LiveConfiguration.say([disableProblem]) }
    guard !isDisabled else {
      live = LiveConfiguration(configuration, Environment([:]), content: nil)
      startedParts = nil
      return
    }
    var file = environment.file.map { ConfigurationFile(path: $0) }
    let content = file?.readIfChanged()
    live = LiveConfiguration(configuration, environment, content: content)
    let (claimed, isChild) = Self.owner.withLock { owner in
      let former = owner
      guard former != getpid() else { return (false, false) }
      owner = getpid()
      return (true, former != nil)
    }
    guard claimed else { throw .alreadyRunning }
    // What the parent watched is nothing that this process does.
    if isChild {
      SlotRegistry.shared.startOver()
      PosixThread.startOver()
    }
    do {
      startedParts = try Self.start(live, file, environment)
    } catch {
      Self.owner.withLock { $0 = nil }
      throw error
    }
    SectionTimer.prepare(for: self)
    startedParts?.activities.watch { [weak self] name, budget, body in
      if let self { self.section(name, budget: budget, body) } else { body() }
    }
  }

  deinit { stop() }

  private static func start(
    _ live: LiveConfiguration,
    _ file: ConfigurationFile?,
    _ environment: Environment
  ) throws(WatchdogError) -> Parts {
    let configuration = live.current
    let problems = ProblemList()
    let process = ObservedProcess(
      id: getpid(),
      executable: ProcessMap.executablePath(),
      architecture: String(cString: observer_machine_name()),
      observerVersion: culpritVersion,
      watchedSince: WallTime(nanosecondsSince1970: clinux_clock_wall_ns()),
      ownModules: configuration.ownModules,
      wrappers: configuration.wrappers
    )
    let box = configuration.directory.map { BlackBoxWriter($0, configuration, process, problems) }
    try box?.open()
    do {
      return try start(live, file, environment, process, box, problems)
    } catch {
      box?.stop()
      throw error
    }
  }

  private static func start(
    _ live: LiveConfiguration,
    _ file: ConfigurationFile?,
    _ environment: Environment,
    _ process: ObservedProcess,
    _ box: BlackBoxWriter?,
    _ problems: ProblemList
  ) throws(WatchdogError) -> Parts {
    let configuration = live.current
    clinux_descriptor_start()
    guard clinux_memory_start() != CLINUX_MEMORY_UNREADABLE else {
      throw .cannotObserve("neither process_vm_readv, /proc/self/mem nor a pipe lets this process read its memory")
    }
    guard clinux_module_start(true) != CLINUX_MODULES_UNKNOWN else {
      throw .cannotObserve("the C library has no _dl_find_object (glibc 2.35 has), and /proc/self/maps cannot be read")
    }
    if let missing = observer_unwind_start() { throw .cannotObserve(String(cString: missing)) }
    let error = observer_capture_start(configuration.stackBytesMax)
    guard error == 0 else { throw .cannotObserve(captureProblem(error)) }
    guard let slots = observer_slot_table(), let stalls = observer_stall_table(),
      let rings = Recorder.Rings(samplers: Int(OBSERVER_SAMPLERS_MAX)),
      let trackers = MonitorTable<WorkItemTracker>(count: Int(OBSERVER_SLOTS_MAX)),
      let samplers = SamplerPool(stackBytesMax: configuration.stackBytesMax, rings)
    else {
      throw .cannotObserve("there is no memory for the tables")
    }
    let control = ControlBlock()
    let limits = ReportLimiter(
      perMinute: configuration.reportsPerMinute,
      perCulprit: configuration.reportsPerCulprit
    )
    let settings = ReportSettings(configuration)
    let reporter = Reporter(
      settings,
      limits: limits,
      servers: configuration.fetchesDebugInformation ? servers(configuration.debugInformationPatience, problems) : nil
    )
    let activities = Activities(limit: configuration.activitiesMax, expirationBudget: configuration.expirationBudget)
    let contexts = ContextQueries()
    let remoteModules = RemoteModules()
    let phaseNotes = PhaseNotes()
    let recorder = Recorder(
      rings: rings,
      process: process,
      box: box,
      problems: problems,
      modules: { remoteModules.present() },
      keepsRecovered: configuration.keepsRecoveredStalls,
      whileDebugged: configuration.whileDebugged,
      settings: settings,
      announce: { reporter.announce($0) },
      notes: { activities.notes() + contexts.notes() },
      phaseNotes: { phaseNotes.notes($0) },
      name: { reporter.name($0, in: $1) },
      deliver: { reporter.report($0, file: $1, isOver: true) }
    )
    let table = SlotTable(pointer: slots, stalls: stalls)
    let policies = Policies(
      control: control,
      recorder: recorder,
      reporter: reporter,
      systemd: configuration.notifiesSystemd ? SystemdNotifier(environment) : nil
    )
    phaseNotes.set(policies)
    LiveConfiguration.say(policies.problems)
    do {
      let reporterThread = try PosixThread(name: "culprit-report") { reporter.run() }
      let recorderThread = try PosixThread(name: "culprit-record") {
        clinux_keep_stack_resident()
        recorder.run()
      }
      try remoteModules.start()
      try samplers.start(control, slots: table.pointer, stalls: table.stalls)
      Residency.keep(table.pointer, table.stalls)
      let monitorThread = try PosixThread(name: "culprit-monitor") {
        clinux_keep_stack_resident()
        var monitor = Monitor(
          control: control.pointer,
          slots: table.pointer,
          stalls: table.stalls,
          sampling: samplers.sampling,
          trackers: trackers.pointer,
          ring: rings.monitor
        )
        monitor.run()
        // The memory that it has worked on.
        withExtendedLifetime((control, samplers, trackers, rings)) {}
      }
      // Work that stalls right away may hold the allocator's lock: by then the monitor must have all that it needs.
      while observer_control_wakeups(control.pointer) == 0 { usleep(100) }
      SlotRegistry.shared.activate(control)
      do throws(WatchdogError) { try policies.watchPhases(configuration) } catch {
        LiveConfiguration.say([error.description])
      }
      try policies.follow(configuration)
      live.follow { configuration in
        SlotRegistry.shared.follow(configuration, for: control)
        do throws(PosixThreadError) { try policies.follow(configuration) } catch {
          LiveConfiguration.say(["a thread cannot be started: \(String(cString: strerror(error.number)))"])
        }
      }
      let previousRuns = box.map { PreviousRuns(directory: $0.directory, own: $0.run.name, settings) }
      previousRuns?.addNames()
      return Parts(
        processID: getpid(),
        control: control,
        recorder: recorder,
        reporter: reporter,
        policies: policies,
        pinger: Pinger(),
        activities: activities,
        contexts: contexts,
        problems: problems,
        box: box,
        previousRuns: previousRuns,
        samplers: samplers,
        remoteModules: remoteModules,
        monitorThread: monitorThread,
        recorderThread: recorderThread,
        reporterThread: reporterThread,
        fileWatcher: try file.map { file throws(PosixThreadError) in try watch(file, live) }
      )
    } catch {
      // Those that were started end by themselves.
      policies.stop(until: 0)
      samplers.stop(until: 0)
      remoteModules.stop()
      observer_control_stop(control.pointer)
      recorder.stop()
      reporter.stop()
      throw .threadNotStarted(error.number)
    }
  }

  /// The servers that debug information is fetched from, each file by a thread of its own; `nil` when there are none.
  private static func servers(_ patience: Duration, _ problems: ProblemList) -> DebugInfoServers? {
    DebugInfoServers(patience: .total(patience)) { fetch in
      do throws(PosixThreadError) {
        // Nobody waits for it: the client library may be what hangs.
        try PosixThread(name: "culprit-fetch", fetch).detach()
        return true
      } catch {
        return false
      }
    } say: { message in
      guard case .gaveUp = message else { return }
      problems.note("the servers in DEBUGINFOD_URLS did not answer in time: reports lack what they may have")
    }
  }

  /// Starts the thread that looks at the configuration file.
  private static func watch(
    _ file: ConfigurationFile,
    _ live: LiveConfiguration
  ) throws(PosixThreadError) -> ConfigurationFileWatcher {
    let watcher = ConfigurationFileWatcher()
    let thread = try PosixThread(name: "culprit-config") { watcher.run(file) { live.fileChanged($0) } }
    // Nobody waits for it: the file system may be what hangs.
    thread.detach()
    return watcher
  }

  /// Whether it was not started, because the environment says so: nothing is to be watched.
  var isDisabled: Bool { startedParts == nil }

  /// Ends the watch. A stall that is under way is reported as far as it was seen. Returns when every report has been
  /// delivered, after 10 s at the latest, and at once when it is called by a handler. Does nothing the second time, not
  /// even wait.
  ///
  /// Loops and sections may go on marking their work; nobody looks. In a child of the watched process (fork(2)) there
  /// is nothing to stop.
  public func stop() { stop(patience: .seconds(10)) }

  /// Ends the watch as ``stop()`` does, with a limit of its own.
  ///
  /// - Parameter patience: How long to wait at most. What has not ended by then (a handler that does not return, a
  ///   thread that the kernel or the allocator holds up) ends by itself, whenever that is.
  /// - Returns: Whether everything has ended.
  @discardableResult
  public func stop(patience: Duration) -> Bool {
    guard let parts else { return true }
    let isFirst = hasStopped.withLock { hasStopped in
      defer { hasStopped = true }
      return !hasStopped
    }
    guard isFirst else { return true }
    let deadline = clinux_clock_ns() &+ min(max(patience, .zero), WatchLimits.longestTime).wholeNanoseconds
    var hasEnded = true
    live.unfollow()
    parts.fileWatcher?.stop()
    hasEnded = parts.pinger.stop(until: deadline) && hasEnded
    hasEnded = parts.policies.stop(until: deadline) && hasEnded
    hasEnded = parts.activities.stop(until: deadline) && hasEnded
    observer_control_stop(parts.control.pointer)
    hasEnded = parts.monitorThread.join(until: deadline) && hasEnded
    hasEnded = parts.samplers.stop(until: deadline) && hasEnded
    parts.recorder.stop()
    hasEnded = parts.recorderThread.join(until: deadline) && hasEnded
    parts.remoteModules.stop()
    SlotRegistry.shared.deactivate()
    parts.reporter.stop()
    hasEnded = parts.reporterThread.join(until: deadline) && hasEnded
    hasEnded = parts.reporter.finish(until: deadline) && hasEnded
    parts.contexts.stop()
    hasEnded = parts.previousRuns?.finish(until: deadline) ?? true && hasEnded
    parts.box?.stop()
    Self.owner.withLock { $0 = nil }
    return hasEnded
  }

  /// The monitor of this watchdog, for leasing slots.
  ///
  /// - Throws: ``WatchdogError/notInThisProcess(watched:)`` in a child of the watched process, where there is no
  ///   monitor; ``WatchdogError/disabled``.
  func control() throws(WatchdogError) -> ControlBlock {
    guard let startedParts else { throw .disabled }
    guard let parts else { throw .notInThisProcess(watched: startedParts.processID) }
    return parts.control
  }

  /// What sends pings for this watchdog, what is going on, and what the application adds to reports; `nil` when it is
  /// disabled.
  var pinger: Pinger? { parts?.pinger }
  var activities: Activities? { parts?.activities }
  var contexts: ContextQueries? { parts?.contexts }

  /// What tells of earlier runs; `nil` without a directory.
  var previousRuns: PreviousRuns? { parts?.previousRuns }

  /// Lets no work item grow older until ``resume()``: for a time in which stalls are expected, such as a restore.
  /// Pauses may be nested.
  public func pause() { if let parts { observer_control_pause(parts.control.pointer) } }

  /// Ends the last pause. Does nothing when there is none.
  public func resume() { if let parts { observer_control_resume(parts.control.pointer) } }

  /// What is done about stalls that do not end.
  var policies: Policies? { parts?.policies }

  /// Captures the stack of every thread of the process, one after the other: none is stopped while another is looked
  /// at.
  ///
  /// Waits until that is done, some milliseconds for each hundred threads; then names what was found, on the calling
  /// thread, in the time that reading symbols takes. May be called by a handler. Never uses the network.
  ///
  /// - Parameter timeout: How long to wait at most; 10 s unless told otherwise.
  /// - Returns: The threads with their stacks, but for those of the watchdog itself.
  /// - Throws: ``WatchdogError/stopped`` when the watchdog has been stopped,
  ///   ``WatchdogError/noAnswer(within:)`` when the capture took longer than `timeout`; ``WatchdogError/disabled``.
  public func captureThreads(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ThreadsReport {
    let (all, stacks) = try captureStacks(timeout: timeout)
    return ThreadsReport(all, stacks: stacks, ReportSettings(configuration))
  }

  /// The same without names, which take far longer than the capture: for whoever captures over and over.
  package func captureStacks(timeout: Duration) throws(WatchdogError) -> (all: AllThreads, stacks: [Stack]) {
    let control = try control()
    guard !hasStopped.withLock({ $0 }) else { throw .stopped }
    guard let request = parts?.recorder.requestThreads(control) else { throw .disabled }
    let deadline = clinux_clock_ns() &+ min(timeout, WatchLimits.longestTime).wholeNanoseconds
    let (isAnswered, threads) = request.wait(until: deadline)
    guard isAnswered else { throw .noAnswer(within: timeout) }
    guard let threads else { throw .stopped }
    return threads
  }

  /// Calls `handler` with a report after every stall.
  ///
  /// Each handler is called on a thread of its own, with one report at a time: one that blocks holds up nobody else.
  /// Reports that come while 64 wait for it are dropped, and ``Status/reportsDropped`` counts them. While there is no
  /// handler, reports go to standard error.
  public func onStall(_ handler: @escaping @Sendable (StallReport) -> Void) { parts?.reporter.ended.add(handler) }

  /// Calls `handler` when a stall begins: when a work item has passed its threshold and goes on. On a thread of its
  /// own, as for ``onStall(_:)``.
  public func onStallBegan(_ handler: @escaping @Sendable (StallEvent) -> Void) { parts?.reporter.begun.add(handler) }

  /// Calls `handler` when a stall becomes a hang (``Configuration/hangThreshold``). On a thread of its own, as for
  /// ``onStall(_:)``.
  public func onHang(_ handler: @escaping @Sendable (StallEvent) -> Void) { parts?.reporter.hung.add(handler) }

  /// How the watchdog itself is doing, and what it cannot do here.
  public var status: Status {
    let isOurs = clinux_process_is(process)
    let told = (disableProblem.map { [$0] } ?? []) + (isOurs ? live.problems : [])
    guard let parts else {
      return Status(
        mode: .disabled,
        wakeups: 0,
        hanging: [],
        captures: 0,
        lateAnswers: 0,
        reportsDropped: 0,
        systemd: nil,
        problems: told,
        limitations: []
      )
    }
    return Status(
      mode: live.current.isEnabled ? .watching : .switchedOff,
      wakeups: observer_control_wakeups(parts.control.pointer),
      hanging: Hang.found(parts.control),
      captures: observer_capture_answered(),
      lateAnswers: observer_capture_late(),
      reportsDropped: parts.reporter.dropped,
      systemd: parts.policies.systemdState,
      problems: parts.problems.all + (parts.box?.presentProblem.map { [$0] } ?? []) + told + parts.policies.problems,
      limitations: Limitation.found(parts.samplers)
    )
  }

  /// Carries the slot table into the monitor's thread.
  private struct SlotTable: @unchecked Sendable {
    // SAFETY: the table is never freed, and its fields are atomic.
    let pointer: UnsafeMutablePointer<observer_slot>
    let stalls: UnsafeMutablePointer<observer_stall>
  }

  private static func captureProblem(_ error: Int32) -> String {
    switch error {
    case ENOTSUP: "this processor architecture is not supported"
    case ETIMEDOUT: "a thread that was sent SIGPROF did not run the handler"
    case EPERM: "the kernel refuses to signal threads of this process"
    default: String(cString: strerror(error))
    }
  }
}
