import CulpritStallRecord

/// Adds missing outermost frames from similar stacks near in time, so that callers do not lose the stack's time.
enum CutStacks {
  /// Number of searched neighbours on each side.
  static let reach = 16
  /// Maximum likeness, in common functions.
  private static let likeness = 3

  private static let compared = 64

  struct Match {
    var likeness: Int
    var callers: Int
  }

  /// Completes stacks for which `isCut` is true. `stacks` must be in order of time. Returns the indices of the
  /// completed stacks.
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

  /// Returns the stack that completes stack `number` of `count`, and the number of outer frames to copy. Prefers the
  /// most similar stack, then the nearest.
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

  /// Finds the functions of `cut`, from its outermost one on, as consecutive functions in `whole`. Returns the length
  /// of the match and the number of frames before it. Prefers the longest match, then the innermost.
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
