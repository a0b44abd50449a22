import CulpritReports
import CulpritStallRecord

/// A stall that is under way: what is known of it when it begins, and when it becomes a hang.
public struct StallEvent: Sendable, CustomStringConvertible {
  /// What is stuck.
  public let source: StallReport.Source
  /// The thread that is; its id is 0 when none works on it.
  public let thread: StallReport.Thread
  /// When the work began.
  public let began: StallReport.Timestamp
  /// What the work was allowed to take.
  public let threshold: Duration
  /// How long it has taken so far.
  public let age: Duration
  /// Whether the stall has become a hang.
  public let isHang: Bool
  private let recording: Recording
  private let settings: ReportSettings

  init(_ recording: Recording, _ stall: Stall, isHang: Bool, _ settings: ReportSettings) {
    source = StallReport.Source(stall.source)
    thread = StallReport.Thread(stall.thread)
    began = StallReport.Timestamp(stall.began)
    threshold = stall.threshold
    age = stall.duration
    self.isHang = isHang
    self.recording = recording
    self.settings = settings
  }

  /// Works out who is to blame for what was seen so far. Takes as long as reading symbols takes, on the calling
  /// thread: a handler may, the thread that the stall holds up had better not. Never uses the network.
  public func report() -> StallReport? {
    guard let stall = recording.stalls.first else { return nil }
    var recording = recording
    recording.modules = ModuleList.covering(recording.stacks)
    return settings.report(of: stall, in: recording, settings.symbolizer(of: recording))
  }

  /// The event in a sentence.
  public var description: String {
    "\(source) \(isHang ? "hangs" : "is stuck"): \(age), \(threshold) are allowed"
  }
}
