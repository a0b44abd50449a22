import CulpritStallRecord

/// A stall in order of time, with the stacks, times and completed callers that determine its verdict.
package struct StallProfile {
  package struct Segment: Hashable, Sendable, BitwiseCopyable {
    /// The age of the work in nanoseconds, at the start and the end.
    package var begin: UInt64
    package var end: UInt64
    /// The counted time in nanoseconds; less than the length if several threads worked. All weights add up to the
    /// stall.
    package var weight: UInt64
    package var stack: Int
    package var sample: Found?
  }

  package struct Found: Hashable, Sendable, BitwiseCopyable {
    package var activity: ThreadActivity
    package var label: Int32
  }

  package struct Track: Sendable {
    package var thread: ObservedThread
    package fileprivate(set) var segments: LongList<Segment>
  }

  /// The stall. Occupied threads of a pool can serve as samples.
  package let stall: Stall
  /// The labels of the work. The first one is empty.
  package let labels: [String]
  /// The stall's duration in nanoseconds.
  package let duration: UInt64
  package private(set) var tracks: [Track] = []

  private static let roundingMax: UInt64 = 1000

  package init(
    _ observed: Stall,
    _ stacks: ProfileStacks,
    log: SampleLog? = nil,
    store: (any OverflowStore)? = nil
  ) {
    var (stall, log) = (observed, log ?? SampleLog(observed.samples))
    if stall.source.kind == .pool, !log.namesThreads {
      stall = PoolOccupants.observed(stall, stacks.recorded, stacks.resolve)
      log = SampleLog(stall.samples)
    }
    self.stall = stall
    labels = log.labels
    let threads = Self.threads(of: log, stall, stacks.recorded)
    let samples = Samples(stacks, threads)
    let ages = threads.compactMap { thread -> SampleTimes.Presence? in
      guard let first = thread.entries.first, let last = thread.entries.last else { return nil }
      return (first.age, last.age)
    }
    let whole = stall.length(withSamplesUntil: ages.map(\.end).max())
    duration = whole.wholeNanoseconds
    let (presences, scale) = Self.presences(stall, threads, ages, whole)
    var shares = Shares(whole)
    var found = samples.inOrder()
    for (thread, presence) in zip(threads, presences) {
      var segments = LongList<Segment>(store: store)
      var spans = SampleTimes.Spans(stall, thread.entries.lazy.map(\.age), count: thread.entries.count, in: presence)
      var position: Duration?
      if tracks.isEmpty {
        let unwatched = SampleTimes.unwatched(stall)
        shares.append(.zero..<unwatched, unwatched, stacks.stack(saying: "(not watched yet)"), nil, to: &segments)
        position = unwatched
      }
      for entry in thread.entries {
        guard let (span, _) = spans.next(), let stack = found.next() else { break }
        let before = position ?? span.lowerBound
        if span.lowerBound > before {
          let gap = before..<span.lowerBound
          shares.append(gap, gap.length * scale, stacks.stack(saying: "(not observed)"), nil, to: &segments)
        }
        let time = threads.count > 1 ? span.length * scale : span.length
        shares.append(span, time, stack, Found(activity: entry.activity, label: entry.label), to: &segments)
        position = max(before, span.upperBound)
      }
      // One of several threads might have ended before the stall.
      if threads.count == 1, let position, position < whole {
        shares.append(position..<whole, whole - position, stacks.stack(saying: "(not observed)"), nil, to: &segments)
      }
      tracks.append(Track(thread: self.thread(thread.id), segments: segments))
    }
    if tracks.isEmpty {
      var segments = LongList<Segment>()
      shares.append(.zero..<whole, whole, stacks.stack(saying: "(no stack: no sample was taken)"), nil, to: &segments)
      tracks = [Track(thread: stall.thread, segments: segments)]
    }
    let left = duration - shares.given
    let track = tracks.count - 1
    if left > Self.roundingMax, let end = tracks[track].segments.last?.end {
      // With several threads, unobserved time before and after them has no definite position.
      let stack = stacks.stack(saying: "(not observed)")
      tracks[track].segments.append(Segment(begin: end, end: end, weight: left, stack: stack, sample: nil))
    } else {
      tracks[track].segments.updateLast { $0.weight += left }
    }
  }

  /// Returns the threads with relevant samples: for jobs and pools, only those that run tasks.
  private static func threads(of log: SampleLog, _ stall: Stall, _ recorded: [Stack]) -> [SampleLog.Thread] {
    let all = log.threads()
    guard stall.source.kind == .job || stall.source.kind == .pool else { return all }
    var kinds: [Int: TaskStack.Kind] = [:]
    for thread in all {
      for entry in thread.entries {
        guard let stack = entry.stack, kinds[stack] == nil, recorded.indices.contains(stack) else { continue }
        kinds[stack] = TaskStack(recorded[stack]).kind
      }
    }
    guard kinds.values.contains(.task) else { return all }
    return log.threads { entry in entry.stack.map { kinds[$0] != .thread } ?? true }
  }

  private static func presences(
    _ stall: Stall,
    _ threads: [SampleLog.Thread],
    _ ages: [SampleTimes.Presence],
    _ duration: Duration
  ) -> (presences: [SampleTimes.Presence], scale: Double) {
    guard threads.count > 1, let first = ages.map(\.begin).min(), let last = ages.map(\.end).max() else {
      return (threads.map { _ in (SampleTimes.unwatched(stall), duration) }, 1)
    }
    let presences = ages.map { SampleTimes.presence(of: $0, among: (first, last), stall, duration: duration) }
    var sum = Duration.zero
    for (thread, presence) in zip(threads, presences) {
      var spans = SampleTimes.Spans(stall, thread.entries.lazy.map(\.age), count: thread.entries.count, in: presence)
      while let (span, unobserved) = spans.next() { sum += span.length + unobserved }
    }
    return (presences, SampleTimes.scale(of: sum, stall, duration: duration))
  }

  private func thread(_ id: Int32?) -> ObservedThread {
    guard let id, id != stall.thread.id else { return stall.thread }
    let known = stall.others?.threads.first { $0.thread.id == id }?.thread
    return known ?? ObservedThread(id: id, name: "")
  }

  /// Rounds times to whole nanoseconds without changing their sum.
  private struct Shares {
    let whole: UInt64
    private(set) var given: UInt64 = 0
    private var sum = Duration.zero

    init(_ whole: Duration) { self.whole = whole.wholeNanoseconds }

    mutating func append(
      _ span: Range<Duration>,
      _ time: Duration,
      _ stack: Int,
      _ sample: Found?,
      to segments: inout LongList<Segment>
    ) {
      sum += time
      let due = max(given, min(whole, sum.wholeNanoseconds))
      let (begin, end) = (span.lowerBound.wholeNanoseconds, span.upperBound.wholeNanoseconds)
      guard end > begin || sample != nil else { return }
      segments.append(Segment(begin: begin, end: end, weight: due - given, stack: stack, sample: sample))
      given = due
    }
  }
}
