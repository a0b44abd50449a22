import CulpritStallRecord

/// Gives stacks whose callers are missing those of a stack near to them that went through the same functions.
///
/// Without it the time of what cannot be unwound is taken away from whoever spent it. What shares no function with its
/// neighbours stays as it is: nobody's, and not a caller's.
enum CutStacks {
  /// A neighbour is one of so many samples before or after.
  static let reach = 16
  /// So many functions in common make two stacks alike; more make no difference.
  private static let likeness = 3

  /// So many functions tell the places of one that is in a stack several times from each other.
  private static let compared = 64

  /// How far a stack that is cut goes along with a whole one, and how many frames of that come before.
  struct Match {
    var likeness: Int
    var callers: Int
  }

  /// Completes those of `stacks`, which are in order of time, that `isCut`. Returns the numbers of those that were.
  static func complete(_ stacks: inout [WeightedStack], isCut: [Bool]) -> Set<Int> {
    var completed: [Int: [WeightedStack.Frame]] = [:]
    for number in stacks.indices where isCut[number] {
      let cut = stacks[number].frames
      let found = nearest(to: number, of: stacks.count, isWhole: { !isCut[$0] }) { other in
        match(cut, in: stacks[other].frames, by: \.identity)
      }
      if let found { completed[number] = stacks[found.number].frames[..<found.callers] + cut }
    }
    for (number, frames) in completed { stacks[number].frames = frames }
    return Set(completed.keys)
  }

  /// The stack whose callers stack number `number` of `count` gets, and how many of its frames these are: of those that are most
  /// like it, the nearest.
  static func nearest(
    to number: Int,
    of count: Int,
    isWhole: (Int) -> Bool,
    _ match: (Int) -> Match?
  ) -> (number: Int, callers: Int)? {
    var best: (match: Match, distance: Int, number: Int)?
    for other in max(0, number - reach)...min(count - 1, number + reach) where isWhole(other) {
      guard let match = match(other) else { continue }
      let distance = abs(other - number)
      if let best, (best.match.likeness, -best.distance) >= (match.likeness, -distance) { continue }
      best = (match, distance, other)
    }
    return best.map { ($0.number, $0.match.callers) }
  }

  /// How many functions of `cut`, from its outermost one on, are in `whole` in the same order, and how many come before them
  /// there. Where the outermost one is in it several times, that is where most go along, and of equal places the innermost.
  static func match<Frame, Identity: Equatable>(
    _ cut: [Frame],
    in whole: [Frame],
    by identity: (Frame) -> Identity
  ) -> Match? {
    guard let first = cut.first.map(identity) else { return nil }
    var best: (common: Int, place: Int)?
    for place in whole.indices where identity(whole[place]) == first {
      let common = zip(cut.prefix(compared), whole[place...]).prefix { identity($0) == identity($1) }.count
      if common >= best?.common ?? 0 { best = (common, place) }
    }
    return best.map { Match(likeness: min($0.common, likeness), callers: $0.place) }
  }
}
