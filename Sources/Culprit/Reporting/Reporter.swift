import CCulpritLinux
import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

/// The thread that symbolizes recordings, finds the culprit and has the application's handlers called.
///
/// Between reports and between symbols the thread also runs short work of other parts (``attend(_:)``), which need no
/// threads for it: it supervises the ``Workers``, reads the modules, and starts the stop at an exit.
final class Reporter: Sendable {
  /// The most stalls that wait to be named; more are dropped and counted. What was saved stays saved.
  private static let waitingMax = 64
  /// What handlers of the last report, and its file, have at least, in nanoseconds: less than it takes to be held for
  /// held up (``WorkerPatience/standstill``).
  private static let moment: UInt64 = 500_000_000

  /// What is to be done with a recording.
  private struct Work {
    var recording: Recording
    /// Where it is saved, to get its names.
    var file: StallFileQueue?
    /// Whether handlers are told.
    var isReported: Bool
    /// Whether nothing more is to come: then the file is complete.
    var isOver: Bool
  }

  private struct State {
    var waiting: [Work] = []
    /// Whether one is being reported.
    var isBusy = false
    var dropped: UInt64 = 0
    var isStopping = false
  }

  /// The handlers: of the beginning of a stall, of its becoming a hang, and of its end.
  let begun: Handlers<StallEvent>
  let hung: Handlers<StallEvent>
  let ended: Handlers<StallReport>

  /// Test seam: files that stay open from report to report, as reading symbols takes most of a report's time.
  // SAFETY: a test sets it before the first watchdog starts, and only the reporter's thread uses the files.
  nonisolated(unsafe) static var keptFiles: SharedFiles?

  private let state = Mutex(State())
  private let pending = PendingReports()
  private let wake: WakeUp
  private let attendants = Mutex<[@Sendable () -> UInt64]>([])
  private let settings: ReportSettings
  private let servers: DebugInfoServers?
  private let limiter: Mutex<ReportLimiter>
  private let problems: ProblemList

  /// Reports as `settings` say, as often as `limits` allow, with debug information from `servers`, if there are any. The
  /// thread waits on `wake`, and `workers` call the handlers.
  init(
    _ settings: ReportSettings,
    limits: ReportLimiter,
    servers: DebugInfoServers?,
    problems: ProblemList,
    workers: Workers,
    wake: WakeUp
  ) {
    self.wake = wake
    (begun, hung, ended) = (Handlers(workers), Handlers(workers), Handlers(workers))
    self.problems = problems
    self.servers = servers
    self.settings = settings
    limiter = Mutex(limits)
  }

  /// Has the thread call `body` when it is woken, and at the time that `body` has returned last, `.max` for none. It must
  /// be short.
  func attend(_ body: @escaping @Sendable () -> UInt64) {
    attendants.withLock { $0.append(body) }
    wake.notify()
  }

  /// Returns when to call it again.
  @discardableResult
  private func attend() -> UInt64 { attendants.withLock { $0 }.reduce(.max) { min($0, $1()) } }

  private func pause() {
    clinux_fork_yield()
    attend()
  }

  /// Stalls that nobody was told of, because naming them or handlers could not keep up.
  var dropped: UInt64 { state.withLock { $0.dropped } + begun.dropped + hung.dropped + ended.dropped }

  /// Stalls that were counted, and not reported, because there were too many.
  var counted: UInt64 { limiter.withLock { $0.counted } }

  /// Tells handlers that a stall has begun, or has become a hang. Its report is pending from now on.
  ///
  /// Where thousands of suspended tasks pass their thresholds at once, a stall of a thread is not dropped with them.
  func announce(_ event: StallEvent) {
    pending.put(event)
    (event.isHang ? hung : begun).call(event, isVital: event.thread.id != 0)
  }

  /// Reports `recording` soon, and puts its names into `file`, where it is saved. If the stall is over, the file is
  /// closed then.
  func report(_ recording: Recording, file: StallFileQueue?, isOver: Bool) {
    for stall in recording.stalls { pending.put(stall, of: recording.process) }
    put(Work(recording: recording, file: file, isReported: true, isOver: isOver))
  }

