import CCulpritLinux
import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

/// The thread that symbolizes recordings, finds the culprit and triggers the application's handlers.
///
/// Between reports and between symbols the thread also runs short tasks of other components (``attend(_:)``): it
/// supervises the ``Workers``, reads the modules, and starts the stop at process exit.
final class Reporter: Sendable {
  /// Maximum number of queued stalls. Further ones are dropped and counted; their files remain.
  private static let waitingMax = 64
  /// Minimum time for the handlers of the last report and for its file, in nanoseconds. Shorter than
  /// ``WorkerPatience/standstill``.
  private static let moment: UInt64 = 500_000_000

  private struct Work {
    var recording: Recording
    /// The stall's file, which receives the names.
    var file: StallFileQueue?
    /// Whether handlers are called.
    var isReported: Bool
    /// Whether the recording is final, so that the file can be completed and closed.
    var isOver: Bool
  }

  private struct State {
    var waiting: [Work] = []
    /// Whether a report is in progress.
    var isBusy = false
    var dropped: UInt64 = 0
    var isStopping = false
  }

  /// The handlers for the begin of a stall, for its transition to a hang, and for its report.
  let begun: Handlers<StallEvent>
  let hung: Handlers<StallEvent>
  let ended: Handlers<StallReport>

  /// Test seam: files that stay open from report to report, because reading symbols takes most of a report's time.
  // SAFETY: a test sets it before the first watchdog starts, and only the reporter's thread uses the files.
  nonisolated(unsafe) static var keptFiles: SharedFiles?

  private let state = Mutex(State())
  private let pending: PendingReports
  private let wake: WakeUp
  private let attendants = Mutex<[@Sendable () -> UInt64]>([])
  private let settings: ReportSettings
  private let servers: DebugInfoServers?
  private let limiter: Mutex<ReportLimiter>
  private let problems: ProblemList

  /// Creates the reporter.
  ///
  /// - Parameters:
  ///   - settings: The settings of reports.
  ///   - limits: The limits on the number of reports.
  ///   - servers: Servers for debug information, if any.
  ///   - problems: Receives the stalls that could not be reported.
  ///   - pending: The lines of stalls whose reports have not been delivered.
  ///   - workers: The threads that call handlers.
  ///   - wake: Wakes the thread.
  init(
    _ settings: ReportSettings,
    limits: ReportLimiter,
    servers: DebugInfoServers?,
    problems: ProblemList,
    pending: PendingReports,
    workers: Workers,
    wake: WakeUp
  ) {
    self.wake = wake
    self.pending = pending
    (begun, hung, ended) = (Handlers(workers), Handlers(workers), Handlers(workers))
    self.problems = problems
    self.servers = servers
    self.settings = settings
    limiter = Mutex(limits)
  }

  /// Adds `body`, called by the thread whenever it wakes. `body` returns the time of its next call, `.max` for none. It
  /// must be short.
  func attend(_ body: @escaping @Sendable () -> UInt64) {
    attendants.withLock { $0.append(body) }
    wake.notify()
  }

  /// Runs all attendants. Returns the time of the next call.
  @discardableResult
  private func attend() -> UInt64 { attendants.withLock { $0 }.reduce(.max) { min($0, $1()) } }

  private func pause() {
    clinux_fork_yield()
    attend()
  }

  /// Number of stalls without a report or call because symbolizing or handlers could not keep up.
  var dropped: UInt64 { state.withLock { $0.dropped } + begun.dropped + hung.dropped + ended.dropped }

  /// Number of stalls that were counted without a report because of the report limits.
  var counted: UInt64 { limiter.withLock { $0.counted } }

  /// Calls the handlers for a stall that has begun or has become a hang.
  ///
  /// If thousands of suspended tasks pass their thresholds at once, events can be dropped, but not those of threads.
  func announce(_ event: StallEvent) {
    (event.isHang ? hung : begun).call(event, isVital: event.thread.id != 0)
  }

  /// Queues `recording` for its report and adds its names to `file`. If `isOver`, the file is closed afterwards.
  func report(_ recording: Recording, file: StallFileQueue?, isOver: Bool) {
    for stall in recording.stalls { pending.put(stall, of: recording.process) }
    put(Work(recording: recording, file: file, isReported: true, isOver: isOver))
  }

  /// Queues `recording`, of a stall under way, to add its names to `file`.
  func name(_ recording: Recording, in file: StallFileQueue) {
    put(Work(recording: recording, file: file, isReported: false, isOver: false))
  }

  private func put(_ work: Work) {
    let isTaken = state.withLock { state in
      guard state.waiting.count < Self.waitingMax else {
        if work.isReported { state.dropped += 1 }
        return false
      }
      state.waiting.append(work)
      return true
    }
    if !isTaken, work.isOver {
      for stall in work.recording.stalls { pending.drop(stall.id) }
      work.file?.close(keepsFile: true)
    }
    wake.notify()
  }

  /// Waits until all queued recordings are processed, until `deadline`. Returns whether they are.
  func flush(until deadline: UInt64) -> Bool {
    while state.withLock({ $0.isBusy || !$0.waiting.isEmpty }) {
      guard clinux_clock_ns() < deadline else { return false }
      allowingFork { clinux_pause_ns(1_000_000) }
    }
    return true
  }

  /// Makes ``run()`` return once the queue is empty.
  func stop() {
    servers?.cancel()
    state.withLock { $0.isStopping = true }
    wake.notify()
  }

