import CCulpritLinux
import CCulpritObserver

/// The threads that call the application's handlers.
///
/// When every thread has been in its call for ``patience``, another thread is started, so a handler that blocks delays
/// others only once. A thread ends after ``idleTime`` without a call if another thread is idle too.
final class Workers: Sendable {
  typealias Call = @Sendable () -> Void

  static let threadName = "culprit-handler"
  /// Maximum number of threads, for handlers that never return.
  static let threadsMax = 64
  /// Time of a call after which another thread is started, in nanoseconds.
  static let patience: UInt64 = 20_000_000
  static let idleTime: UInt64 = 10_000_000_000

  private struct CallList {
    private var calls: [Call] = []
    private var next = 0

    mutating func append(_ added: [Call]) { calls += added }

    mutating func removeFirst() -> Call? {
      guard next < calls.count else { return nil }
      defer {
        next += 1
        if next == calls.count { (calls, next) = ([], 0) }
      }
      return calls[next]
    }
  }

  private struct SectionSearch {
    var calls: @Sendable () -> [Call]
  }

  private struct State {
    /// One call for each queue with calls.
    var queues = CallList()
    var sections = CallList()
    /// Whether a section comes next: thousands of sections must not delay the handlers of stalls.
    var isSectionNext = false
    var threads = 0
    var idle = 0
    /// The time at which a thread last took a call or stopped being idle.
    var lastStep: UInt64 = 0
    /// Whether the supervisor will call ``Workers/supervise(isSupervisor:)`` again on its own.
    var isSupervised = false
    var isStopping = false

    mutating func take() -> Call? {
      defer { isSectionNext.toggle() }
      return isSectionNext
        ? sections.removeFirst() ?? queues.removeFirst() : queues.removeFirst() ?? sections.removeFirst()
    }
  }

  private let control: ControlBlock
  private let supervisor: WakeUp
  private let state = Mutex(State())
  private let sectionSearch = Mutex(SectionSearch(calls: { [] }))

  /// The monitor of `control` wakes the workers when work is late; `supervisor` wakes the supervising thread.
  init(_ control: ControlBlock = ControlBlock(), supervisor: WakeUp = WakeUp()) {
    self.control = control
    self.supervisor = supervisor
  }

  var threads: Int { state.withLock { $0.threads } }

  /// Starts a thread if there is none. Returns whether a thread exists and calls are accepted.
  ///
  /// Called when a handler is installed, because no thread can be started during a stall that holds the address space's
  /// lock.
  @discardableResult
  func start() -> Bool {
    let isRunning = state.withLock { state -> Bool? in
      if state.isStopping { return false }
      if state.threads > 0 { return true }
      state.threads = 1
      state.lastStep = clinux_clock_ns()
      return nil
    }
    return isRunning ?? startThread()
  }

  func put(_ call: @escaping Call) {
    state.withLock { $0.queues.append([call]) }
    observer_control_report_late(control.pointer)
  }

  /// Sets the search for late sections, which precedes each call.
  func setSections(_ find: @escaping @Sendable () -> [Call]) { sectionSearch.withLock { $0.calls = find } }

  func stop() {
    state.withLock { $0.isStopping = true }
    observer_control_report_late(control.pointer)
  }

  /// Starts a thread if every thread has been in its call for ``patience``. Returns the time of the next call, which
  /// the supervisor makes without being woken.
  @discardableResult
  func supervise(isSupervisor: Bool = true) -> UInt64 {
    let now = clinux_clock_ns()
    let (isDue, next) = state.withLock { state -> (Bool, UInt64) in
      let isBusy = state.idle == 0 && (1..<Self.threadsMax).contains(state.threads)
      if isSupervisor { state.isSupervised = isBusy }
      guard isBusy else { return (false, .max) }
      let due = state.lastStep &+ Self.patience
      guard now >= due else { return (false, due) }
      state.threads += 1
      state.lastStep = now
      return (true, now &+ Self.patience)
    }
    if isDue { startThread() }
    return next
  }

  /// Starts a thread that is already counted. Returns whether it runs.
  @discardableResult
  private func startThread() -> Bool {
    do throws(WatchdogError) {
      try PosixThread(name: Self.threadName, stack: .application) { [self] in run() }.detach()
      return true
    } catch {
      state.withLock { $0.threads -= 1 }
      return false
    }
  }

  private enum Step {
    case call(Call, isSupervisorNeeded: Bool)
    case wait(until: UInt64)
    case end
  }

  private func run() {
    while true {
      let word = observer_control_late(control.pointer)
      takeSections()
      switch nextStep() {
      case .call(let call, let isSupervisorNeeded):
        if isSupervisorNeeded { supervisor.notify() }
        call()
      case .wait(let deadline):
        allowingFork {
          // A thread that wakes up without work stays idle.
          while observer_control_late(control.pointer) == word, clinux_clock_ns() < deadline {
            observer_control_wait_late(control.pointer, word, deadline)
          }
        }
        if hasEnded(isIdle: observer_control_late(control.pointer) == word) { return }
      case .end: return
      }
    }
  }

  private func takeSections() {
    let search = sectionSearch.withLock { $0 }
    let calls = search.calls()
    guard !calls.isEmpty else { return }
    state.withLock { $0.sections.append(calls) }
    if calls.count > 1 { observer_control_report_late(control.pointer) }
  }

  private func nextStep() -> Step {
    let now = clinux_clock_ns()
    return state.withLock { state in
      if let call = state.take() {
        state.lastStep = now
        let isSupervisorNeeded = state.idle == 0 && !state.isSupervised
        state.isSupervised = state.isSupervised || isSupervisorNeeded
        return .call(call, isSupervisorNeeded: isSupervisorNeeded)
      }
      if state.isStopping {
        state.threads -= 1
        return .end
      }
      state.idle += 1
      return .wait(until: state.idle > 1 ? now &+ Self.idleTime : .max)
    }
  }

  /// Returns whether the thread must end.
  private func hasEnded(isIdle: Bool) -> Bool {
    let now = clinux_clock_ns()
    return state.withLock { state in
      state.idle -= 1
      state.lastStep = now
      guard isIdle, state.idle > 0 else { return false }
      state.threads -= 1
      return true
    }
  }
}
