import CulpritStallRecord

/// What a stall was spent on, in order of time: stacks, times and completed callers are those that its verdict is made of.
package struct StallProfile {
  /// A part of the stall, and the stack that it belongs to.
  package struct Segment: Hashable, Sendable, BitwiseCopyable {
    /// The age of the work at its beginning and at its end, in nanoseconds.
    package var begin: UInt64
    package var end: UInt64
    /// How much of the stall it is, in nanoseconds: less than its length where several threads worked at once. The weights of all
    /// segments make up the stall.
    package var weight: UInt64
    /// The stack, as a place in ``ProfileStacks/stacks``.
    package var stack: Int
    /// What the sample that says so found; `nil` where none does.
    package var sample: Found?
  }

  /// What a sample tells beside its stack.
  package struct Found: Hashable, Sendable, BitwiseCopyable {
    /// What the thread was doing.
    package var activity: ThreadActivity
    /// What the application had said of the work, as a place in ``StallProfile/labels``.
    package var label: Int32
  }

  /// What one thread did.
  package struct Track: Sendable {
    /// The thread.
    package var thread: ObservedThread
    /// What it did, in order of time. Of several threads one may have come later, or have gone.
    package fileprivate(set) var segments: LongList<Segment>
  }

  /// The stall; of a pool whose threads were not followed, with those for samples that occupied it.
  package let stall: Stall
  /// What the application had said of the work; the first is that it had said nothing.
  package let labels: [String]
  /// How long it took, in nanoseconds.
  package let duration: UInt64
  /// Each thread that worked on what stalled; one at least.
  package private(set) var tracks: [Track] = []

  /// What the rounding of all times together may come to, in nanoseconds.
  private static let roundingMax: UInt64 = 1000

  /// What `observed` was spent on; its samples refer to the stacks that `stacks` were made of.
  ///
  /// - Parameters:
  ///   - observed: The stall.
  ///   - stacks: The distinct stacks.
  ///   - log: Every sample, where the stall has not all of them.
  ///   - store: Where segments go that are too many to be kept in memory.
  package init(
    _ observed: Stall,
    _ stacks: ProfileStacks,
    log: SampleLog? = nil,
    store: (any OverflowStore)? = nil
  ) {
    var (stall, log) = (observed.namingPoolThreads, log ?? SampleLog(observed.samples))
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
      var spans = SampleTimes.Spans(stall, Ages(thread), count: thread.entries.count, in: presence)
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
      // Of several threads one may have gone before the end.
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
      // Before and behind what of several threads was seen; no place tells where.
      let stack = stacks.stack(saying: "(not observed)")
      tracks[track].segments.append(Segment(begin: end, end: end, weight: left, stack: stack, sample: nil))
    } else {
      tracks[track].segments.updateLast { $0.weight += left }
    }
  }

  /// The threads whose samples count: all, but for those that run no task while a job, or the work of a pool, is to be seen.
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

  /// Where each of `threads` was, whose samples are at `ages`, and what a length is multiplied with to be a time of the stall.
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
      var spans = SampleTimes.Spans(stall, Ages(thread), count: thread.entries.count, in: presence)
      while let (span, unobserved) = spans.next() { sum += span.length + unobserved }
    }
    return (presences, SampleTimes.scale(of: sum, stall, duration: duration))
  }

  private func thread(_ id: Int32?) -> ObservedThread {
    guard let id, id != stall.thread.id else { return stall.thread }
    let known = stall.others?.threads.first { $0.thread.id == id }?.thread
    return known ?? ObservedThread(id: id, name: "")
  }

  /// The ages of the samples of a thread.
  private struct Ages: IteratorProtocol {
    private var entries: LongList<SampleLog.Entry>.Iterator

    init(_ thread: SampleLog.Thread) { entries = thread.entries.makeIterator() }

    mutating func next() -> Duration? { entries.next()?.age }
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
      _ sample: Found?,
      to segments: inout LongList<Segment>
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
