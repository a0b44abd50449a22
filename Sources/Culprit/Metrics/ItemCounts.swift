import CCulpritObserver
import CulpritStallRecord

/// The recorder's counts for one work item. Events carry running totals, so each increment is counted once.
struct ItemCounts {
  private let series: Series?
  private var lost: UInt64 = 0
  private var isStalled = false
  private var isOver = false

  /// Creates counts that are added to `series`; `nil` if the source has been removed.
  init(_ series: Series?) { self.series = series }

  /// Counts a due sample as taken or lost.
  func sample(isTaken: Bool) {
    guard let series else { return }
    if isTaken { observer_series_sample(series.counts) } else { observer_series_lose(series.counts, 1) }
  }

  /// Counts lost samples. `total` is the running total of samples without room.
  mutating func lose(upTo total: UInt64) {
    guard let series, total > lost else { return }
    observer_series_lose(series.counts, total - lost)
    lost = total
  }

  /// Counts the work item as a stall.
  mutating func stall() {
    guard let series, !isStalled else { return }
    isStalled = true
    observer_series_stall_began(series.counts)
  }

  /// Counts the stall as a hang.
  func hang() { if let series { observer_series_hang(series.counts) } }

  /// Counts the end of the stall after `duration`, or the end of its watch.
  mutating func end(after duration: Duration) {
    guard let series, isStalled, !isOver else { return }
    isOver = true
    observer_series_stall_ended(series.counts, duration.wholeNanoseconds)
  }
}
