import CCulpritLinux
import CCulpritProcess
import CulpritReports
import CulpritStallRecord

/// Does blocking work for the escalation thread, which must neither allocate nor wait for the disk.
final class BlockingWorker: Sendable {
  static let patience = WorkerPatience.least

  private let escalation: EscalationBlock
  private let recorder: Recorder
  private let reporter: Reporter
  private let lastReport: LastReport

  init(escalation: EscalationBlock, recorder: Recorder, reporter: Reporter, lastReport: LastReport) {
    self.escalation = escalation
    self.recorder = recorder
    self.reporter = reporter
    self.lastReport = lastReport
  }

  func run() {
    cprocess_escalation_set_worker(escalation.pointer)
    cprocess_escalation_start(escalation.pointer)
    var last: UInt32 = 0
    while true {
      let number = allowingFork { cprocess_escalation_next_request(escalation.pointer, last) }
      guard number != 0 else { return }
      last = number
      switch EscalationRequest(rawValue: number & 3) {
      case .lastReport: report()
      case .lastWords: reportBeforeTermination(number)
      case .none: break
      }
      cprocess_escalation_done(escalation.pointer, number)
    }
  }

  private func report() {
    let deadline = clinux_clock_ns() &+ Self.patience
    let request = recorder.requestSoFar()
    for stall in request.stalls.wait(until: deadline) ?? [] {
      reporter.report(stall.recording, file: stall.file, isOver: false)
    }
    _ = request.saved.wait(until: deadline)
  }

  /// Saves the record before a termination, names the culprit of the fatal stall, and delivers its report so far.
  private func reportBeforeTermination(_ number: UInt32) {
    guard let ending = cprocess_escalation_termination(escalation.pointer)?.pointee else { return }
    var deadline = clinux_clock_ns() &+ Self.patience
    let request = recorder.requestSoFar()
    let stalls = request.stalls.wait(until: deadline) ?? []
    if let stall = stalls.first(where: { $0.slot == Int(ending.slot) && $0.item == ending.item }) {
      deadline = reporter.reportLast(
        stall.recording,
        file: stall.file,
        willCallHandlers: { found in
          if let found { lastReport.set(found, slot: ending.slot, item: ending.item) }
          let phrase = found.map(Self.phrase) ?? "The culprit is unknown: out of memory."
          cprocess_text_put(cprocess_escalation_culprit(escalation.pointer), number, phrase, phrase.utf8.count)
        },
        until: deadline
      )
      stall.file?.settle(until: deadline)
    }
    _ = request.saved.wait(until: deadline)
  }

  private static func phrase(_ report: StallReport) -> String {
    guard let culprit = report.culprit else { return "No single function is to blame so far." }
    let place = culprit.function.location.map { " (\($0))" } ?? ""
    let share = Int((culprit.share * 100).rounded())
    return printable("Culprit so far: \(culprit.function.name)\(place), \(share) % of the time.")
  }
}

final class EscalationBlock: @unchecked Sendable {
  // SAFETY: every field is atomic or guarded by an atomic field. The memory is freed with the last reference.
  let pointer: UnsafeMutablePointer<cprocess_escalation>

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: cprocess_escalation())
  }

  deinit { pointer.deallocate() }
}
