import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord
import Glibc
import Synchronization

/// Watches the work of a service's threads and reports what makes it stall.
///
///     let watchdog = try Watchdog(threshold: .seconds(4))
///     watchdog.onStall { report in log.error("\(report)") }
///     let loop = try watchdog.watchLoop(named: "accept")
///
/// A watchdog runs from its creation until `stop()`. The watchdog and its watches hold each other: neither needs a
/// reference of the application's. A watchdog that watches nothing stops when its last reference is
/// released, and reports that on standard error. A second one in the same process joins the first: it takes the
/// configuration of the first, and the watch ends with the last of them. Every method may be called from any thread.
///
/// When the process exits, when it returns from `main` and when the watchdog is stopped or released, pending reports have two
/// seconds to be delivered and saved. A stall whose report takes longer gets one line on standard error.
///
/// With `CULPRIT_ENABLED=no` in the environment a watchdog starts nothing: every method can be called, and nothing is
/// watched.
public final class Watchdog: Sendable {
  /// The configuration that holds now: the code's, as the environment and the configuration file change it.
  ///
  /// In a child of the watched process (fork(2)), the configuration at the start.
  public var configuration: Configuration { clinux_process_is(process) ? live.current : live.initial }

  let live: LiveConfiguration
  /// `nil` when it is disabled.
  private let startedCore: Core?
  /// The same; `nil` in a child of the process, which must touch nothing of it: locks are held by threads that are not
  /// there.
  var core: Core? { clinux_process_is(process) ? startedCore : nil }
  /// Whose watchdog it is.
  private let process = clinux_process_stamp()
  private let processID = getpid()
  /// Its number among the starts in this process.
  let number: UInt64
  /// What was asked for at the start and is not done: why, in sentences.
  private let startProblems: [String]
  /// What is to be forgotten when this watchdog stops and others go on.
  private let registrations = Mutex<[Registration]>([])
  private let hasStopped = Atomic<Bool>(false)
  /// The watches that last until they are stopped.
  private let watches = Mutex<[ObjectIdentifier: any AnyObject & Sendable]>([:])

  /// Starts a watchdog, or joins the one that runs.
  ///
  /// The environment beats `configuration`, and the file that CULPRIT_CONFIGURATION names beats the environment. An
  /// invalid value there is reported on standard error and in ``status``, and left out. So are a directory that cannot
  /// be used, and settings in which a second watchdog differs from the first.
  ///
  /// - Throws: ``WatchdogError/Code/invalidConfiguration`` for an invalid `configuration`;
  ///   ``WatchdogError/Code/unsupported`` when threads, memory or libraries are missing;
  ///   ``WatchdogError/Code/timedOut`` when an earlier watchdog of this process does not stop within 10 s. Nothing is
  ///   watched then.
  public convenience init(_ configuration: Configuration) throws(WatchdogError) {
    try self.init(configuration, environment: .ofProcess)
  }

  /// Starts a watchdog with the default configuration, but for the given values.
  ///
  /// - Parameters:
  ///   - threshold: The age at which a work item is a stall; default: 4 s.
  ///   - directory: The directory that stalls are saved in; default (`nil`): nothing is saved.
  /// - Throws: As ``init(_:)``.
  public convenience init(threshold: Duration = .seconds(4), directory: String? = nil) throws(WatchdogError) {
    try self.init(Configuration(threshold: threshold, directory: directory))
  }

