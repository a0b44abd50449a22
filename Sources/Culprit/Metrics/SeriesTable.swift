import CCulpritObserver
import CulpritReports
import CulpritStallRecord

struct Series: @unchecked Sendable {
  // SAFETY: the memory is never freed, and every field is atomic.
  let counts: UnsafeMutablePointer<observer_series>
}

/// Maps sources to their series of numbers, one for each kind and name up to ``capacity``. Other sources share one
/// series.
///
/// Numbers must never decrease, so a series with counts is kept forever. Empty series can be reassigned, first those
/// used only once, because section names might contain request data.
///
/// The table takes no lock; ``SlotRegistry`` guards it.
struct SeriesTable {
  /// Suited to a dashboard page and a scrape.
  static let capacity = 256
  /// The bytes of a name that distinguish sources.
  static let nameBytes = 200
  static let others = StallReport.Source(kind: .others, name: "others")

  /// `nil` stands for the shared series.
  typealias Place = Int?

  private struct Entry {
    /// The source, with an abridged name.
    var source: WatchedSource
    var series: Series
    /// The number of watched sources that use the entry.
    var uses = 0
    var hasComeBack = false
    /// Whether the series has counts or can get counts, so it is kept forever.
    var isKept = false
    /// The number of earlier sources of the entry.
    var turn: UInt64 = 0
    /// Whether the entry's index is in ``idle`` or ``idleOften``.
    var isIdle = false

    /// Whether the series is visible in the metrics.
    ///
    /// A section entered once and never late is hidden, because metrics systems store every name. Other sources are
    /// visible before their first count, because an increase from an unseen value cannot be computed.
    var isShown: Bool {
      isKept || hasComeBack || uses > 0 && source.kind != .section || !observer_series_is_empty(series.counts)
    }
  }

  private var entries: [Entry] = []
  private var places: [WatchedSource: Int] = [:]
  /// Indices of unused entries that were used once, the oldest first, and of entries that were used more often.
  private var idle: [Int] = []
  private var idleOften: [Int] = []
  /// The last source of each slot. Avoids the lookup by name, the slowest part of a section's beginning.
  private var last: [(source: WatchedSource, place: Int, turn: UInt64)?] = []
  private var rest: Series?
  private var hasOthers = false

  /// Returns the series of `source`, which slot `slot` watches until ``release(_:)``.
  mutating func acquire(_ source: WatchedSource, slot: Int = 0) -> (place: Place, series: Series) {
    if slot < last.count, let last = last[slot], last.source == source, entries[last.place].turn == last.turn {
      entries[last.place].uses += 1
      entries[last.place].hasComeBack = true
      return (last.place, entries[last.place].series)
    }
    let (place, isNew) = place(of: source)
    if let place {
      entries[place].uses += 1
      if !isNew { entries[place].hasComeBack = true }
      while last.count <= slot { last.append(nil) }
      last[slot] = (source, place, entries[place].turn)
    }
    return (place, series(at: place))
  }

  mutating func release(_ place: Place) {
    guard let place else { return }
    entries[place].uses -= 1
    guard entries[place].uses == 0, !entries[place].isKept, !entries[place].isIdle else { return }
    entries[place].isIdle = true
    if entries[place].hasComeBack { idleOften.append(place) } else { idle.append(place) }
  }

  /// Keeps the series forever, even of a removed source.
  mutating func keep(_ source: WatchedSource) -> Series {
    let (place, _) = place(of: source)
    if let place { entries[place].isKept = true }
    return series(at: place)
  }

  /// The visible sources. The shared series is the last.
  var all: [(source: StallReport.Source, series: Series)] {
    let own = entries.filter(\.isShown).map { (StallReport.Source($0.source), $0.series) }
    guard hasOthers, let rest else { return own }
    return own + [(Self.others, rest)]
  }

  /// Escapes and truncates the name. Names that differ here must also differ in the output.
  static func abridged(_ source: WatchedSource) -> WatchedSource {
    var name = source.name
    if name.utf8.count > nameBytes {
      var kept = String.UnicodeScalarView()
      var bytes = 0
      for scalar in name.unicodeScalars {
        bytes += UTF8.width(scalar)
        if bytes > nameBytes { break }
        kept.append(scalar)
      }
      name = String(kept) + "…"
    }
    return WatchedSource(kind: source.kind, name: printable(name))
  }

  private mutating func place(of source: WatchedSource) -> (place: Place, isNew: Bool) {
    let shown = Self.abridged(source)
    if let place = places[shown] { return (place, false) }
    if entries.count < Self.capacity {
      entries.append(Entry(source: shown, series: Self.newSeries()))
      places[shown] = entries.count - 1
      return (entries.count - 1, true)
    }
    guard let place = takeIdle() else {
      hasOthers = true
      return (nil, true)
    }
    places[entries[place].source] = nil
    entries[place] = Entry(source: shown, series: entries[place].series, turn: entries[place].turn + 1)
    places[shown] = place
    return (place, true)
  }

  private mutating func takeIdle() -> Int? {
    while !idle.isEmpty {
      let place = idle.removeFirst()
      if entries[place].hasComeBack {
        idleOften.append(place)
      } else if isFree(place) {
        return place
      }
    }
    while !idleOften.isEmpty {
      let place = idleOften.removeFirst()
      if isFree(place) { return place }
    }
    return nil
  }

  /// Whether entry `place`, just removed from the idle lists, is unused.
  private mutating func isFree(_ place: Int) -> Bool {
    entries[place].isIdle = false
    guard entries[place].uses == 0, !entries[place].isKept else { return false }
    let isEmpty = observer_series_is_empty(entries[place].series.counts)
    if !isEmpty { entries[place].isKept = true }
    return isEmpty
  }

  private mutating func series(at place: Place) -> Series {
    if let place { return entries[place].series }
    let series = rest ?? Self.newSeries()
    rest = series
    return series
  }

  private static func newSeries() -> Series {
    let size = MemoryLayout<observer_series>.size
    let memory = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 64)
    let counts = memory.bindMemory(to: observer_series.self, capacity: 1)
    counts.initialize(to: observer_series())
    return Series(counts: counts)
  }
}

extension StallReport.Source.Kind {
  static let others = Self(rawValue: "others")
}
