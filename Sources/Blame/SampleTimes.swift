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

  /// When samples were taken, or a thread was there.
  typealias Presence = (begin: Duration, end: Duration)

  /// Where one of several threads was whose samples are at `ages`, among all that are at `others`: one that came later, or went,
  /// stands for the time in which it was there.
  static func presence(of ages: Presence, among others: Presence, _ stall: Stall, duration: Duration) -> Presence {
    let doubt = stall.threshold / neighbours
    return (
      begin: ages.begin - doubt <= others.begin ? unwatched(stall) : min(ages.begin, duration),
      end: ages.end + doubt >= others.end ? duration : min(ages.end, duration)
    )
  }

  /// What the times of several threads, which come to `sum`, are multiplied with to be the stall's.
  static func scale(of sum: Duration, _ stall: Stall, duration: Duration) -> Double {
    sum > .zero ? (duration - unwatched(stall)).inSeconds / sum.inSeconds : 0
  }

  /// Where samples at `ages`, of one thread, are in `presence`.
  private static func ofThread(_ stall: Stall, _ ages: [Duration], in presence: Presence)
    -> (spans: [Range<Duration>], unobserved: Duration)
  {
    var iterator = Spans(stall, ages.makeIterator(), count: ages.count, in: presence)
    var spans: [Range<Duration>] = []
    spans.reserveCapacity(ages.count)
    var unobserved = Duration.zero
    while let (span, left) = iterator.next() {
      spans.append(span)
      unobserved += left
    }
    return (spans, unobserved)
  }

  /// Goes through the samples of one thread in order of time: where each of them is in the stall, and how much of the time nearest to
  /// it nobody stands for. No more of them are in memory than those around one.
  struct Spans<Ages: IteratorProtocol<Duration>>: IteratorProtocol {
    private var ages: Ages
    private let count: Int
    private let presence: Presence
    /// Whether samples are missing anywhere, and whether the file may have been cut off, which it need not show: while a stall goes on
    /// there are samples.
    private let areMissing: Bool
    private let mayEndEarly: Bool
    private let fallback: Duration
    /// The ages around the next one, from the one with the number `first` on.
    private var near: [Duration] = []
    private var first = 0
    private var number = 0

    /// The samples of `stall` at `ages`, `count` of them, of a thread that was there in `presence`.
    init(_ stall: Stall, _ ages: Ages, count: Int, in presence: Presence) {
      (self.ages, self.count, self.presence) = (ages, count, presence)
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

    /// How far samples are apart around the next one: the middle one of the gaps there. Where there are too few to tell, ``fallback``
    /// at most.
    private func gap() -> Duration {
      let first = max(1, number - SampleTimes.neighbours + 1)
      let last = min(count - 1, number + SampleTimes.neighbours)
      guard first <= last else { return fallback }
      let gaps = (first...last).map { near[$0 - self.first] - near[$0 - self.first - 1] }.sorted()
      let middle = gaps[gaps.count / 2]
      return gaps.count < SampleTimes.neighbours ? min(middle, fallback) : middle
    }
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

  /// How long the work had taken when its watch began: nobody can be blamed for that time.
  static func unwatched(_ stall: Stall) -> Duration {
    stall.notes.last { $0.kind == .unwatched }?.time ?? .zero
  }
}

extension Stall {
  /// How long it took, where the last sample is of the time `last`.
  ///
  /// Of a stall that has ended that is no matter: who ends work may be held up between taking the time and saying that it is over,
  /// and who looks meanwhile is late. Of one that has not the last sample may be newer than what else is known.
  func length(withSamplesUntil last: Duration?) -> Duration { hasEnded ? duration : max(duration, last ?? .zero) }
}

extension Range<Duration> {
  /// The time between its bounds.
  var length: Duration { upperBound - lowerBound }
}