  /// The same in this environment.
  init(_ configuration: Configuration, environment: Environment) throws(WatchdogError) {
    try configuration.validate()
    let (isOff, problem) = environment.switchesOff
    var problems = problem.map { [$0] } ?? []
    LiveConfiguration.say(problems)
    guard !isOff else {
      live = LiveConfiguration(configuration, Environment([:]), content: nil)
      (startedCore, number, startProblems) = (nil, 0, problems)
      return
    }
    let joined = try Starts.join { () throws(WatchdogError) in
      var file = environment.file.map { ConfigurationFile(path: $0) }
      let content = file?.readIfChanged()
      return try Core.start(LiveConfiguration(configuration, environment, content: content), file, environment)
    }
    (startedCore, number, live) = (joined.core, joined.number, joined.core.live)
    if joined.isJoined {
      let disagreements = live.disagreements(with: configuration)
      LiveConfiguration.say(disagreements)
      problems += disagreements
    }
    startProblems = problems
    guard !joined.isJoined else { return }
    WatchedSection.prepare()
    joined.core.activities.watch { [weak core = joined.core] name, threshold, body in
      if let core { WatchedSection.run(name, threshold, core, body) } else { body() }
    }
  }

  deinit {
    if activeCore?.hasStopped == false { Self.reportRelease }
    stop()
  }

  /// Reports once that a watchdog was released that had not been stopped.
  private static let reportRelease: Void = printToStandardError(
    "culprit: a watchdog was released without stop() and watches nothing any more: keep a reference to it, "
      + "for example in a global variable\n",
    until: clinux_clock_ns() &+ 500_000_000
  )

  /// Whether it was not started, because the environment says so: nothing is to be watched.
  var isDisabled: Bool { startedCore == nil }

  /// Ends the watch. A stall that is under way is reported as far as it was seen.
  ///
  /// Returns when every report has been delivered, after 2 s at the latest, or 3 on a disk that does not answer. Each
  /// stall whose report takes longer gets one line on standard error. Called by a handler, it does not wait for that
  /// handler. The second call does nothing and does not wait. Where other watchdogs of this process go on, only this one's
  /// handlers are removed, and it no longer holds its watches.
  ///
  /// Loops and sections may go on marking their work, to no effect. In a child of the watched process (fork(2)) it does
  /// nothing.
  public func stop() { stop(patience: Self.patience) }

  /// How long an ending waits for pending reports.
  static let patience = Duration.seconds(2)

  /// Ends the watch as `stop()` does, and waits for no longer than `patience`.
  ///
  /// - Parameter patience: How long to wait at most. A handler that has not returned by then, or a thread that the
  ///   kernel or the allocator holds up, ends later by itself. Where there is a directory, its disk has a second in any
  ///   case: a run whose end is not known counts as one that was killed.
  /// - Returns: Whether everything has ended.
  @discardableResult
  public func stop(patience: Duration) -> Bool {
    guard let core, !core.hasStopped else { return true }
    guard !hasStopped.exchange(true, ordering: .acquiringAndReleasing) else { return true }
    // Released at the end: a watch that only the watchdog holds ends then.
    let watches = watches.withLock { watches in
      defer { watches = [:] }
      return watches
    }
    defer { withExtendedLifetime(watches) {} }
    let deadline = clinux_clock_ns() &+ min(max(patience, .zero), WatchLimits.longestTime).wholeNanoseconds
    let registrations = registrations.withLock { registrations in
      defer { registrations = [] }
      return registrations
    }
    // Where others go on, this one's handlers are told first what they are to be told.
    let (isLast, hasEnded) = Starts.leave(
      core,
      flush: { core.flush(until: deadline) },
      stop: { core.stop(until: deadline) }
    )
    guard !isLast else { return hasEnded }
    return registrations.map { $0.end(until: deadline) }.allSatisfy { $0 } && hasEnded
  }

  /// Whether ``stop()`` has been called.
  var isStopped: Bool { hasStopped.load(ordering: .acquiring) }

  /// What runs and is to be used; `nil` also after ``stop()``.
  var activeCore: Core? {
    guard let core, !isStopped else { return nil }
    return core
  }

