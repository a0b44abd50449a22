import CCulpritObserver
import CulpritReports
import CulpritStallRecord

/// The numbers of a source, or of all that found no room in the table.
struct Series: @unchecked Sendable {
  // SAFETY: its memory is never freed, and every field is atomic.
  let counts: UnsafeMutablePointer<observer_series>
}

/// Which series of numbers belongs to which source: one for each kind and name, as long as there is room.
///
/// Sources come and go by the thousand, and their numbers must never go down. What has counted something keeps its
/// series for ever, and goes on with it when a source of that name comes back. What has counted nothing leaves its
/// series to others, first if it came only once: sections may be named after what they are about. Sources that find none
/// share one.
///
/// It takes no lock; ``SlotRegistry`` has it behind its own. In a child of fork(2) there is a new one.
struct SeriesTable {
  /// The most sources with a series of their own: what a page of a dashboard and a scrape can bear.
  static let capacity = 256
  /// How many bytes of a name tell sources apart.
  static let nameBytes = 200
  /// What all others are called.
  static let others = StallReport.Source(kind: .others, name: "others")

  /// A place in the table; `nil` stands for what all others share.
  typealias Place = Int?

  private struct Entry {
    /// The source by the name it has here.
    var source: WatchedSource
    var series: Series
    /// How many watched sources count here.
    var uses = 0
    /// Whether a source has come here more than once.
    var hasComeBack = false
    /// Whether it has counted something, or may at any time.
    var isKept = false
    /// How many sources have had the place before.
    var turn: UInt64 = 0
    /// Whether it waits in ``idle`` or ``idleOften``.
    var isIdle = false

    /// Whether it is to be seen. A section that is entered once and is never late is not: there may be a new name for each
    /// request, and whoever keeps the numbers keeps every name. The others are seen before they count: of a number that is
    /// not 0 when it is first seen nobody knows how much is new.
    var isShown: Bool {
      isKept || hasComeBack || uses > 0 && source.kind != .section || !observer_series_is_empty(series.counts)
    }
  }

  private var entries: [Entry] = []
  private var places: [WatchedSource: Int] = [:]
  /// Places that nobody used when they came here, the oldest first; and those that have been used more than once.
  private var idle: [Int] = []
  private var idleOften: [Int] = []
  /// What each slot has watched last, and its place then: sections are entered over and over, and looking for a name
  /// takes longer than all the rest of their begin.
  private var last: [(source: WatchedSource, place: Int, turn: UInt64)?] = []
  private var rest: Series?
  private var hasOthers = false

  /// The series of `source`, which slot `slot` watches until ``release(_:)``.
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

  /// Nobody counts at `place` any more who has acquired it once.
  mutating func release(_ place: Place) {
    guard let place else { return }
    entries[place].uses -= 1
    guard entries[place].uses == 0, !entries[place].isKept, !entries[place].isIdle else { return }
    entries[place].isIdle = true
    if entries[place].hasComeBack { idleOften.append(place) } else { idle.append(place) }
  }

  /// The series of `source`, which may have gone, for good.
  mutating func keep(_ source: WatchedSource) -> Series {
    let (place, _) = place(of: source)
    if let place { entries[place].isKept = true }
    return series(at: place)
  }

  /// The sources that are to be seen, and their series; what all others share comes last.
  var all: [(source: StallReport.Source, series: Series)] {
    let own = entries.filter(\.isShown).map { (StallReport.Source($0.source), $0.series) }
    guard hasOthers, let rest else { return own }
    return own + [(Self.others, rest)]
  }

  /// What `source` is called here: without characters that would act on a terminal, and no longer than need be. Two
  /// sources must not differ here and be alike where they are shown.
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

  /// Where `source` counts, and whether it does from now on only.
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

  /// A place that has counted nothing and that nobody uses.
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

  /// Whether the place, which has just been taken from those that are idle, can be another source's.
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
  /// Sources of any kind, counted together.
  static let others = Self(rawValue: "others")
}
