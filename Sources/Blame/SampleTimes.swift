import CulpritStallRecord

/// How much of a stall each of its samples stands for.
///
/// An instant belongs to the sample nearest to it. Where several threads worked on what stalled, each instant of each of them
/// does, and all together are the stall. Where samples are missing, nobody can say what it belongs to: a sample stands for
/// little more time than the samples around it do.
struct SampleTimes {
  /// For each sample the time that it stands for.
  let all: [Duration]
  /// Where each of them is in the stall, by the age of the work. Of several threads they are there at the same time, and each is
  /// longer than its time.
  let spans: [Range<Duration>]
  /// How much of the stall nobody stands for.
  let unobserved: Duration
  /// What a length of ``spans`` is multiplied with to be a time.
  let scale: Double

  /// So many gaps around a sample tell how far samples are apart.
  private static let neighbours = 8

  /// A sample stands for as much time to each side as so many of these gaps.
  private static let reach = 4

  /// The times of `samples`, which are those of `stall`, those of each thread in order of time; it took `duration`.
  init(of stall: Stall, _ samples: [Sample], duration: Duration) {
    let start = Self.unwatched(stall)
    let threads = Dictionary(grouping: samples.indices) { samples[$0].threadID }.values
    guard threads.count > 1, let first = samples.map(\.age).min(), let last = samples.map(\.age).max() else {
      (spans, unobserved) = Self.ofThread(stall, samples.map(\.age), from: start, to: duration)
      all = spans.map(\.length)
      scale = 1
      return
    }
    // A thread that came later, or went, stands for the time in which it was there.
    let doubt = stall.threshold / Self.neighbours
    var spans = [Range<Duration>](repeating: .zero..<(.zero), count: samples.count)
    var (unobserved, sum) = (Duration.zero, Duration.zero)
    for places in threads {
      let ages = places.map { samples[$0].age }
      let begin = ages[0] - doubt <= first ? start : ages[0]
      let end = ages[ages.count - 1] + doubt >= last ? duration : ages[ages.count - 1]
      let times = Self.ofThread(stall, ages, from: begin, to: end)
      for (place, span) in zip(places, times.spans) { spans[place] = span }
      unobserved += times.unobserved
      sum += times.spans.reduce(times.unobserved) { $0 + $1.length }
    }
    let scale = sum > .zero ? (duration - start).inSeconds / sum.inSeconds : 0
    self.spans = spans
    self.scale = scale
    all = spans.map { $0.length * scale }
    self.unobserved = unobserved * scale
  }

  /// Where samples at `ages`, of one thread, are between `start` and `duration`.
  private static func ofThread(_ stall: Stall, _ ages: [Duration], from start: Duration, to duration: Duration)
    -> (spans: [Range<Duration>], unobserved: Duration)
  {
    let whole = Self.spans(ages, from: start, to: duration)
    let areMissing = stall.lostSamples > 0 || stall.isDamaged
    // A file that was cut off may not show it: while a stall goes on there are samples.
    let mayEndEarly = ages.count > Self.neighbours
    guard areMissing || mayEndEarly, !ages.isEmpty else {
      return (whole, .zero)
    }
    var spans: [Range<Duration>] = []
    for index in ages.indices {
      let reach = Self.gap(around: index, ages, fallback: stall.threshold / Self.neighbours) * Self.reach
      var begin = index == 0 ? start : (ages[index - 1] + ages[index]) / 2
      var end = index == ages.count - 1 ? duration : (ages[index] + ages[index + 1]) / 2
      if areMissing { begin = max(begin, ages[index] - reach) }
      if areMissing || index == ages.count - 1 { end = min(end, ages[index] + reach) }
      spans.append(begin..<max(begin, end))
    }
    return (spans, whole.reduce(.zero) { $0 + $1.length } - spans.reduce(.zero) { $0 + $1.length })
  }

  /// The times between the middles of `ages`: the first has all from `start` on, the last all before `end`.
  static func between(_ ages: [Duration], from start: Duration, to end: Duration) -> [Duration] {
    spans(ages, from: start, to: end).map(\.length)
  }

  private static func spans(_ ages: [Duration], from start: Duration, to end: Duration) -> [Range<Duration>] {
    ages.indices.map { index in
      let begin = index == 0 ? start : (ages[index - 1] + ages[index]) / 2
      let end = index == ages.count - 1 ? end : (ages[index] + ages[index + 1]) / 2
      return begin..<max(begin, end)
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

extension Range<Duration> {
  /// The time between its bounds.
  var length: Duration { upperBound - lowerBound }
}
