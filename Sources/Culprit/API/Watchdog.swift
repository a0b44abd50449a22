import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord
import Glibc
import Synchronization

/// Watches the work of a service's threads and reports the cause of stalls.
///
///     let watchdog = try Watchdog(threshold: .seconds(4))
///     watchdog.onStall { report in log.error("\(report)") }
///     let loop = try watchdog.watchLoop(named: "accept")
///
/// A watchdog runs until `stop()`. A watchdog and its watches retain each other, so the application does not have to
/// keep references. A watchdog without watches stops when its last reference is released. Further watchdogs join the
/// first and use its configuration. The watch ends when all watchdogs have stopped. All methods are thread-safe.
///
/// At process exit, and when the watchdog is stopped or released, Culprit takes up to two seconds to deliver and save
/// pending reports. A stall whose report is not ready by then gets one line on standard error.
///
/// With `CULPRIT_ENABLED=no` in the environment, a watchdog watches nothing. Every method can still be called.
public final class Watchdog: Sendable {
  /// The configuration in code, changed by the environment and the configuration file. In a child of the watched
  /// process (fork(2)), the configuration at the start.
  public var configuration: Configuration { clinux_process_is(process) ? live.current : live.initial }

  let live: LiveConfiguration
  /// `nil` when the watchdog is disabled.
  private let startedEngine: Engine?
  /// `nil` when the watchdog is disabled, and in a child of fork(2): threads that exist only in the parent might hold
  /// the engine's locks.
  var engine: Engine? { clinux_process_is(process) ? startedEngine : nil }
  private let process = clinux_process_stamp()
  private let processID = getpid()
  /// The serial number among the starts in this process.
  let number: UInt64
  private let startProblems: [String]
  /// Handler registrations, removed when this watchdog stops while others continue.
  private let registrations = Mutex<[Registration]>([])
  private let hasStopped = Atomic<Bool>(false)
  /// The watches that last until they are stopped.
  private let watches = Mutex<[ObjectIdentifier: any AnyObject & Sendable]>([:])

  /// Starts a watchdog, or joins the one that is running.
  ///
  /// The environment overrides `configuration`, and the file named by CULPRIT_CONFIGURATION overrides the environment.
  /// Invalid values in the environment or the file, an unusable directory, and settings that differ from a running
  /// watchdog's are ignored, and reported on standard error and in ``status``.
  ///
  /// - Throws: ``WatchdogError/Code/invalidConfiguration`` for an invalid `configuration`;
  ///   ``WatchdogError/Code/unsupported`` when threads, memory or libraries are missing;
  ///   ``WatchdogError/Code/timedOut`` when an earlier watchdog of this process does not stop within 10 s. After an
  ///   error, nothing is watched.
  public convenience init(_ configuration: Configuration) throws(WatchdogError) {
    try self.init(configuration, environment: .ofProcess)
  }

  init(_ configuration: Configuration, environment: Environment) throws(WatchdogError) {
    try configuration.validate()
    let (isOff, problem) = environment.switchesOff
    var problems = problem.map { [$0] } ?? []
    LiveConfiguration.say(problems)
    guard !isOff else {
      live = LiveConfiguration(configuration, Environment([:]), content: nil)
      (startedEngine, number, startProblems) = (nil, 0, problems)
      return
    }
    let joined = try EngineLifetime.join { () throws(WatchdogError) in
      var file = environment.file.map { ConfigurationFile(path: $0) }
      let content = file?.readIfChanged()
      return try Engine.start(LiveConfiguration(configuration, environment, content: content), file, environment)
    }
    (startedEngine, number, live) = (joined.engine, joined.number, joined.engine.live)
    if joined.isJoined {
      let disagreements = live.disagreements(with: configuration)
      LiveConfiguration.say(disagreements)
      problems += disagreements
    }
    startProblems = problems
    guard !joined.isJoined else { return }
    WatchedSection.prepare()
    joined.engine.activities.watch { [weak engine = joined.engine] name, threshold, body in
      if let engine { WatchedSection.run(name, threshold, engine, body) } else { body() }
    }
  }

  deinit {
    if activeEngine?.hasStopped == false { Self.reportRelease }
    stop()
  }

  /// Reports, once per process, the release of a watchdog without `stop()`.
  private static let reportRelease: Void = printToStandardError(
    "culprit: a watchdog was released without stop() and no longer watches: keep a reference to it, "
      + "for example in a global variable\n",
    until: clinux_clock_ns() &+ 500_000_000
  )

  /// Whether the environment disabled the watchdog at the start.
  var isDisabled: Bool { startedEngine == nil }

  /// Ends the watch. A stall in progress is reported with the samples taken so far.
  ///
  /// Returns when every report has been delivered, after at most 2 s, or 3 s if the disk does not answer. A call from a
  /// handler does not wait for that handler. If other watchdogs of this process continue, only this one's handlers and
  /// watches are removed.
  ///
  /// Marks have no effect afterwards. A second call, and a call in a child of fork(2), does nothing.
  public func stop() { stop(patience: Self.patience) }

  /// Time for pending reports at a stop.
  static let patience = Duration.seconds(2)