  /// What runs, for watching something.
  ///
  /// - Throws: ``WatchdogError/Code/notInThisProcess`` in a child of the watched process, where nothing runs;
  ///   ``WatchdogError/Code/disabled``; ``WatchdogError/Code/stopped`` after ``stop()``.
  func running() throws(WatchdogError) -> Core {
    guard startedCore != nil else { throw .disabled }
    guard let core else { throw .notInThisProcess(watched: processID) }
    guard !isStopped else { throw .stopped }
    return core
  }

  /// Stops the age of every work item until ``resume()``: for a time in which stalls are expected, such as a restore.
  /// Pauses nest.
  public func pause() { if let core { observer_control_pause(core.control.pointer) } }

  /// Ends the latest pause. Without one it does nothing.
  public func resume() { if let core { observer_control_resume(core.control.pointer) } }

  /// Captures the stack of every thread of the process, one after the other: no thread is stopped while another one is
  /// captured.
  ///
  /// Waits for the captures, some milliseconds for each hundred threads; then looks up names on the calling thread, in
  /// the time that reading symbols takes. Handlers may call it. Never uses the network.
  ///
  /// - Parameter timeout: How long to wait at most; default: 10 s.
  /// - Returns: The threads with their stacks, without the watchdog's own.
  /// - Throws: ``WatchdogError/Code/stopped`` after `stop()`; ``WatchdogError/Code/timedOut`` when the capture takes
  ///   longer than `timeout`; ``WatchdogError/Code/disabled``; ``WatchdogError/Code/notInThisProcess``.
  public func captureThreads(timeout: Duration = .seconds(10)) throws(WatchdogError) -> ThreadsReport {
    let (all, stacks) = try captureStacks(timeout: timeout)
    return ReportSettings(configuration).report(of: all, stacks)
  }

  /// The same without names, which take far longer than the capture: for whoever captures over and over.
  package func captureStacks(timeout: Duration) throws(WatchdogError) -> (all: AllThreads, stacks: [Stack]) {
    let core = try running()
    let request = core.recorder.requestThreads(core.control)
    let deadline = clinux_clock_ns() &+ min(timeout, WatchLimits.longestTime).wholeNanoseconds
    let (isAnswered, threads) = request.wait(until: deadline)
    guard isAnswered else { throw .timedOut(after: timeout) }
    guard let threads else { throw .stopped }
    return threads
  }

  /// The state of the watchdog itself, and what it cannot observe in this process.
  public var status: Status {
    let isOurs = clinux_process_is(process)
    let told = startProblems + (isOurs ? live.problems : [])
    guard let core else { return Status(.disabled, problems: told) }
    guard !isStopped else { return Status(.stopped, problems: told + core.problems.all) }
    return Status(core, problems: told)
  }

  /// What has been counted so far: stalls, hangs and latencies of each source, and the watchdog's own cost.
  ///
  /// Takes some hundred microseconds, and reads files of procfs: call it where work may wait, not in what is watched.
  /// After ``stop()`` it has what was counted until then.
  public var metrics: Metrics {
    guard let core else { return Metrics(.disabled) }
    return Metrics(core, mode: isStopped ? .stopped : nil)
  }

  /// Holds `watch` until it is stopped, unless it is `scoped`. Returns it.
  func hold<Watch: AnyObject & Sendable>(_ watch: Watch, scoped: Bool) -> Watch {
    if !scoped, activeCore != nil { watches.withLock { $0[ObjectIdentifier(watch)] = watch } }
    return watch
  }

  /// Releases `watch`, which has been stopped. In a child of the watched process it does nothing.
  func letGo(of watch: AnyObject) {
    guard core != nil else { return }
    // Released outside of the lock, which the end of the watch takes.
    let held = watches.withLock { $0.removeValue(forKey: ObjectIdentifier(watch)) }
    withExtendedLifetime(held) {}
  }

  /// Remembers what is to be forgotten when this watchdog stops and others go on.
  func keep(_ registration: Registration) -> Registration {
    registrations.withLock { registrations in
      registrations.removeAll { $0.isRemoved }
      registrations.append(registration)
    }
    return registration
  }
}
