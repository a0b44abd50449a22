import CulpritStallRecord

/// What a stall was spent on, in order of time: stacks, times and completed callers are those that its verdict is made of.
package struct StallProfile {
  /// A part of the stall, and the stack that it belongs to.
  package struct Segment: Hashable, Sendable {
    /// The age of the work at its beginning and at its end, in nanoseconds.
    package var begin: UInt64
    package var end: UInt64
    /// How much of the stall it is, in nanoseconds: less than its length where several threads worked at once. The weights of all
    /// segments make up the stall.
    package var weight: UInt64
    /// The stack, as a place in ``ProfileStacks/stacks``.
    package var stack: Int
    /// The sample that says so, as a place in ``stall``'s; `nil` where none does.
    package var sample: Int?
  }

  /// What one thread did.
  package struct Track: Sendable {
    /// The thread.
    package var thread: ObservedThread
    /// What it did, in order of time. Of several threads one may have come later, or have gone.
    package var segments: [Segment]
  }

  /// The stall; of a pool whose threads were not followed, with those for samples that occupied it.
  package let stall: Stall
  /// How long it took, in nanoseconds.
  package let duration: UInt64
  /// Each thread that worked on what stalled; one at least.
  package private(set) var tracks: [Track] = []

  /// What the rounding of all times together may come to, in nanoseconds.
  private static let roundingMax: UInt64 = 1000

  /// What `observed` was spent on; its samples refer to the stacks that `stacks` were made of.
  package init(_ observed: Stall, _ stacks: ProfileStacks) {
    let stall = PoolOccupants.observed(observed, stacks.recorded, stacks.resolve)
    self.stall = stall
    let places = Observations.places(of: stall, stacks.recorded)
    // Nearly always all of them, which takes no memory once more.
    let samples = places.elementsEqual(stall.samples.indices) ? stall.samples : places.map { stall.samples[$0] }
    let whole = max(stall.duration, samples.map(\.age).max() ?? .zero)
    duration = whole.wholeNanoseconds
    let times = SampleTimes(of: stall, samples, duration: whole)
    let found = Self.stacks(of: samples, stacks)
    var shares = Shares(whole)
    var first = 0
    while first < samples.count {
      let end = samples[first...].firstIndex { $0.threadID != samples[first].threadID } ?? samples.count
      var segments: [Segment] = []
      var position = Duration.zero
      if tracks.isEmpty {
        position = SampleTimes.unwatched(stall)
        shares.append(.zero..<position, position, stacks.stack(saying: "(not watched yet)"), nil, to: &segments)
      } else {
        position = times.spans[first].lowerBound
      }
      for number in first..<end {
        let span = times.spans[number]
        if span.lowerBound > position {
          let gap = position..<span.lowerBound
          shares.append(gap, gap.length * times.scale, stacks.stack(saying: "(not observed)"), nil, to: &segments)
        }
        shares.append(span, times.all[number], found[number], places[number], to: &segments)
        position = max(position, span.upperBound)
      }
      // Of several threads one may have gone before the end.
      if samples[0].threadID == samples[samples.count - 1].threadID, position < whole {
        shares.append(position..<whole, whole - position, stacks.stack(saying: "(not observed)"), nil, to: &segments)
      }
      tracks.append(Track(thread: thread(samples[first].threadID), segments: segments))
      first = end
    }
    if tracks.isEmpty {
      var segments: [Segment] = []
      shares.append(.zero..<whole, whole, stacks.stack(saying: "(no stack: no sample was taken)"), nil, to: &segments)
      tracks = [Track(thread: stall.thread, segments: segments)]
    }
    let left = duration - shares.given
    let track = tracks.count - 1
    if left > Self.roundingMax, let end = tracks[track].segments.last?.end {
      // Before and behind what of several threads was seen; no place tells where.
      let stack = stacks.stack(saying: "(not observed)")
      tracks[track].segments.append(Segment(begin: end, end: end, weight: left, stack: stack, sample: nil))
    } else if let last = tracks[track].segments.indices.last {
      tracks[track].segments[last].weight += left
    }
  }

  /// The stack of each of `samples`, with the callers of those that are cut completed.
  private static func stacks(of samples: [Sample], _ stacks: ProfileStacks) -> [Int] {
    // Only those that have a stack are neighbours of each other.
    var withStack: [(sample: Int, place: Int, isCut: Bool)] = []
    var result = samples.enumerated()
      .map { number, sample -> Int in
        guard let (place, isCut) = stacks.stack(recorded: sample.stack) else {
          let why = sample.outcome == .captured ? "it is lost" : sample.outcome.explanation
          return stacks.stack(saying: "(no stack: \(why))")
        }
        withStack.append((number, place, isCut))
        return place
      }
    for (number, cut) in withStack.enumerated() where cut.isCut {
      let near = CutStacks.nearest(to: number, of: withStack.count, isWhole: { !withStack[$0].isCut }) {
        stacks.match(cut.place, in: withStack[$0].place)
      }
      result[cut.sample] =
        if let near {
          stacks.stack(cut.place, calledBy: near.callers, of: withStack[near.number].place)
        } else {
          stacks.stack(withoutCallers: cut.place)
        }
    }
    return result
  }

  private func thread(_ id: Int32?) -> ObservedThread {
    guard let id, id != stall.thread.id else { return stall.thread }
    let known = stall.others?.threads.first { $0.thread.id == id }?.thread
    return known ?? ObservedThread(id: id, name: "")
  }

  /// Gives out whole nanoseconds so that their sum is that of the times.
  private struct Shares {
    let whole: UInt64
    private(set) var given: UInt64 = 0
    private var sum = Duration.zero

    init(_ whole: Duration) { self.whole = whole.wholeNanoseconds }

    mutating func append(
      _ span: Range<Duration>,
      _ time: Duration,
      _ stack: Int,
      _ sample: Int?,
      to segments: inout [Segment]
    ) {
      sum += time
      let due = max(given, min(whole, sum.wholeNanoseconds))
      let (begin, end) = (span.lowerBound.wholeNanoseconds, span.upperBound.wholeNanoseconds)
      // A sample that stands for no time was one all the same.
      guard end > begin || sample != nil else { return }
      segments.append(Segment(begin: begin, end: end, weight: due - given, stack: stack, sample: sample))
      given = due
    }
  }
}
