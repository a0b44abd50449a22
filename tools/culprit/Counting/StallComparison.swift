import CulpritReports
import CulpritStallRecord

/// Changes of problems between two sets of stalls.
package struct StallComparison: Hashable, Sendable {
  package struct Side: Hashable, Sendable {
    package var groups: StallGroups
    /// The time for which services were watched; `nil` if unknown.
    package var watched: Duration?

    package init(_ stalls: [CountedStall], watched: Duration?) {
      groups = StallGroups(stalls)
      self.watched = watched
    }
  }

  package enum Change: String, Hashable, Sendable {
    case new
    case worse
    case same
    case better
    case gone
  }

  /// A problem in one or both sets.
  package struct Entry: Hashable, Sendable {
    package var signature: String
    package var before: StallGroup?
    package var after: StallGroup?
    package var change: Change
    /// Change per hour if ``StallComparison/isPerHour``, otherwise of the total.
    package var difference: Duration

    package var newest: CountedStall? { after?.newest ?? before?.newest }
  }

  package let before: Side
  package let after: Side
  /// Whether times are compared per hour. Requires a known watched time on both sides.
  package let isPerHour: Bool
  /// Problems, from the largest increase to the largest decrease.
  package let entries: [Entry]

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
