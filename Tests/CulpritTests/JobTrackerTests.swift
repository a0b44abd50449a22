import SplitMix
import Testing

@testable import Culprit

@Suite struct JobTrackerTests {
  /// Sources of evidence that a computing task was suspended.
  enum Evidence: CaseIterable { case watchpoints, enqueues, none }

  private struct Timeline {
    struct Job {
      var task: UInt64
      var words: [UInt64]
      var start: UInt64
      var end: UInt64
    }
    var jobs: [Job] = []
    /// Times in which the thread did not run.
    var blocked: [Range<UInt64>] = []

    func job(at time: UInt64) -> Job? { jobs.last { $0.start <= time && time < $0.end } }

    func used(at time: UInt64) -> UInt64 {
      1 + time - blocked.reduce(0) { $0 + (min($1.upperBound, time) - min($1.lowerBound, time)) }
    }

    func observation(at time: UInt64, isHit: Bool? = nil, _ evidence: Evidence = .none) -> JobTracker.Observation {
      let job = job(at: time)
      var observation = JobTracker.Observation(time: time, task: job?.task ?? 0)
      observation.words = job?.words ?? []
      observation.used = used(at: time)
      observation.isHit = isHit
      if evidence == .enqueues, let job {
        observation.enqueues = UInt32(jobs.count { $0.task == job.task && $0.start <= time })
      }
      return observation
    }

    func isBroken(_ start: UInt64, _ end: UInt64) -> Bool {
      jobs.contains { $0.start > start && $0.start <= end || $0.end > start && $0.end <= end }
    }
  }

  private func timeline(_ random: inout SplitMix, until end: UInt64, _ lengths: [ClosedRange<UInt64>]) -> Timeline {
    var made = Timeline()
    var time: UInt64 = 1
    while time < end {
      let length = UInt64.random(in: lengths.randomElement(using: &random) ?? 1...1, using: &random)
      let isOther = Int.random(in: 0..<4, using: &random) == 0
      let words: [UInt64] = Int.random(in: 0..<3, using: &random) == 0 ? [.random(in: 0...1, using: &random)] : [7]
      made.jobs.append(.init(task: isOther ? 16 : 8, words: words, start: time, end: time + length))
      if length > 4, Int.random(in: 0..<2, using: &random) == 0 {
        let begin = UInt64.random(in: time + 1..<time + length / 2, using: &random)
        made.blocked.append(begin..<UInt64.random(in: begin + 1...time + length - 1, using: &random))
      }
      time += length + (Int.random(in: 0..<5, using: &random) == 0 ? 30 : 0)
    }
    return made
  }

  /// Observes `thread`, calling `check` each time. Returns the number of watchpoints.
  private func follow(
    _ thread: Timeline,
    until end: UInt64,
    _ evidence: Evidence,
    _ random: inout SplitMix,
    _ check: (JobTracker, UInt64) -> Void
  ) -> Int {
    var tracker = JobTracker(interval: 100)
    var (set, count): (UInt64?, Int) = (nil, 0)
    var began: UInt64?
    func note(_ step: JobTracker.Step) {
      if step.hasEnded {
        #expect(began != nil)
        began = nil
      }
      if let since = step.began { began = since }
      #expect(began == tracker.since)
    }
    var time: UInt64 = 1
    while time < end {
      let isHit = set.map { thread.isBroken($0, time) }
      let step = tracker.advance(thread.observation(at: time, isHit: isHit, evidence))
      note(step)
      if isHit == true || thread.job(at: time) == nil { set = nil }
      if step.wantsWatchpoint, evidence == .watchpoints {
        count += 1
        let later = time + UInt64.random(in: 0...5, using: &random)
        set = later
        note(tracker.watched(thread.observation(at: later)))
      }
      check(tracker, max(time, set ?? 0))
      time += UInt64.random(in: 80...120, using: &random)
    }
    return count
  }

