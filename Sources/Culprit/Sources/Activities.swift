import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord

/// The activities under way, and the thread that calls expiration handlers.
final class Activities: Sendable {
  private struct Entry {
    var name: String
    var began: UInt64
    /// Compared with ``runningTime(_:)``.
    var deadline: UInt64?
    var onExpiration: (@Sendable () -> Void)?
    var beginning: [UInt64]
    var task: FollowedTask?
    var hasExpired = false
  }

  private struct State {
    var entries: [UInt64: Entry] = [:]
    var nextNumber: UInt64 = 1
    var isStopped = false
  }

  let leaked: Handlers<Watchdog.LeakedActivity>
  private let limit: Int
  private let limiter: Mutex<ReportLimiter>
  private let expirationThreshold: Duration
  private let control: ControlBlock
  private let state = Mutex(State())
  /// A child of fork(2) has none of its parent's activities.
  private let process = clinux_process_stamp()
  private let wake = WakeUp()
  private let thread = OnDemandThread()
  /// Prints leaked activities if there is no handler. Symbolizing takes time, and standard error might block.
  private let handlerThread: HandlerQueue

  /// Longest wait for standard error, in nanoseconds.
  private static let handlerPatience: UInt64 = 2_000_000_000
  /// Longest wait for a tick of the monitor before activities expire, in nanoseconds.
  private static let tickPatience: UInt64 = 1_000_000_000
  /// Runs handlers in a watched section; set once, before the first activity.
  private let section = Mutex(HandlerSection())

  private struct HandlerSection {
    var call: (@Sendable (_ name: String, _ threshold: Duration, _ body: () -> Void) -> Void)?
  }

  private static let source = WatchedSource(kind: .section, name: "activities")

  private static let framesMax = 64

  /// `expirationThreshold` applies to a group of handlers called together. `reports` limits reports by the code that
  /// began the activity.
  init(
    limit: Int,
    expirationThreshold: Duration,
    reports: ReportLimiter,
    _ control: ControlBlock,
    _ workers: Workers = Workers()
  ) {
    self.control = control
    leaked = Handlers(workers)
    handlerThread = HandlerQueue(workers)
    self.limit = limit
    limiter = Mutex(reports)
    self.expirationThreshold = expirationThreshold
  }

  func watch(with section: @escaping @Sendable (_ name: String, _ threshold: Duration, _ body: () -> Void) -> Void) {
    self.section.withLock { $0.call = section }
  }

  func begin(
    _ name: String,
    threshold: Duration?,
    _ onExpiration: (@Sendable () -> Void)?
  ) throws(WatchdogError) -> WatchedActivity {
    var addresses = [UInt64](repeating: 0, count: Self.framesMax)
    let count = clinux_walk_self(&addresses, Self.framesMax)
    let beginning = Array(addresses.prefix(count))
    let task = FollowedTask.current
    let now = clinux_clock_ns()
    // Expires late by the time for which the process was stopped since the monitor's last tick.
    let deadline = threshold.map { runningTime(now) &+ min($0, WatchLimits.longestTime).wholeNanoseconds }
    if deadline != nil { try thread.start(name: "culprit-expire") { [self] in run() } }
    let mask = HandlerMask()
    let handler = onExpiration.map { body in { @Sendable in mask.run(body) } }
    let number: Result<UInt64, WatchdogError> = state.withLock { state in
      guard !state.isStopped else { return .failure(.stopped) }
      guard state.entries.count < limit else { return .failure(.tooManyActivities(limit: limit)) }
      let number = state.nextNumber
      state.nextNumber += 1
      state.entries[number] = Entry(
        name: name,
        began: now,
        deadline: deadline,
        onExpiration: handler,
        beginning: beginning,
        task: task
      )
      return .success(number)
    }
    let activity = WatchedActivity(name: name, number: try number.get(), activities: self)
    if deadline != nil { wake.notify() }
    return activity
  }

  func end(_ number: UInt64) {
    guard clinux_process_is(process) else { return }
    _ = state.withLock { $0.entries.removeValue(forKey: number) }
  }

  /// Called by the deinitializer of ``WatchedActivity``.
  func drop(_ number: UInt64) {
    guard clinux_process_is(process) else { return }
    if let entry = state.withLock({ $0.entries.removeValue(forKey: number) }), !entry.hasExpired {
      callHandlers(entry, .dropped)
    }
  }

  var haveBegun: Bool { state.withLock { $0.nextNumber > 1 } }

