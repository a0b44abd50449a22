import CulpritStallRecord

/// How much of a stall each of its samples stands for.
///
/// An instant belongs to the sample nearest to it. Where samples are missing, nobody can say what it belongs to: a sample
/// stands for little more time than the samples around it do.
struct SampleTimes {
  /// For each sample the time that it stands for.
  let all: [Duration]
  /// How much of the stall nobody stands for.
  let unobserved: Duration

  /// So many gaps around a sample tell how far samples are apart.
  private static let neighbours = 8

  /// A sample stands for as much time to each side as so many of these gaps.
  private static let reach = 4

  /// The times of `samples`, which are those of `stall` in order of time; it took `duration`.
  init(of stall: Stall, _ samples: [Sample], duration: Duration) {
    let start = Self.unwatched(stall)
    let ages = samples.map(\.age)
    let whole = Self.between(ages, from: start, to: duration)
    let areMissing = stall.lostSamples > 0 || stall.isDamaged
    // A file that was cut off may not show it: while a stall goes on there are samples.
    let mayEndEarly = samples.count > Self.neighbours
    guard areMissing || mayEndEarly, !samples.isEmpty else {
      all = whole
      unobserved = .zero
      return
    }
    var times: [Duration] = []
    for index in ages.indices {
      let reach = Self.gap(around: index, ages, fallback: stall.threshold / Self.neighbours) * Self.reach
      var begin = index == 0 ? start : (ages[index - 1] + ages[index]) / 2
      var end = index == ages.count - 1 ? duration : (ages[index] + ages[index + 1]) / 2
      if areMissing { begin = max(begin, ages[index] - reach) }
      if areMissing || index == ages.count - 1 { end = min(end, ages[index] + reach) }
      times.append(max(.zero, end - begin))
    }
    all = times
    unobserved = whole.reduce(.zero, +) - times.reduce(.zero, +)
  }

  /// The times between the middles of `ages`: the first has all from `start` on, the last all before `end`.
  static func between(_ ages: [Duration], from start: Duration, to end: Duration) -> [Duration] {
    ages.indices.map { index in
      let begin = index == 0 ? start : (ages[index - 1] + ages[index]) / 2
      let end = index == ages.count - 1 ? end : (ages[index] + ages[index + 1]) / 2
      return max(.zero, end - begin)
    }
  }

  /// How far samples are apart around that with the number `index`: the middle one of the gaps there. Where there are too few
  /// to tell, `fallback` at most.
  private static func gap(around index: Int, _ ages: [Duration], fallback: Duration) -> Duration {
    let first = max(1, index - neighbours + 1)
    let last = min(ages.count - 1, index + neighbours)
    guard first <= last else { return fallback }
    let gaps = (first...last).map { ages[$0] - ages[$0 - 1] }.sorted()
    let middle = gaps[gaps.count / 2]
    return gaps.count < neighbours ? min(middle, fallback) : middle
  }

  /// How long the work had taken when its watch began: nobody can be blamed for that time.
  static func unwatched(_ stall: Stall) -> Duration {
    stall.notes.last { $0.kind == .unwatched }?.time ?? .zero
  }
}