  /// Reports a stall under way before the process ends, ignoring the limits and the queue, and adds its names to
  /// `file`. Runs on the calling thread and uses no server.
  ///
  /// - Parameters:
  ///   - recording: A recording with one stall.
  ///   - file: The file of the stall.
  ///   - willCallHandlers: Called with the report before the handlers; with `nil` if memory is insufficient.
  ///   - deadline: The deadline for handlers by the observer's clock. They have at least ``moment`` after symbolizing.
  /// - Returns: The deadline that was used, which also applies to the file.
  func reportLast(
    _ recording: Recording,
    file: StallFileQueue?,
    willCallHandlers: (StallReport?) -> Void,
    until deadline: UInt64
  ) -> UInt64 {
    guard let stall = recording.stalls.first else { return deadline }
    if let obstacle = MemoryRoom.obstacle(names: settings.symbolMemory) {
      sayWithout(recording, obstacle, until: deadline)
      willCallHandlers(nil)
      return deadline
    }
    let symbolizer = settings.symbolizer(of: recording)
    let report = settings.report(of: stall, in: recording, symbolizer)
    willCallHandlers(report)
    // The file comes before the handlers, which might take all of the remaining time.
    file?.addNames(of: recording, symbolizer)
    let deadline = max(deadline, clinux_clock_ns() &+ Self.moment)
    if ended.isEmpty {
      printToStandardError(report.description, until: deadline)
    } else {
      let isReported = Promise<Bool>()
      ended.call(report, then: { isReported.fulfill(true) })
      _ = isReported.wait(until: deadline)
    }
    return deadline
  }

  /// Waits until all handlers have been called, until `deadline`, and removes them. Must be called after ``run()`` has
  /// returned. Returns whether all calls were made.
  func finish(until deadline: UInt64) -> Bool {
    let areCalled = [begun, hung].map { $0.finish(until: deadline) } + [ended.finish(until: deadline)]
    // The client library of the servers should not be active when the process exits.
    servers?.finish(within: .milliseconds(1500))
    return areCalled.allSatisfy { $0 }
  }

  /// Processes recordings until stopped.
  func run() {
    // Reused for consecutive reports, because opening the modules' files takes most of the time.
    var symbolizer: (modules: [Module], value: Symbolizer)?
    while true {
      let seen = wake.seen
      let due = attend()
      let (next, isStopping) = state.withLock { state -> (Work?, Bool) in
        state.isBusy = !state.waiting.isEmpty
        return (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.isStopping)
      }
      if let next, let obstacle = MemoryRoom.obstacle(names: settings.symbolMemory) {
        symbolizer = nil
        doWithout(next, obstacle)
      } else if let next {
        let modules = next.recording.modules
        let known = symbolizer?.modules == modules ? symbolizer?.value : nil
        let current = known ?? settings.symbolizer(of: next.recording, servers: servers, files: Self.keptFiles)
        symbolizer = (modules, current)
        servers?.renew()
        if next.isReported { deliver(next.recording, current, next.isOver ? next.file : nil, isOver: next.isOver) }
        next.file?.addNames(of: next.recording, current, pause: pause)
        if next.isOver { next.file?.finish() }
      } else if isStopping {
        return
      } else {
        symbolizer = nil
        wake.wait(after: seen, until: due)
      }
    }
  }

  /// Prints a line for a recording that cannot be reported for want of memory. The data in its file remain.
  private func doWithout(_ work: Work, _ obstacle: String) {
    if work.isReported {
      sayWithout(work.recording, obstacle, pause: { [self] in attend() })
      for stall in work.recording.stalls { pending.remove(stall.id) }
    }
    if work.isOver { work.file?.close(keepsFile: true) }
  }

  private func sayWithout(
    _ recording: Recording,
    _ obstacle: String,
    until deadline: UInt64 = .max,
    pause: (() -> Void)? = nil
  ) {
    state.withLock { $0.dropped += 1 }
    problems.note("a stall has no report, out of memory: \(obstacle)")
    for stall in recording.stalls {
      let source = "\(stall.source.kind.description) \"\(printable(stall.source.name))\""
      let text = "culprit: \(source) was stuck for \(stall.duration); out of memory for a report\n"
      printToStandardError(text, until: deadline, pause: pause)
    }
  }

  /// Delivers the reports of `recording`. If the stall `isOver`, `file` is closed after the delivery.
  private func deliver(_ recording: Recording, _ symbolizer: Symbolizer, _ file: StallFileQueue?, isOver: Bool) {
    for stall in recording.stalls {
      let analysis = settings.builder(recording, symbolizer, pause: { [self] in pause() }).analysis(of: stall)
      let culprit = analysis.culprit?.function.frame?.function ?? ""
      let decision = limiter.withLock {
        $0.decide(
          source: stall.source,
          culprit: culprit,
          isGroup: stall.count != nil,
          unrecorded: stall.count?.unrecorded ?? 0,
          now: clinux_clock_ns()
        )
      }
      guard case .report(let repeats) = decision else {
        pending.remove(stall.id)
        file?.noteReported()
        continue
      }
      let report = settings.report(completing: analysis, in: recording, symbolizer, repeats: repeats)
      pending.put(report, number: stall.id)
      file?.hold()
      let isDelivered = { @Sendable [pending] in
        file?.finish()
        if isOver { pending.remove(stall.id) }
      }
      // A handler might end the process.
      let begins = { @Sendable [pending] in
        pending.deliver(stall.id)
        file?.noteReported()
      }
      // Without a thread for handlers the report is printed instead of being lost.
      guard !ended.call(report, after: begins, then: isDelivered) else { continue }
      printToStandardError(report.description, pause: { [self] in attend() })
      file?.noteReported()
      isDelivered()
    }
  }
}
