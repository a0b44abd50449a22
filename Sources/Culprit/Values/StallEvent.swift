import CulpritReports
import CulpritStallRecord

/// A stall in progress, when it begins or becomes a hang.
public struct StallEvent: Sendable, CustomStringConvertible {
  /// The stuck source.
  public let source: StallReport.Source
  /// The stuck thread; its id is 0 if no thread is running the source's work.
  public let thread: StallReport.Thread
  /// The beginning of the work item.
  public let began: StallReport.Timestamp
  /// The threshold that the work item has passed.
  public let threshold: Duration
  /// The age of the work item.
  public let age: Duration
  /// Whether the stall has become a hang.
  public let isHang: Bool
  /// The stall's number in its recording.
  let number: UInt64
  let words: EventText
  private let soFar: @Sendable () -> StallReport?

  /// `soFar` makes the report from the samples taken so far.
  init(_ stall: Stall, of process: ObservedProcess?, isHang: Bool, soFar: @escaping @Sendable () -> StallReport?) {
    source = StallReport.Source(stall.source)
    thread = StallReport.Thread(stall.thread)
    began = StallReport.Timestamp(stall.began)
    threshold = stall.threshold
    age = stall.duration
    self.isHang = isHang
    number = stall.id
    words = EventText(stall, of: process, isHang: isHang)
    self.soFar = soFar
  }

  /// Analyzes the samples taken so far and returns a report; `nil` without samples. Call it in handlers, not on the
  /// stuck thread: it takes the time of reading symbols. Never uses the network.
  public func report() -> StallReport? { soFar() }

  /// The event in one sentence.
  public var description: String { words.sentence }

  /// The event in one log line, with its time and process. The counterpart of ``StallReport/summary``.
  public var summary: String { words.summary }

  /// Returns the source, the duration and the place in the style of a report, with lines of `width` characters, at
  /// least 40. The counterpart of ``StallReport/endText(width:)``.
  public func text(width: Int = 100) -> String { words.text(width: width) }
}
