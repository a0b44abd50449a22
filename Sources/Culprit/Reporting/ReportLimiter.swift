import CulpritStallRecord

/// Decides which stalls are reported and which are only counted. Reads no clock, so that tests drive time.
struct ReportLimiter {
  enum Decision: Equatable {
    /// The stall is to be reported; so many of the same culprit were counted since the one before it.
    case report(repeats: Int)
    /// The stall is counted.
    case count
  }

  private struct Culprit: Hashable {
    var source: WatchedSource
    var function: String
  }

  private struct History {
    /// When the reports of the last minute were made.
    var reports: [UInt64] = []
    /// Stalls that were counted since the last one.
    var counted = 0
  }

  private static let minute: UInt64 = 60_000_000_000
  /// So many culprits are remembered.
  private static let culpritsMax = 1024

  private let perMinute: Int
  private let perCulprit: Int
  private var all: [UInt64] = []
  private var histories: [Culprit: History] = [:]
  /// How many stalls were counted in all.
  private(set) var counted: UInt64 = 0

  /// Allows `perMinute` reports in any minute, and `perCulprit` with the same source and culprit.
  init(perMinute: Int, perCulprit: Int) {
    self.perMinute = perMinute
    self.perCulprit = perCulprit
  }

  /// Decides on a stall of `source` for which `culprit` is to blame, empty for nobody, at the time `now`. A stall that
  /// stands for a group is reported once a minute; `unrecorded` stalls of the group are only counted.
  mutating func decide(
    source: WatchedSource,
    culprit: String,
    isGroup: Bool = false,
    unrecorded: Int = 0,
    now: UInt64
  ) -> Decision {
    let key = Culprit(source: source, function: culprit)
    func isRecent(_ time: UInt64) -> Bool { now &- time < Self.minute }
    all.removeAll { !isRecent($0) }
    var history = histories[key] ?? History()
    history.reports.removeAll { !isRecent($0) }
    let decision: Decision
    counted &+= UInt64(max(0, unrecorded))
    if all.count < perMinute, history.reports.count < (isGroup ? min(1, perCulprit) : perCulprit) {
      decision = .report(repeats: history.counted)
      all.append(now)
      history.reports.append(now)
      history.counted = 0
    } else {
      decision = .count
      history.counted += 1 + unrecorded
      counted += 1
    }
    if histories.count >= Self.culpritsMax, histories[key] == nil {
      histories = histories.filter { $0.value.reports.contains(where: isRecent) }
      if histories.count >= Self.culpritsMax { histories = [:] }
    }
    histories[key] = history
    return decision
  }
}
