import CulpritStallRecord

enum Recursion {
  private static let cycleMax = 8

  /// Folds consecutive repetitions in `frames`, which is ordered outermost first.
  static func folded(_ frames: [WeightedStack.Frame]) -> [(frame: WeightedStack.Frame, count: Int)] {
    var result: [(frame: WeightedStack.Frame, count: Int)] = []
    result.reserveCapacity(frames.count)
    var place = 0
    while place < frames.count {
      let (length, count) = cycle(in: frames, at: place)
      for offset in 0..<length { result.append((frames[place + offset], offset == 0 ? count : 1)) }
      place += length * count
    }
    return result
  }

  private static func cycle(in frames: [WeightedStack.Frame], at place: Int) -> (length: Int, count: Int) {
    let left = frames.count - place
    guard left > 1 else { return (1, 1) }
    for length in 1...min(cycleMax, left) {
      var count = 1
      while place + (count + 1) * length <= frames.count,
        (0..<length).allSatisfy({ frames[place + $0].identity == frames[place + count * length + $0].identity })
      {
        count += 1
      }
      if count > 1 { return (length, count) }
    }
    return (1, 1)
  }
}
