import CObserver

/// The thread that does what the warden cannot do itself, because it may block: it allocates, waits for the disk and calls
/// the application's handlers.
final class ErrandRunner: Sendable {
  /// How long the recorder and the disk are waited for.
  static let patience: UInt64 = 2_000_000_000

  private let warden: WardenBlock
  private let recorder: Recorder
  private let reporter: Reporter

  init(warden: WardenBlock, recorder: Recorder, reporter: Reporter) {
    self.warden = warden
    self.recorder = recorder
    self.reporter = reporter
  }

  /// Runs errands until there are none any more.
  func run() {
    var last: UInt32 = 0
    while true {
      let number = observer_warden_next_errand(warden.pointer, last)
      guard number != 0 else { return }
      last = number
      switch Errand(rawValue: number & 3) {
      case .lastReport: report()
      case .none: break
      }
      observer_warden_done(warden.pointer, number)
    }
  }

  /// Hands the stalls under way to the handlers, and their files to the disk.
  private func report() {
    let deadline = observer_clock_ns() &+ Self.patience
    let request = recorder.requestSoFar()
    for recording in request.recordings.wait(until: deadline) ?? [] { reporter.report(recording) }
    _ = request.saved.wait(until: deadline)
  }
}

/// The words that the warden and the rest of the watchdog share, alive as long as anybody refers to them.
final class WardenBlock: @unchecked Sendable {
  // SAFETY: every field behind the pointer is atomic or guarded by one that is; freed when the last reference goes.
  let pointer: UnsafeMutablePointer<observer_warden>

  init() {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: observer_warden())
  }

  deinit { pointer.deallocate() }
}
