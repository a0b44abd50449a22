import CulpritReports
import CulpritStallRecord

/// A stall that is under way, as known when it begins or when it becomes a hang.
public struct StallEvent: Sendable, CustomStringConvertible {
  /// The source that is stuck.
  public let source: StallReport.Source
  /// The stuck thread; its id is 0 when no thread works on the source.
  public let thread: StallReport.Thread
  /// When the work item began.
  public let began: StallReport.Timestamp
  /// The threshold that it has passed.
  public let threshold: Duration
  /// The age of the work item.
  public let age: Duration
  /// Whether the stall has become a hang.
  public let isHang: Bool
  private let soFar: @Sendable () -> StallReport?

  /// The event of `stall`, of which `soFar` makes the report.
  init(_ stall: Stall, isHang: Bool, soFar: @escaping @Sendable () -> StallReport?) {
    source = StallReport.Source(stall.source)
    thread = StallReport.Thread(stall.thread)
    began = StallReport.Timestamp(stall.began)
    threshold = stall.threshold
    age = stall.duration
    self.isHang = isHang
    self.soFar = soFar
  }

  /// Works out who is to blame for what was seen so far, in the time that reading symbols takes, on the calling thread:
  /// for handlers, not for the stuck thread. Never uses the network.
  ///
  /// - Returns: The report so far; `nil` when nothing was recorded.
  public func report() -> StallReport? { soFar() }

  /// The event in one sentence.
  public var description: String {
    "\(source) \(isHang ? "hangs" : "is stuck"): \(readable(age)), \(readable(threshold)) are allowed"
  }
}
