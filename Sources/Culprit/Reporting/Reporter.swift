import CCulpritLinux
import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc

/// The thread that symbolizes recordings, finds the culprit and triggers the application's handlers.
///
/// Between symbols it runs short tasks of other components (``attend(_:)``).
final class Reporter: Sendable {
  /// Limit of the queue. Further stalls are dropped and counted; their files remain.
  private static let waitingMax = 64
  /// Minimum time for the handlers of the last report and for its file, in nanoseconds. Shorter than
  /// ``WorkerPatience/standstill``.
  private static let moment: UInt64 = 500_000_000

  private struct Work {
    var recording: Recording
    var file: StallFileQueue?
    var isReported: Bool
    /// Whether the recording is final, so the file can be completed and closed.
    var isOver: Bool
  }

  private struct State {
    var waiting: [Work] = []
    var isBusy = false
    var dropped: UInt64 = 0
    var isStopping = false
  }

  let begun: Handlers<StallEvent>
  let hung: Handlers<StallEvent>
  let ended: Handlers<StallReport>

  /// Test seam: module files that stay open between reports, because reading symbols takes most of a report's time.
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

  /// Adds `body`, called whenever the thread wakes. `body` must be short, and returns the time of its next call or
  /// `.max`.
  func attend(_ body: @escaping @Sendable () -> UInt64) {
    attendants.withLock { $0.append(body) }
    wake.notify()
  }

  @discardableResult
  private func attend() -> UInt64 { attendants.withLock { $0 }.reduce(.max) { min($0, $1()) } }

  private func pause() {
    clinux_fork_yield()
    attend()
  }

  /// Number of stalls without a report or call because symbolizing or handlers could not keep up.
  var dropped: UInt64 { state.withLock { $0.dropped } + begun.dropped + hung.dropped + ended.dropped }

  /// Number of stalls that the report limits suppressed.
  var counted: UInt64 { limiter.withLock { $0.counted } }

  /// Events of suspended tasks can be dropped, but not events of threads.
  func deliverEvent(_ event: StallEvent) {
    (event.isHang ? hung : begun).call(event, isVital: event.thread.id != 0)
  }

  /// Queues `recording` for its report. If `isOver`, the file is closed afterwards.
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

  /// Returns whether all queued recordings are processed by `deadline`.
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

  /// Reports the stall of `recording` before the process ends, on the calling thread, ignoring the limits and the
  /// queue.
  ///
  /// Calls `willCallHandlers` with the report, or with `nil` if memory is insufficient. Handlers have at least
  /// ``moment``. Returns the deadline used, which also applies to the file.
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
    // Names come first, because the handlers might take all of the remaining time.
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

  /// Waits until `deadline` for all handler calls, and removes the handlers. Must be called after ``run()`` has
  /// returned.
  func finish(until deadline: UInt64) -> Bool {
    let areCalled = [begun, hung].map { $0.finish(until: deadline) } + [ended.finish(until: deadline)]
    // The client library of the debuginfod servers should not be active when the process exits.
    servers?.finish(within: .milliseconds(1500))
    return areCalled.allSatisfy { $0 }
  }

  func run() {
    // The symbolizer is reused, because opening the modules' files takes most of the time.
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
      // Called before the handler, which might end the process.
      let begins = { @Sendable [pending] in
        pending.deliver(stall.id)
        file?.noteReported()
      }
      // If no handler is available, the report is printed.
      guard !ended.call(report, after: begins, then: isDelivered) else { continue }
      printToStandardError(report.description, pause: { [self] in attend() })
      file?.noteReported()
      isDelivered()
    }
  }
}
