import CulpritStallRecord

/// The time that each sample of a stall represents.
///
/// Each instant belongs to the nearest sample of each thread. The total of several threads is scaled to the stall.
/// A sample's span is limited by the sampling interval, so the time of missing samples belongs to no sample.
struct SampleTimes {
  let all: [Duration]
  /// The span of each sample, by the age of the work. Spans of different threads overlap.
  let spans: [Range<Duration>]
  let unobserved: Duration
  let scale: Double

  /// Number of gaps on each side that determine the sampling interval. Also the expected number of samples per
  /// threshold.
  private static let neighbours = 8

  /// Maximum extent of a sample to each side, in sampling intervals.
  private static let reach = 4

  init(of stall: Stall, _ samples: [Sample], duration: Duration) {
    let start = Self.unwatched(stall)
    let threads = Dictionary(grouping: samples.indices) { samples[$0].threadID }.values
    guard threads.count > 1, let first = samples.map(\.age).min(), let last = samples.map(\.age).max() else {
      (spans, unobserved) = Self.ofThread(stall, samples.map(\.age), in: (start, duration))
      all = spans.map(\.length)
      scale = 1
      return
    }
    var spans = [Range<Duration>](repeating: .zero..<(.zero), count: samples.count)
    var (unobserved, sum) = (Duration.zero, Duration.zero)
    for places in threads {
      let ages = places.map { samples[$0].age }
      let presence = Self.presence(of: (ages[0], ages[ages.count - 1]), among: (first, last), stall, duration: duration)
      let times = Self.ofThread(stall, ages, in: presence)
      for (place, span) in zip(places, times.spans) { spans[place] = span }
      unobserved += times.unobserved
      sum += times.spans.reduce(times.unobserved) { $0 + $1.length }
    }
    scale = Self.scale(of: sum, stall, duration: duration)
    self.spans = spans
    let scale = scale
    all = spans.map { $0.length * scale }
    self.unobserved = unobserved * scale
  }

  typealias Presence = (begin: Duration, end: Duration)

  /// Returns the presence of one of several threads, which can start late or end early. `ages` is the range of its
  /// samples, `others` of all samples.
  static func presence(of ages: Presence, among others: Presence, _ stall: Stall, duration: Duration) -> Presence {
    let clockError = stall.threshold / neighbours
    return (
      begin: ages.begin - clockError <= others.begin ? unwatched(stall) : min(ages.begin, duration),
      end: ages.end + clockError >= others.end ? duration : min(ages.end, duration)
    )
  }

  static func scale(of sum: Duration, _ stall: Stall, duration: Duration) -> Double {
    sum > .zero ? (duration - unwatched(stall)).inSeconds / sum.inSeconds : 0
  }

  private static func ofThread(_ stall: Stall, _ ages: [Duration], in presence: Presence)
    -> (spans: [Range<Duration>], unobserved: Duration)
  {
    var iterator = Spans(stall, ages, count: ages.count, in: presence)
    var spans: [Range<Duration>] = []
    spans.reserveCapacity(ages.count)
    var unobserved = Duration.zero
    while let (span, left) = iterator.next() {
      spans.append(span)
      unobserved += left
    }
    return (spans, unobserved)
  }

  /// Iterates over the samples of one thread in order of time.
  struct Spans<Ages: Sequence<Duration>>: IteratorProtocol {
    private var ages: Ages.Iterator
    private let count: Int
    private let presence: Presence
    private let areMissing: Bool
    private let mayEndEarly: Bool
    private let fallback: Duration
    private var near: [Duration] = []
    private var first = 0
    private var number = 0

    init(_ stall: Stall, _ ages: Ages, count: Int, in presence: Presence) {
      (self.ages, self.count, self.presence) = (ages.makeIterator(), count, presence)
      areMissing = stall.lostSamples > 0 || stall.isDamaged
      mayEndEarly = count > SampleTimes.neighbours
      fallback = stall.threshold / SampleTimes.neighbours
    }

    mutating func next() -> (span: Range<Duration>, unobserved: Duration)? {
      guard number < count else { return nil }
      defer { number += 1 }
      let end = min(count, number + SampleTimes.neighbours + 1)
      while first + near.count < end, let age = ages.next() { near.append(min(age, presence.end)) }
      if near.count >= 64 * SampleTimes.neighbours {
        let passed = max(0, number - SampleTimes.neighbours - first)
        near.removeFirst(passed)
        first += passed
      }
      let place = number - first
      let isLast = number == count - 1
      var begin = number == 0 ? presence.begin : (near[place - 1] + near[place]) / 2
      var until = isLast ? presence.end : (near[place] + near[place + 1]) / 2
      let whole = max(begin, until) - begin
      guard areMissing || (isLast && mayEndEarly) else { return (begin..<max(begin, until), .zero) }
      let reach = gap() * SampleTimes.reach
      if areMissing { begin = max(begin, near[place] - reach) }
      until = min(until, near[place] + reach)
      let span = begin..<max(begin, until)
      return (span, whole - span.length)
    }

    /// Returns the sampling interval around the next sample: the median gap.
    private func gap() -> Duration {
      let first = max(1, number - SampleTimes.neighbours + 1)
      let last = min(count - 1, number + SampleTimes.neighbours)
      guard first <= last else { return fallback }
      let gaps = (first...last).map { near[$0 - self.first] - near[$0 - self.first - 1] }.sorted()
      let middle = gaps[gaps.count / 2]
      return gaps.count < SampleTimes.neighbours ? min(middle, fallback) : middle
    }
  }

  static func unwatched(_ stall: Stall) -> Duration {
    stall.notes.last { $0.kind == .unwatched }?.time ?? .zero
  }
}

extension Stall {
  /// Returns the duration. `last` is the age of the last sample.
  ///
  /// In an ended stall, the last sample can be late, because the thread can be delayed before reporting the end. In an
  /// unfinished stall, the last sample can be newer than the recorded duration.
  func length(withSamplesUntil last: Duration?) -> Duration { hasEnded ? duration : max(duration, last ?? .zero) }
}

extension Range<Duration> {
  var length: Duration { upperBound - lowerBound }
}
