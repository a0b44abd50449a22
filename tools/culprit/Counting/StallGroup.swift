import CulpritReports
import CulpritStallRecord

/// A property by which stalls are grouped.
package enum Grouping: String, CaseIterable, Sendable {
  case culprit
  case cause
  case source
  case service
  case host
  case version

  package var meaning: String {
    switch self {
    case .culprit: "culprit"
    case .cause: "the reason for the stall"
    case .source: "the stalled source"
    case .service: "the executable"
    case .host: "the host"
    case .version: "the build-id of the executable"
    }
  }

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

package struct Tally: Hashable, Sendable {
  private var counts: [String: Int] = [:]

  /// Names with counts, most frequent first.
  package var all: [(name: String, count: Int)] {
    counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { ($0.key, $0.value) }
  }

  package var first: String? { all.first?.name }

  /// Ignores an empty name, which means unknown.
  mutating func add(_ name: String) { if !name.isEmpty { counts[name, default: 0] += 1 } }

  mutating func add(_ other: Tally) { counts.merge(other.counts, uniquingKeysWith: +) }
}

package struct StallGroup: Hashable, Sendable {
  package let key: String
  /// Number of stalls, including unrecorded ones.
  package private(set) var count = 0
  package private(set) var total = Duration.zero
  package private(set) var worst: CountedStall
  /// The stall that began last. Its culprit has the newest build's line numbers.
  package private(set) var newest: CountedStall
  package private(set) var firstSeen: StallReport.Timestamp
  package private(set) var causes = Tally()
  package private(set) var sources = Tally()
  package private(set) var hosts = Tally()
  package private(set) var versions = Tally()
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
    // Breaks ties by start, host and ID.
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

  package var lastSeen: StallReport.Timestamp { newest.began }
}

package struct StallGroups: Hashable, Sendable {
  package let grouping: Grouping
  /// Sorted by descending total duration.
  package let groups: [StallGroup]
  /// Number of stalls, including unrecorded ones.
  package let count: Int
  package let total: Duration
  package let span: ClosedRange<StallReport.Timestamp>?

  /// `stalls` must not contain duplicates.
  package init(_ stalls: [CountedStall], by grouping: Grouping = .culprit) {
    self.grouping = grouping
    var groups: [String: StallGroup] = [:]
    for stall in stalls {
      let key = grouping.key(of: stall)
      // Updates the group in place. Copying its tallies for each stall would be slow.
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
