import CCulpritObserver
import CulpritStallRecord

/// Events carry running totals, so each increment is counted once.
struct ItemCounts {
  private let series: Series?
  private var lost: UInt64 = 0
  private var isStalled = false
  private var isOver = false

  /// `series` is `nil` if the source has been removed.
  init(_ series: Series?) { self.series = series }

  func sample(isTaken: Bool) {
    guard let series else { return }
    if isTaken { observer_series_sample(series.counts) } else { observer_series_lose(series.counts, 1) }
  }

  /// `total` is the running total of lost samples.
  mutating func lose(upTo total: UInt64) {
    guard let series, total > lost else { return }
    observer_series_lose(series.counts, total - lost)
    lost = total
  }

  mutating func stall() {
    guard let series, !isStalled else { return }
    isStalled = true
    observer_series_stall_began(series.counts)
  }

  func hang() { if let series { observer_series_hang(series.counts) } }

  mutating func end(after duration: Duration) {
    guard let series, isStalled, !isOver else { return }
    isOver = true
    observer_series_stall_ended(series.counts, duration.wholeNanoseconds)
  }
}
