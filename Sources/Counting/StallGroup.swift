import CulpritReports
import CulpritStallRecord

/// What stalls are counted by.
package enum Grouping: String, CaseIterable, Sendable {
  /// By their signatures: one problem each.
  case culprit
  /// By why the work did not go on for most of the time.
  case cause
  /// By what stalled.
  case source
  /// By the executable.
  case service
  /// By the host.
  case host
  /// By the build that ran.
  case version

  /// What stalls of one group have in common, in some words.
  package var meaning: String {
    switch self {
    case .culprit: "who is to blame"
    case .cause: "why the work did not go on"
    case .source: "what stalled"
    case .service: "the executable"
    case .host: "the host"
    case .version: "the build-id of the executable"
    }
  }

  /// What `stall` is counted as.
  func key(of stall: CountedStall) -> String {
    let name =
      switch self {
      case .culprit: stall.signature
      case .cause: stall.causeKind
      case .source: stall.sourceText
      case .service: stall.service
      case .host: stall.host
      case .version: stall.version
      }
    return name.isEmpty ? StallSelection.unknown : name
  }
}

/// How often each of some names was counted.
package struct Tally: Hashable, Sendable {
  private var counts: [String: Int] = [:]

  /// The names and how often each was counted, the most frequent first.
  package var all: [(name: String, count: Int)] {
    counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, $0.value) }
  }

  /// The name that was counted most often.
  package var first: String? { all.first?.name }

  /// Counts `name`, unless it is empty: not known.
  mutating func add(_ name: String) { if !name.isEmpty { counts[name, default: 0] += 1 } }

  /// Counts what `other` has counted.
  mutating func add(_ other: Tally) { counts.merge(other.counts, uniquingKeysWith: +) }
}

/// Stalls that are counted as one.
package struct StallGroup: Hashable, Sendable {
  /// What they have in common.
  package let key: String
  /// How many they are.
  package private(set) var count = 0
  /// How long they took together.
  package private(set) var total = Duration.zero
  /// The longest of them.
  package private(set) var worst: CountedStall
  /// The one that began last: its culprit has the lines of the newest build.
  package private(set) var newest: CountedStall
  /// When the first of them began.
  package private(set) var firstSeen: StallReport.Timestamp
  /// Their causes.
  package private(set) var causes = Tally()
  /// What stalled.
  package private(set) var sources = Tally()
  /// The hosts that they were on.
  package private(set) var hosts = Tally()
  /// The builds that ran.
  package private(set) var versions = Tally()
  /// What the application had said of the work.
  package private(set) var labels = Tally()

  init(key: String, _ stall: CountedStall) {
    self.key = key
    worst = stall
    newest = stall
    firstSeen = stall.began
    add(stall)
  }

  mutating func add(_ stall: CountedStall) {
    count = count.saturatingSum(1).saturatingSum(stall.unrecordedCount)
    total += stall.duration + stall.unrecordedTime
    // Of equal ones always the same, in whatever order they come.
    let order = (stall.began, stall.host, stall.id)
    if stall.duration > worst.duration
      || stall.duration == worst.duration && order > (worst.began, worst.host, worst.id)
    {
      worst = stall
    }
    if order > (newest.began, newest.host, newest.id) { newest = stall }
    firstSeen = min(firstSeen, stall.began)
    causes.add(stall.causeKind)
    sources.add(stall.sourceText)
    hosts.add(stall.host)
    versions.add(stall.version)
    for label in stall.labels { labels.add(label) }
  }

  /// When the last of them began.
  package var lastSeen: StallReport.Timestamp { newest.began }
}

/// Some stalls, counted.
package struct StallGroups: Hashable, Sendable {
  /// What they are counted by.
  package let grouping: Grouping
  /// The groups, those first that took most of the time.
  package let groups: [StallGroup]
  /// How many stalls there are.
  package let count: Int
  /// How long they took together.
  package let total: Duration
  /// When the first and the last of them began; `nil` where there is none.
  package let span: ClosedRange<StallReport.Timestamp>?

  /// Counts `stalls`, each of which is there once, by `grouping`.
  package init(_ stalls: [CountedStall], by grouping: Grouping = .culprit) {
    self.grouping = grouping
    var groups: [String: StallGroup] = [:]
    for stall in stalls {
      let key = grouping.key(of: stall)
      // In its place: a copy of all the tallies for each stall takes long.
      if groups[key]?.add(stall) == nil { groups[key] = StallGroup(key: key, stall) }
    }
    self.groups = groups.values.sorted { ($1.total, $1.count, $0.key) < ($0.total, $0.count, $1.key) }
    count = stalls.reduce(0) { $0.saturatingSum(1).saturatingSum($1.unrecordedCount) }
    total = stalls.reduce(.zero) { $0 + $1.duration + $1.unrecordedTime }
    let first = stalls.lazy.map(\.began).min()
    let last = stalls.lazy.map(\.began).max()
    span = first.flatMap { first in last.map { first...$0 } }
  }
}
