import CObserver
import Glibc
import Synchronization

/// What is done about stalls that do not end, and whom it is told: the warden and its errands' thread.
///
/// Neither thread is started before the configuration wants one of them.
final class Policies: Sendable {
  private struct Threads {
    var warden: PosixThread?
    var runner: PosixThread?
    var isStopped = false
  }

  let block = WardenBlock()
  private let control: ControlBlock
  private let recorder: Recorder
  private let reporter: Reporter
  private let systemd: SystemdNotifier?
  private let threads = Mutex(Threads())
  private let handlers = Mutex<[TerminationHandler]>([])
  /// Guards the writer's side of the status text.
  private let statusLock = Mutex(())

  init(control: ControlBlock, recorder: Recorder, reporter: Reporter, systemd: SystemdNotifier?) {
    self.control = control
    self.recorder = recorder
    self.reporter = reporter
    self.systemd = systemd
  }

  /// What is wrong with the surroundings, in sentences.
  var problems: [String] { systemd?.problems ?? [] }

  /// Asks `handler` before the process is ended.
  func add(_ handler: @escaping TerminationHandler) {
    handlers.withLock { $0.append(handler) }
    observer_warden_set_has_handlers(block.pointer)
  }

  /// Does as `configuration` says from now on. Starts the threads when they are wanted for the first time.
  ///
  /// - Throws: ``PosixThreadError`` when they cannot be started.
  func follow(_ configuration: Configuration) throws(PosixThreadError) {
    let limit = configuration.isEnabled ? configuration.terminateAfter?.wholeNanoseconds : nil
    observer_warden_set_terminate_after_ns(block.pointer, limit ?? 0)
    if systemd?.isOpen == true || limit != nil { try start() }
  }

  private func start() throws(PosixThreadError) {
    let error: PosixThreadError? = threads.withLock { threads in
      guard threads.warden == nil, !threads.isStopped, let progress = observer_progress_table() else { return nil }
      do throws(PosixThreadError) {
        let runner = ErrandRunner(
          warden: block,
          recorder: recorder,
          reporter: reporter,
          handlers: { [weak self] in self?.handlers.withLock { $0 } ?? [] }
        )
        // It calls the application's handlers.
        threads.runner = try PosixThread(name: "culprit-errand", signals: .asCreator) { runner.run() }
        let table = ProgressTable(pointer: progress)
        threads.warden = try PosixThread(name: "culprit-warden") { [block, control, systemd] in
          var warden = Warden(
            own: block.pointer,
            control: control.pointer,
            progress: table.pointer,
            systemd: systemd.map { Warden.Systemd(target: $0.target, watchdog: $0.watchdog) }
          )
          warden.run()
        }
        // Work that stalls right away may hold the allocator's lock: by then they must have all that they need.
        while observer_warden_started(block.pointer) < 2 { usleep(100) }
        return nil
      } catch {
        return error
      }
    }
    if let error { throw error }
  }

  /// Ends the threads.
  func stop() {
    let (warden, runner) = threads.withLock { threads in
      threads.isStopped = true
      return (threads.warden, threads.runner)
    }
    observer_warden_stop(block.pointer)
    warden?.join()
    runner?.join()
    // A handler may refer to the watchdog that refers to it.
    handlers.withLock { $0 = [] }
  }

  func launched() { observer_warden_add_notices(block.pointer, OBSERVER_NOTICE_READY.rawValue) }

  func shuttingDown() { observer_warden_add_notices(block.pointer, OBSERVER_NOTICE_STOPPING.rawValue) }

  func tellSystemd(status: String) {
    // Each line would be a variable of its own.
    let line = "STATUS=" + status.map { $0.isNewline ? " " : String($0) }.joined()
    statusLock.withLock { _ in
      observer_text_put(observer_warden_status(block.pointer), line, line.utf8.count)
    }
    observer_warden_wake(block.pointer)
  }

  /// What systemd has been told; `nil` when it is not told anything.
  var systemdState: Watchdog.SystemdState? {
    guard systemd?.isOpen == true else { return nil }
    let error = observer_warden_send_error(block.pointer)
    return Watchdog.SystemdState(
      pings: observer_warden_pings(block.pointer, true),
      hangs: observer_warden_pings(block.pointer, false),
      problem: error == 0 ? nil : String(cString: strerror(error))
    )
  }

  private struct ProgressTable: @unchecked Sendable {
    // SAFETY: the table is never freed, and its fields are atomic.
    let pointer: UnsafeMutablePointer<observer_progress>
  }
}
