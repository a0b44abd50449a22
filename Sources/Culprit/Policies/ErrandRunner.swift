import Blame
import CLinux
import CProcess
import StallRecord

typealias TerminationHandler = @Sendable (Termination) -> Termination.Decision

/// The thread that does what the warden cannot do itself, because it may block: it allocates, waits for the disk and calls
/// the application's handlers.
final class ErrandRunner: Sendable {
  /// How long the recorder and the disk are waited for.
  static let patience: UInt64 = 2_000_000_000

  private let warden: WardenBlock
  private let recorder: Recorder
  private let reporter: Reporter
  /// What the application wants asked before its process is ended.
  private let handlers: @Sendable () -> [TerminationHandler]

  init(
    warden: WardenBlock,
    recorder: Recorder,
    reporter: Reporter,
    handlers: @escaping @Sendable () -> [TerminationHandler]
  ) {
    self.handlers = handlers
    self.warden = warden
    self.recorder = recorder
    self.reporter = reporter
  }

  /// Runs errands until there are none any more.
  func run() {
    cprocess_warden_start(warden.pointer)
    var last: UInt32 = 0
    var found: StallReport?
    while true {
      let number = cprocess_warden_next_errand(warden.pointer, last)
      guard number != 0 else { return }
      last = number
      switch Errand(rawValue: number & 3) {
      case .lastReport: report()
      case .lastWords: found = sayLastWords()
      case .terminationHandlers:
        ask(found)
        found = nil
      case .none: break
      }
      cprocess_warden_done(warden.pointer, number)
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
    guard let doom = cprocess_warden_doom(warden.pointer)?.pointee else { return nil }
    let deadline = clinux_clock_ns() &+ Self.patience
    let request = recorder.requestSoFar()
    let stalls = request.stalls.wait(until: deadline) ?? []
    var report: StallReport?
    if let stall = stalls.first(where: { $0.slot == Int(doom.slot) && $0.unit == doom.unit }) {
      reporter.reportLast(
        stall.recording,
        file: stall.file,
        told: { found in
          report = found
          let phrase = Self.phrase(found)
          cprocess_text_put(cprocess_warden_culprit(warden.pointer), phrase, phrase.utf8.count)
        },
        until: deadline
      )
      stall.file?.settle(until: deadline)
    }
    _ = request.saved.wait(until: deadline)
    return report
  }

  private static func phrase(_ report: StallReport) -> String {
    guard let claim = report.culprit else { return "No single function is to blame so far." }
    let place = claim.frame.location.map { " (\($0))" } ?? ""
    let share = Int((claim.share.fraction * 100).rounded())
    return printable("Culprit so far: \(claim.frame.displayName)\(place), \(share) % of the time.")
  }

  /// Asks the application.
  private func ask(_ report: StallReport?) {
    guard let doom = cprocess_warden_doom(warden.pointer)?.pointee,
      let source = SlotRegistry.shared.source(Int(doom.slot))
    else { return }
    let reason = withUnsafeBytes(of: doom.reason) { String(decoding: $0.prefix(Int(doom.bytes)), as: UTF8.self) }
    let termination = Termination(
      source: source,
      threadID: doom.tid,
      allowance: Duration(wholeNanoseconds: doom.limit_ns),
      elapsed: Duration(wholeNanoseconds: doom.age_ns),
      cpu: CPUStatistics(doom),
      report: report,
      description: reason
    )
    var isHandled = false
    // Each is asked, whatever the others say.
    for handler in handlers() where handler(termination) == .handled { isHandled = true }
    if isHandled { cprocess_warden_spare(warden.pointer, true) }
  }
}

/// The words that the warden and the rest of the watchdog share, alive as long as anybody refers to them.
final class WardenBlock: @unchecked Sendable {
  // SAFETY: every field behind the pointer is atomic or guarded by one that is; freed when the last reference goes.
  let pointer: UnsafeMutablePointer<cprocess_warden>

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: cprocess_warden())
  }

  deinit { pointer.deallocate() }
}
