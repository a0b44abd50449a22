import CulpritReports
import CulpritStallRecord

/// What has become of each problem between two sets of stalls: those of two builds, say, or of two days.
package struct StallComparison: Hashable, Sendable {
  /// One of the two sets.
  package struct Side: Hashable, Sendable {
    /// Its stalls, by their signatures.
    package var groups: StallGroups
    /// For how long services were watched; `nil` if unknown.
    package var watched: Duration?

    /// What `stalls` are, while services were watched for `watched`.
    package init(_ stalls: [CountedStall], watched: Duration?) {
      groups = StallGroups(stalls)
      self.watched = watched
    }
  }

  /// What has become of a problem.
  package enum Change: String, Hashable, Sendable {
    /// It was not there before.
    case new
    /// It takes more time than before.
    case worse
    /// It takes as much.
    case same
    /// It takes less.
    case better
    /// It is not there any more.
    case gone
  }

  /// A problem, before and after.
  package struct Entry: Hashable, Sendable {
    /// Its signature.
    package var signature: String
    /// Its stalls before; `nil` where there were none.
    package var before: StallGroup?
    /// Its stalls after; `nil` where there were none.
    package var after: StallGroup?
    /// What has become of it.
    package var change: Change
    /// How much more time it takes: in an hour where ``StallComparison/isPerHour``, else in all.
    package var difference: Duration

    /// A stall of it: the newest.
    package var newest: CountedStall? { after?.newest ?? before?.newest }
  }

  /// The first set.
  package let before: Side
  /// The second.
  package let after: Side
  /// Whether times are compared by the hour: of both sets it is known for how long services were watched.
  package let isPerHour: Bool
  /// The problems, from the one that takes most more time to the one that takes most less.
  package let entries: [Entry]

  /// Compares `before` with `after`.
  package init(_ before: Side, _ after: Side) {
    self.before = before
    self.after = after
    let hours = [before.watched, after.watched].compactMap { $0?.inSeconds }.filter { $0 > 0 }.map { $0 / 3600 }
    isPerHour = hours.count == 2
    func rate(_ group: StallGroup?, _ side: Int) -> Duration {
      let total = group?.total ?? .zero
      return hours.count == 2 ? total / hours[side] : total
    }
    let old = Dictionary(before.groups.groups.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })
    let new = Dictionary(after.groups.groups.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })
    entries = Set(old.keys).union(new.keys)
      .map { signature in
        let (left, right) = (old[signature], new[signature])
        let difference = rate(right, 1) - rate(left, 0)
        let change: Change
        switch (left, right) {
        case (nil, _): change = .new
        case (_, nil): change = .gone
        default: change = difference > .zero ? .worse : difference < .zero ? .better : .same
        }
        return Entry(signature: signature, before: left, after: right, change: change, difference: difference)
      }
      .sorted { ($1.difference, $0.signature) < ($0.difference, $1.signature) }
  }
}
