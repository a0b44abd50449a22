import CulpritReports
import CulpritStallRecord

/// Changes of problems between two sets of stalls, such as those of two builds or two days.
package struct StallComparison: Hashable, Sendable {
  /// One of the two sets.
  package struct Side: Hashable, Sendable {
    /// The stalls, grouped by signature.
    package var groups: StallGroups
    /// The time for which services were watched; `nil` if unknown.
    package var watched: Duration?

    /// Creates a set of `stalls` from services that were watched for `watched`.
    package init(_ stalls: [CountedStall], watched: Duration?) {
      groups = StallGroups(stalls)
      self.watched = watched
    }
  }

  /// The change of a problem.
  package enum Change: String, Hashable, Sendable {
    /// The problem is new.
    case new
    /// The problem takes more time.
    case worse
    /// The problem takes equally much time.
    case same
    /// The problem takes less time.
    case better
    /// The problem is gone.
    case gone
  }

  /// A problem in both sets.
  package struct Entry: Hashable, Sendable {
    /// The signature of the problem.
    package var signature: String
    /// The stalls of the problem in the first set; `nil` if there are none.
    package var before: StallGroup?
    /// The stalls of the problem in the second set; `nil` if there are none.
    package var after: StallGroup?
    /// The change of the problem.
    package var change: Change
    /// The additional time the problem takes: per hour if ``StallComparison/isPerHour``, otherwise in total.
    package var difference: Duration

    /// The newest stall of the problem.
    package var newest: CountedStall? { after?.newest ?? before?.newest }
  }

  /// The first set.
  package let before: Side
  /// The second set.
  package let after: Side
  /// Whether times are compared per hour, because the watched time of both sets is known.
  package let isPerHour: Bool
  /// The problems, from the largest increase to the largest decrease.
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
