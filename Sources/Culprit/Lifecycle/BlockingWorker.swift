import CCulpritLinux
import CCulpritProcess
import CulpritReports
import CulpritStallRecord

typealias TerminationHandler = @Sendable (Watchdog.TerminationRequest) -> Watchdog.TerminationRequest.Decision

/// The thread that does what the escalation thread must not do itself, because it may block: it allocates, waits for
/// the disk and calls the application's handlers.
final class BlockingWorker: Sendable {
  /// How long the recorder and the disk are waited for.
  static let patience: UInt64 = 2_000_000_000

  private let escalation: EscalationBlock
  private let recorder: Recorder
  private let reporter: Reporter
  /// What the application wants asked before its process is ended.
  private let handlers: @Sendable () -> [TerminationHandler]

  init(
    escalation: EscalationBlock,
    recorder: Recorder,
    reporter: Reporter,
    handlers: @escaping @Sendable () -> [TerminationHandler]
  ) {
    self.handlers = handlers
    self.escalation = escalation
    self.recorder = recorder
    self.reporter = reporter
  }

  /// Serves requests until there are none any more.
  func run() {
    cprocess_escalation_start(escalation.pointer)
    var last: UInt32 = 0
    var found: StallReport?
    while true {
      let number = cprocess_escalation_next_request(escalation.pointer, last)
      guard number != 0 else { return }
      last = number
      switch EscalationRequest(rawValue: number & 3) {
      case .lastReport: report()
      case .lastWords: found = sayLastWords()
      case .terminationHandlers:
        ask(found)
        found = nil
      case .none: break
      }
      cprocess_escalation_done(escalation.pointer, number)
    }
  }

  /// Hands the stalls under way to the handlers, and their files to the disk.
  private func report() {
    let deadline = clinux_clock_ns() &+ Self.patience
    let request = recorder.requestSoFar()
    for stall in request.stalls.wait(until: deadline) ?? [] {
      reporter.report(stall.recording, file: stall.file, isOver: false)
    }
    _ = request.saved.wait(until: deadline)
  }

  /// Has the record saved, tells who is to blame for what is to end the process, and has the stall's report so far
  /// delivered.
  private func sayLastWords() -> StallReport? {
    guard let ending = cprocess_escalation_termination(escalation.pointer)?.pointee else { return nil }
    let deadline = clinux_clock_ns() &+ Self.patience
    let request = recorder.requestSoFar()
    let stalls = request.stalls.wait(until: deadline) ?? []
    var report: StallReport?
    if let stall = stalls.first(where: { $0.slot == Int(ending.slot) && $0.item == ending.item }) {
      reporter.reportLast(
        stall.recording,
        file: stall.file,
        told: { found in
          report = found
          let phrase = Self.phrase(found)
          cprocess_text_put(cprocess_escalation_culprit(escalation.pointer), phrase, phrase.utf8.count)
        },
        until: deadline
      )
      stall.file?.settle(until: deadline)
    }
    _ = request.saved.wait(until: deadline)
    return report
  }

  private static func phrase(_ report: StallReport) -> String {
    guard let culprit = report.culprit else { return "No single function is to blame so far." }
    let place = culprit.function.location.map { " (\($0))" } ?? ""
    let share = Int((culprit.share * 100).rounded())
    return printable("Culprit so far: \(culprit.function.name)\(place), \(share) % of the time.")
  }

  /// Asks the application.
  private func ask(_ report: StallReport?) {
    guard let ending = cprocess_escalation_termination(escalation.pointer)?.pointee,
      let source = SlotRegistry.shared.source(Int(ending.slot))
    else { return }
    let reason = withUnsafeBytes(of: ending.reason) { String(decoding: $0.prefix(Int(ending.bytes)), as: UTF8.self) }
    let request = Watchdog.TerminationRequest(
      source: StallReport.Source(source),
      threadID: ending.tid,
      threshold: Duration(wholeNanoseconds: ending.limit_ns),
      elapsed: Duration(wholeNanoseconds: ending.age_ns),
      processorTime: Watchdog.ProcessorTime(ending),
      report: report,
      description: reason
    )
    var isHandled = false
    // Each is asked, whatever the others say.
    for handler in handlers() where handler(request) == .veto { isHandled = true }
    if isHandled { cprocess_escalation_veto(escalation.pointer, true) }
  }
}

/// The words that the escalation thread and the rest of the watchdog share, alive as long as anybody refers to them.
final class EscalationBlock: @unchecked Sendable {
  // SAFETY: every field behind the pointer is atomic or guarded by one that is; freed when the last reference goes.
  let pointer: UnsafeMutablePointer<cprocess_escalation>

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: cprocess_escalation())
  }

  deinit { pointer.deallocate() }
}