  func timeRemaining(_ number: UInt64) -> Duration? {
    guard clinux_process_is(process) else { return .zero }
    return state.withLock { state in
      guard let entry = state.entries[number] else { return .zero }
      guard let deadline = entry.deadline else { return nil }
      let now = runningTime(clinux_clock_ns())
      return deadline > now ? Duration(wholeNanoseconds: deadline - now) : .zero
    }
  }

  /// Returns `now` without the time that the monitor has counted as stopped.
  private func runningTime(_ now: UInt64) -> UInt64 { now &- observer_control_stopped_ns(control.pointer) }

  /// Returns notes about the activities under way, the oldest first.
  func notes(limit: Int = 32) -> [StallNote] {
    let now = clinux_clock_ns()
    return state.withLock { $0.entries.values.ordered { $0.began < $1.began } }.prefix(limit)
      .map { entry in
        StallNote(
          .activity,
          title: entry.name,
          text: [entry.hasExpired ? "its time has run out" : nil, entry.task?.whereabouts?.state.rawValue]
            .compactMap(\.self).joined(separator: ", "),
          time: Duration(wholeNanoseconds: clinux_clock_between_ns(entry.began, now))
        )
      }
  }

  var underWay: [(name: String, began: UInt64, task: FollowedTask?)] {
    state.withLock { $0.entries.values.map { ($0.name, $0.began, $0.task) } }
  }

  /// Number of leaked activities not reported because handlers or standard error could not keep up.
  var dropped: UInt64 { leaked.dropped + handlerThread.dropped }

  /// Number of leaked activities that the report limit suppressed.
  var counted: UInt64 { limiter.withLock { $0.counted } }

  /// Waits until `deadline` for a running handler, unless the handler is the caller. Returns whether all have ended.
  func stop(until deadline: UInt64) -> Bool {
    // Released outside the lock: an object held only by a handler might call back here in its `deinit`.
    let ended = state.withLock { state in
      defer { state.entries = [:] }
      state.isStopped = true
      return state.entries
    }
    withExtendedLifetime(ended) {}
    wake.notify()
    let hasEnded = thread.join(until: deadline)
    let isReported = leaked.finish(until: deadline)
    _ = handlerThread.join(until: min(deadline, clinux_clock_ns() &+ Self.handlerPatience))
    return hasEnded && isReported
  }

  private func callHandlers(_ entry: Entry, _ reason: Watchdog.LeakedActivity.Reason) {
    let now = clinux_clock_ns()
    let age = Duration(wholeNanoseconds: clinux_clock_between_ns(entry.began, now))
    let place = "\(reason) \(entry.beginning.hashValue)"
    let decision = limiter.withLock { $0.decide(source: Self.source, culprit: place, now: now) }
    guard case .report(let repeats) = decision else { return }
    let activity = Watchdog.LeakedActivity(
      name: entry.name,
      reason: reason,
      age: age,
      repeats: repeats,
      beginning: entry.beginning,
      task: entry.task?.whereabouts
    )
    // The caller can be any thread of the application, so it must not block.
    if leaked.isEmpty {
      handlerThread.put { blockingFork { printToStandardError("culprit: \(activity)") } }
    } else {
      leaked.call(activity)
    }
  }

  private func run() {
    while true {
      let seen = wake.seen
      let now = clinux_clock_ns()
      let (next, isStopped) = state.withLock { state in
        (state.entries.values.filter { !$0.hasExpired }.compactMap(\.deadline).min() ?? .max, state.isStopped)
      }
      if isStopped { return }
      let left = next &- min(next, runningTime(now))
      guard left == 0 else {
        wake.wait(after: seen, until: next == .max ? .max : now &+ left)
        continue
      }
      // The monitor notices at its next tick that the process was stopped.
      _ = control.waitForTick(until: now &+ Self.tickPatience)
      let time = runningTime(now)
      let expired = state.withLock { state in
        let due = state.entries.filter { !$0.value.hasExpired && ($0.value.deadline ?? .max) <= time }
        for number in due.keys { state.entries[number]?.hasExpired = true }
        return due.ordered { $0.key < $1.key }
      }
      guard !expired.isEmpty else { continue }
      let handlers = expired.compactMap(\.value.onExpiration)
      let names = expired.map { "\"\($0.value.name)\"" }.joined(separator: ", ")
      let watch = section.withLock { $0 }
      watch.call?("expiration handlers of \(names)", expirationThreshold) { for handler in handlers { handler() } }
      for (number, entry) in expired where state.withLock({ $0.entries[number] != nil }) {
        callHandlers(entry, .expired)
      }
    }
  }
}