  /// Ends the watch like `stop()`, but waits at most `patience`.
  ///
  /// - Parameter patience: The longest time to wait. A blocked handler or thread can outlast the call. The disk has at
  ///   least one second to record the end of the run; without this record, the run counts as killed.
  /// - Returns: Whether everything has ended.
  @discardableResult
  public func stop(patience: Duration) -> Bool {
    guard let engine, !engine.hasStopped else { return true }
    guard !hasStopped.exchange(true, ordering: .acquiringAndReleasing) else { return true }
    // Released on return, which ends watches without other references.
    let watches = watches.exchange([:])
    defer { withExtendedLifetime(watches) {} }
    let deadline = clinux_clock_ns() &+ min(max(patience, .zero), WatchLimits.longestTime).wholeNanoseconds
    let registrations = registrations.exchange([])
    // If other watchdogs continue, this watchdog's handlers receive pending reports before their removal.
    let (isLast, hasEnded) = EngineLifetime.leave(
      engine,
      flush: { engine.flush(until: deadline) },
      stop: { engine.stop(until: deadline) }
    )
    guard !isLast else { return hasEnded }
    return registrations.map { $0.end(until: deadline) }.allSatisfy { $0 } && hasEnded
  }

  var isStopped: Bool { hasStopped.load(ordering: .acquiring) }

  /// `nil` without a running engine, and after ``stop()``.
  var activeEngine: Engine? {
    guard let engine, !isStopped else { return nil }
    return engine
  }

  /// Returns the running engine. Throws ``WatchdogError/Code/notInThisProcess``, ``WatchdogError/Code/disabled`` or
  /// ``WatchdogError/Code/stopped``.
  func running() throws(WatchdogError) -> Engine {
    guard startedEngine != nil else { throw .disabled }
    guard let engine else { throw .notInThisProcess(watched: processID) }
    guard !isStopped else { throw .stopped }
    return engine
  }

  /// Freezes the age of every work item until ``resume()``, for periods of expected stalls. Pauses nest.
  public func pause() { if let engine { observer_control_pause(engine.control.pointer) } }

  /// Ends the latest pause, if any.
  public func resume() { if let engine { observer_control_resume(engine.control.pointer) } }

  /// Captures the stack of every thread of the process, one after the other. A thread is interrupted only during its
  /// own capture.
  ///
  /// Waits for the captures, a few milliseconds per hundred threads, then symbolizes on the calling thread, which takes
  /// the time of reading symbols. Can be called from handlers. Never uses the network.
  ///
  /// - Parameter timeout: The longest time to wait.
  /// - Returns: The threads with their stacks, without the watchdog's own.
  /// - Throws: ``WatchdogError/Code/timedOut`` after `timeout`; ``WatchdogError/Code/stopped``;
  ///   ``WatchdogError/Code/disabled``; ``WatchdogError/Code/notInThisProcess``.
  public func captureThreads(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ThreadsReport {
    let (all, stacks) = try captureStacks(timeout: timeout)
    return ReportSettings(configuration).report(of: all, stacks)
  }

  /// Captures all stacks without the slow symbolizing.
  package func captureStacks(timeout: Duration) throws(WatchdogError) -> (all: AllThreads, stacks: [Stack]) {
    try running().captureStacks(timeout: timeout)
  }

  /// Returns all threads and the work under way, as `culprit dump` prints them: sections, jobs of Swift concurrency and
  /// activities, on their threads or grouped by the functions in which their tasks wait.
  ///
  ///     log.notice("\(try watchdog.dump())")
  ///
  /// Captures and symbolizes like `captureThreads(timeout:)`. Works while all threads of Swift concurrency are stuck,
  /// but not while a stuck thread holds the lock of the allocator.
  ///
  /// - Parameter timeout: The longest time to wait for the captures.
  /// - Returns: A value with text and JSON.
  /// - Throws: The errors of `captureThreads(timeout:)`.
  public func dump(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ProcessDump {
    try running().dump(timeout: timeout)
  }

  /// The state of the watchdog, and its limitations in this process.
  public var status: Status {
    let isOurs = clinux_process_is(process)
    let problems = startProblems + (isOurs ? live.problems : [])
    guard let engine else { return Status(.disabled, problems: problems) }
    guard !isStopped else { return Status(.stopped, problems: problems + engine.problems.all) }
    return Status(engine, problems: problems)
  }

  /// The counts so far: stalls, hangs and latencies of each source, and the watchdog's own cost; after `stop()`, the
  /// counts at the stop.
  ///
  /// Takes some hundred microseconds and reads files of procfs, so avoid it in watched work.
  public var metrics: Metrics {
    guard let engine else { return Metrics(.disabled) }
    return Metrics(engine, mode: isStopped ? .stopped : nil)
  }

  /// Retains `watch` until it is stopped, unless it is `scoped`.
  func hold<Watch: AnyObject & Sendable>(_ watch: Watch, scoped: Bool) -> Watch {
    if !scoped, activeEngine != nil { watches.withLock { $0[ObjectIdentifier(watch)] = watch } }
    return watch
  }

  /// Releases a stopped watch. Does nothing in a child of fork(2).
  func releaseWatch(of watch: AnyObject) {
    guard engine != nil else { return }
    // Released outside the lock, which the watch takes when it ends.
    let held = watches.withLock { $0.removeValue(forKey: ObjectIdentifier(watch)) }
    withExtendedLifetime(held) {}
  }

  func keep(_ registration: Registration) -> Registration {
    registrations.withLock { registrations in
      registrations.removeAll { $0.isRemoved }
      registrations.append(registration)
    }
    return registration
  }
}
