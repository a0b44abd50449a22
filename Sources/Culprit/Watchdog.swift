import CObserver
import Glibc
import StallRecord
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
public final class Watchdog: Sendable {
  /// How it watches.
  public let configuration: Configuration

  private struct Parts: Sendable {
    let control: ControlBlock
    let recorder: Recorder
    let reporter: Reporter
    let monitorThread: PosixThread
    let recorderThread: PosixThread
    let reporterThread: PosixThread
  }

  /// Whether a watchdog is running in this process.
  private static let isRunning = Mutex(false)

  private let parts: Parts
  private let hasStopped = Mutex(false)

  /// Starts a watchdog.
  ///
  /// - Throws: ``WatchdogError`` when the configuration makes no sense, stacks cannot be captured here, the directory
  ///   cannot be used, or a watchdog is running already. Nothing is watched then.
  public init(_ configuration: Configuration = Configuration()) throws(WatchdogError) {
    try configuration.validate()
    self.configuration = configuration
    let claimed = Self.isRunning.withLock { isRunning in
      defer { isRunning = true }
      return !isRunning
    }
    guard claimed else { throw .alreadyRunning }
    do {
      parts = try Self.start(configuration)
    } catch {
      Self.isRunning.withLock { $0 = false }
      throw error
    }
  }

  deinit { stop() }

  private static func start(_ configuration: Configuration) throws(WatchdogError) -> Parts {
    if let directory = configuration.directory { try StallFileSink.prepare(directory: directory) }
    if let missing = observer_unwind_start() { throw .cannotObserve(String(cString: missing)) }
    var error = observer_capture_start(configuration.stackBytesMax)
    if error == 0 { error = observer_passive_start(configuration.stackBytesMax) }
    guard error == 0 else { throw .cannotObserve(captureProblem(error)) }
    guard let slots = observer_slot_table(), let ring = Recorder.RingHandle(capacity: 1 << 20) else {
      throw .cannotObserve("there is no memory for the tables")
    }
    let control = ControlBlock()
    let reporter = Reporter(width: configuration.reportWidth)
    let recorder = Recorder(
      ring: ring,
      process: ObservedProcess(
        id: getpid(),
        executable: executablePath(),
        architecture: String(cString: observer_arch_name()),
        observerVersion: culpritVersion,
        watchedSince: WallTime(nanosecondsSince1970: observer_clock_wall_ns())
      ),
      directory: configuration.directory,
      deliver: { reporter.report($0) }
    )
    let table = SlotTable(pointer: slots)
    do {
      let reporterThread = try PosixThread(name: "culprit-report", signals: .asCreator) { reporter.run() }
      let recorderThread = try PosixThread(name: "culprit-record") { recorder.run() }
      let monitorThread = try PosixThread(name: "culprit-monitor") {
        var monitor = Monitor(control: control.pointer, slots: table.pointer, ring: ring.pointer)
        monitor.run()
      }
      SlotRegistry.shared.activate(control, interval: configuration.sampleInterval)
      return Parts(
        control: control,
        recorder: recorder,
        reporter: reporter,
        monitorThread: monitorThread,
        recorderThread: recorderThread,
        reporterThread: reporterThread
      )
    } catch {
      // Those that were started end by themselves.
      recorder.stop()
      reporter.stop()
      throw .cannotObserve("a thread cannot be started: \(String(cString: strerror(error.number)))")
    }
  }

  /// Ends the watch. A stall that is under way is reported as far as it was seen. Returns when every report has been
  /// delivered, unless it is called by a handler. Does nothing the second time, not even wait.
  ///
  /// Loops and sections may go on marking their work; nobody looks.
  public func stop() {
    let isFirst = hasStopped.withLock { hasStopped in
      defer { hasStopped = true }
      return !hasStopped
    }
    guard isFirst else { return }
    observer_control_stop(parts.control.pointer)
    parts.monitorThread.join()
    parts.recorder.stop()
    parts.recorderThread.join()
    SlotRegistry.shared.deactivate()
    parts.reporter.stop()
    parts.reporterThread.join()
    Self.isRunning.withLock { $0 = false }
  }

  /// The monitor of this watchdog, for leasing slots.
  var control: ControlBlock { parts.control }

  /// Calls `handler` with a report after every stall, on a thread of the watchdog's own, one report at a time.
  ///
  /// Several handlers are called in the order they were added. While there is none, reports go to standard error.
  public func onStall(_ handler: @escaping @Sendable (StallReport) -> Void) { parts.reporter.add(handler) }

  /// How the watchdog itself is doing.
  public var status: Status {
    Status(
      wakeups: observer_control_wakeups(parts.control.pointer),
      captures: observer_capture_answered(),
      lateAnswers: observer_capture_late(),
      reportsDropped: parts.reporter.dropped,
      problems: parts.recorder.problems
    )
  }

  /// How a watchdog is doing.
  public struct Status: Sendable {
    /// How often the monitor has looked at the watched work.
    public var wakeups: UInt64
    /// How many stacks have been copied in this process, those for checking the set-up included.
    public var captures: UInt64
    /// How many threads answered when nobody waited for them any more.
    public var lateAnswers: UInt64
    /// How many stalls no handler was told of, because handlers could not keep up.
    public var reportsDropped: UInt64
    /// What could not be saved, and why: the first sixteen sentences.
    public var problems: [String]
  }

  /// Carries the slot table into the monitor's thread.
  private struct SlotTable: @unchecked Sendable {
    // SAFETY: the table is never freed, and its fields are atomic.
    let pointer: UnsafeMutablePointer<observer_slot>
  }

  private static func executablePath() -> String {
    var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
    let count = readlink("/proc/self/exe", &buffer, Int(PATH_MAX))
    guard count > 0 else { return CommandLine.arguments.first ?? "" }
    return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
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
