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
  /// The stall's number in its recording.
  let number: UInt64
  private let words: EventText
  private let soFar: @Sendable () -> StallReport?

  /// The event of `stall` of `process`, of which `soFar` makes the report.
  init(_ stall: Stall, of process: ObservedProcess?, isHang: Bool, soFar: @escaping @Sendable () -> StallReport?) {
    source = StallReport.Source(stall.source)
    thread = StallReport.Thread(stall.namingPoolThreads.thread)
    began = StallReport.Timestamp(stall.began)
    threshold = stall.threshold
    age = stall.duration
    self.isHang = isHang
    number = stall.id
    words = EventText(stall, of: process, isHang: isHang)
    self.soFar = soFar
  }

  /// Works out who is to blame for what was seen so far, in the time that reading symbols takes, on the calling thread:
  /// for handlers, not for the stuck thread. Never uses the network.
  ///
  /// - Returns: The report so far; `nil` when nothing was recorded.
  public func report() -> StallReport? { soFar() }

  /// The event in one sentence.
  public var description: String { words.sentence }

  /// The event in one line for a log, with its time and process: what ``StallReport/summary`` is when the stall has ended.
  public var summary: String { words.summary }

  /// The event in the style of the report, for a log: what is stuck, for how long, where. ``StallReport/endText(width:)`` is what
  /// goes with it when the stall has ended.
  ///
  /// - Parameter width: The length of a line in characters, at least 40.
  /// - Returns: The text.
  public func text(width: Int = 100) -> String { words.text(width: width) }
}