  /// Puts the names of `recording`, of a stall that goes on, into `file` soon.
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
    if !isTaken, work.isOver { work.file?.close(keepsFile: true) }
    wake.notify()
  }

  /// Waits until handlers have been called for all that waits, until `deadline` at most. Returns whether they have been.
  func flush(until deadline: UInt64) -> Bool {
    while state.withLock({ $0.isBusy || !$0.waiting.isEmpty }) {
      guard clinux_clock_ns() < deadline else { return false }
      resting { clinux_pause_ns(1_000_000) }
    }
    return true
  }

  /// Makes ``run()`` return when everything has been reported.
  func stop() {
    servers?.cancel()
    state.withLock { $0.isStopping = true }
    wake.notify()
  }

  /// Reports the stall of `recording` before it is over, past the limits and past what waits, and puts its names into
  /// `file`, where it is saved. Works on the calling thread, and waits for no server.
  ///
  /// - Parameters:
  ///   - recording: What was recorded, with one stall.
  ///   - file: Where it is saved.
  ///   - told: Called with the report before handlers are; with `nil` where there is no memory for one, which is said.
  ///   - deadline: How long handlers have, on the observer's clock; a moment at least where naming has taken longer.
  /// - Returns: How long handlers had, and what is saved has.
  func reportLast(
    _ recording: Recording,
    file: StallFileQueue?,
    told: (StallReport?) -> Void,
    until deadline: UInt64
  ) -> UInt64 {
    guard let stall = recording.stalls.first else { return deadline }
    if let obstacle = MemoryRoom.obstacle(names: settings.symbolMemory) {
      sayWithout(recording, obstacle, until: deadline)
      told(nil)
      return deadline
    }
    let symbolizer = settings.symbolizer(of: recording)
    let report = settings.report(of: stall, in: recording, symbolizer)
    told(report)
    // Before handlers, which may take all the time that is left.
    file?.addNames(of: recording, symbolizer)
    let deadline = max(deadline, clinux_clock_ns() &+ Self.moment)
    if ended.isEmpty {
      printToStandardError(report.description, until: deadline)
    } else {
      let isTold = Promise<Bool>()
      ended.call(report, then: { isTold.fulfill(true) })
      _ = isTold.wait(until: deadline)
    }
    return deadline
  }

  /// Waits until handlers have been called for everything, until `deadline` at most, and forgets them. After ``run()``
  /// has returned. Returns whether they have been.
  func finish(until deadline: UInt64) -> Bool {
    let areCalled = [begun, hung].map { $0.finish(until: deadline) } + [ended.finish(until: deadline)]
    // The client's library must not be at work when the process exits, if that can be had.
    servers?.finish(within: .milliseconds(1500))
    return areCalled.allSatisfy { $0 }
  }

  /// Reports until it is stopped.
  func run() {
    // Kept from report to report while they come one after the other: opening the modules' files takes most of the
    // time.
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
        if next.isReported { deliver(next.recording, current, isOver: next.isOver) }
        next.file?.addNames(of: next.recording, current, pause: pause)
        if next.isOver {
          next.file?.endNames()
          next.file?.close(keepsFile: true)
        }
      } else if isStopping {
        return
      } else {
        symbolizer = nil
        wake.wait(after: seen, until: due)
      }
    }
  }

  /// Tells in a sentence of what there is no memory to report; it is saved as far as it is in its file already.
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
    problems.note("a stall is not reported for want of memory: \(obstacle)")
    for stall in recording.stalls {
      let source = "\(stall.source.kind.description) \"\(printable(stall.source.name))\""
      let text = "culprit: \(source) was stuck for \(stall.duration); there is no memory for a report\n"
      printToStandardError(text, until: deadline, pause: pause)
    }
  }

  private func deliver(_ recording: Recording, _ symbolizer: Symbolizer, isOver: Bool) {
    for stall in recording.stalls {
      let blame = settings.builder(recording, symbolizer, pause: { [self] in pause() }).blame(for: stall)
      let culprit = blame.culprit?.frame.function ?? ""
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
        continue
      }
      let report = settings.report(of: stall, in: recording, symbolizer, blame: blame, repeats: repeats)
      pending.put(report, number: stall.id)
      let isDelivered = { @Sendable [pending] in if isOver { pending.remove(stall.id) } }
      // Also when no handler can be called: a report is not lost for want of a thread.
      guard !ended.call(report, after: { [pending] in pending.deliver(stall.id) }, then: isDelivered) else { continue }
      printToStandardError(report.description, pause: { [self] in attend() })
      isDelivered()
    }
  }
}
