import CCulpritObserver
import CulpritStallRecord

/// What the recorder has counted of one work item, each thing once: what it hears of the item are sums so far.
struct ItemCounts {
  private let series: Series?
  private var lost: UInt64 = 0
  private var isStalled = false
  private var isOver = false

  /// Counts in `series`; nothing when its source has been forgotten.
  init(_ series: Series?) { self.series = series }

  /// A sample was due, and has been taken or not.
  func sample(isTaken: Bool) {
    guard let series else { return }
    if isTaken { observer_series_sample(series.counts) } else { observer_series_lose(series.counts, 1) }
  }

  /// So many samples have found no room by now.
  mutating func lose(upTo total: UInt64) {
    guard let series, total > lost else { return }
    observer_series_lose(series.counts, total - lost)
    lost = total
  }

  /// The work item has become a stall.
  mutating func stall() {
    guard let series, !isStalled else { return }
    isStalled = true
    observer_series_stall_began(series.counts)
  }

  /// The stall has become a hang.
  func hang() { if let series { observer_series_hang(series.counts) } }

  /// The stall is over after `duration`, or nobody watches it any more.
  mutating func end(after duration: Duration) {
    guard let series, isStalled, !isOver else { return }
    isOver = true
    observer_series_stall_ended(series.counts, duration.wholeNanoseconds)
  }
}
