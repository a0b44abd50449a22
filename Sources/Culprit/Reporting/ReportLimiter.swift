import CulpritStallRecord

struct ReportLimiter {
  enum Decision: Equatable {
    /// `repeats` stalls with the same culprit were counted since the last report.
    case report(repeats: Int)
    case count
  }

  private struct Culprit: Hashable {
    var source: WatchedSource
    var function: String
  }

  private struct History {
    var reports: [UInt64] = []
    var counted = 0
  }

  private static let minute: UInt64 = 60_000_000_000
  private static let culpritsMax = 1024

  private let perMinute: Int
  private let perCulprit: Int
  private var all: [UInt64] = []
  private var histories: [Culprit: History] = [:]
  private(set) var counted: UInt64 = 0

  init(perMinute: Int, perCulprit: Int) {
    self.perMinute = perMinute
    self.perCulprit = perCulprit
  }

  /// Decides on a stall at the time `now` in nanoseconds. A group gets at most one report a minute.
  ///
  /// `unrecorded` stalls of a group are only counted.
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
