import CulpritStallRecord

/// Gives stacks whose callers are missing those of a stack near to them that went through the same functions.
///
/// Without it the time of what cannot be unwound is taken away from whoever spent it. What shares no function with its
/// neighbours stays as it is: nobody's, and not a caller's.
enum CutStacks {
  /// A neighbour is one of so many samples before or after.
  private static let reach = 16
  /// So many functions in common make two stacks alike; more make no difference.
  private static let likeness = 3

  /// Completes those of `stacks`, which are in order of time, that `isCut`. Returns the numbers of those that were.
  static func complete(_ stacks: inout [WeightedStack], isCut: [Bool]) -> Set<Int> {
    var completed: [Int: [WeightedStack.Frame]] = [:]
    for number in stacks.indices where isCut[number] {
      let cut = stacks[number].frames
      var best: (likeness: Int, distance: Int, callers: ArraySlice<WeightedStack.Frame>)?
      for other in max(0, number - reach)...min(stacks.count - 1, number + reach) where !isCut[other] {
        guard let (common, callers) = match(cut, in: stacks[other].frames) else { continue }
        let (likeness, distance) = (min(common, likeness), abs(other - number))
        if let best, (best.likeness, -best.distance) >= (likeness, -distance) { continue }
        best = (likeness, distance, callers)
      }
      if let best { completed[number] = best.callers + cut }
    }
    for (number, frames) in completed { stacks[number].frames = frames }
    return Set(completed.keys)
  }

  /// How many functions of `cut`, from its outermost one on, are in `whole` in the same order, and what comes before them
  /// there.
  private static func match(
    _ cut: [WeightedStack.Frame],
    in whole: [WeightedStack.Frame]
  ) -> (common: Int, callers: ArraySlice<WeightedStack.Frame>)? {
    guard let first = cut.first, let place = whole.lastIndex(where: { $0.identity == first.identity }) else {
      return nil
    }
    let common = zip(cut, whole[place...]).prefix { $0.identity == $1.identity }.count
    return (common, whole[..<place])
  }
}