  @Test(arguments: Evidence.allCases) func neverMergesJobs(evidence: Evidence) {
    var random = SplitMix(evidence == .watchpoints ? 3 : 4)
    var known = 0
    for _ in 0..<300 {
      let lengths: [ClosedRange<UInt64>] = [1...10, 20...90, 300...3000]
      let thread = timeline(&random, until: 20_000, lengths)
      _ = follow(thread, until: 20_000, evidence, &random) { tracker, now in
        guard let since = tracker.since else { return }
        known += 1
        #expect(since <= now && !thread.isBroken(since, now))
      }
    }
    #expect(known > 1000)
  }

  @Test func recognizesLongJobAtSecondObservation() {
    var random = SplitMix(5)
    for evidence in Evidence.allCases {
      for isBlocked in [true, false] {
        var thread = Timeline(jobs: [.init(task: 8, words: [], start: 1, end: 5000)])
        if isBlocked { thread.blocked = [1..<5000] }
        var found: [UInt64] = []
        let count = follow(thread, until: 4500, evidence, &random) { tracker, now in
          if now > 250 { found.append(tracker.since ?? .max) }
        }
        let isKnown = evidence != .none || isBlocked
        #expect(Set(found).count == 1 && (found[0] < 250) == isKnown)
        if evidence == .watchpoints { #expect(count == 1) }
        // A thread that has not run since the first observation is still in its job.
        if isBlocked { #expect(found[0] == 1) }
      }
    }
  }

  @Test func setsFewerWatchpointsAfterHits() {
    var random = SplitMix(6)
    let jobs = (0..<20_000).map { Timeline.Job(task: 8, words: [], start: $0 * 10 + 1, end: $0 * 10 + 11) }
    let count = follow(Timeline(jobs: jobs), until: 199_000, .watchpoints, &random) { tracker, now in
      #expect(tracker.since == nil || now - (tracker.since ?? 0) < 10)
    }
    #expect(count > 50 && count < 150)
  }

  /// Observations far apart, as around a stop of the process, must not be combined.
  @Test func ignoresDistantObservations() {
    let thread = Timeline(jobs: [.init(task: 8, words: [], start: 1, end: 1_000_000)], blocked: [1..<1_000_000])
    var tracker = JobTracker(interval: 100)
    _ = tracker.advance(thread.observation(at: 10))
    #expect(tracker.advance(thread.observation(at: 110)).began == 10)
    #expect(tracker.advance(thread.observation(at: 411)).hasEnded)
    #expect(tracker.since == nil)
    #expect(tracker.advance(thread.observation(at: 500)).began == 411)
    // Observations three intervals apart are still combined.
    #expect(!tracker.advance(thread.observation(at: 800)).hasEnded)
    tracker.restart()
    #expect(tracker.since == nil && tracker.advance(thread.observation(at: 900)) == JobTracker.Step())
  }

  /// An observation takes time: new jobs begin at its end, known jobs are confirmed up to its start.
  @Test func handlesJobChangeDuringObservation() {
    var tracker = JobTracker(interval: 100)
    func observation(_ time: UInt64) -> JobTracker.Observation {
      .init(time: time, readTime: time + 50, task: 8, used: 1)
    }
    _ = tracker.advance(observation(10))
    let step = tracker.advance(observation(110))
    #expect(step.began == 60 && step.unbrokenUntil == 110)
    let next = tracker.advance(observation(210))
    #expect(next.began == nil && next.unbrokenUntil == 210)
    tracker.restart()
    _ = tracker.advance(observation(310))
    #expect(tracker.watched(observation(320)).began == 370)
  }

  @Test func infersNothingFromUnknownCPUTime() {
    var tracker = JobTracker(interval: 100)
    for time: UInt64 in [10, 110, 210] {
      let step = tracker.advance(JobTracker.Observation(time: time, task: 8))
      #expect(step.began == nil && step.wantsWatchpoint == (time > 10))
    }
  }
}
