import CulpritStallRecord
import Testing

@testable import Culprit

private struct Simulation {
  var tracker = WorkItemTracker(seed: 1)
  var now: UInt64 = 1_000_000
  var samples: [UInt64] = []
  var declaredAt: UInt64?
  var ended: UInt64?
  var noticedAtEnd = false
  var last: UInt64 = 1_000_000
  var limits = (suspicion: UInt64(500), threshold: UInt64(4000), early: UInt64(200), interval: UInt64(1000))

  @discardableResult
  mutating func tick(
    after milliseconds: UInt64,
    item: UInt64,
    allowed: UInt64 = 250,
    endedAt: UInt64 = 0,
    sharedAt: UInt64 = 0
  ) -> WorkItemTracker.Step {
    now += milliseconds
    let ms: UInt64 = 1_000_000
    var snapshot = WorkItemTracker.SlotSnapshot(
      item: item * ms,
      clockError: 0,
      generation: 1,
      suspicion: limits.suspicion * ms,
      threshold: limits.threshold * ms,
      earlyInterval: limits.early * ms,
      interval: limits.interval * ms
    )
    snapshot.sharedAt = sharedAt * ms
    let step = tracker.advance(
      snapshot,
      WorkItemTracker.Tick(now: now * ms, elapsed: (now - last) * ms, allowed: allowed * ms)
    )
    if step.ended {
      tracker.close(endedAt: endedAt * ms, lastTick: last * ms, allowed: allowed * ms)
      noticedAtEnd = tracker.isUndeclaredStall
      ended = tracker.age / ms
      _ = tracker.owe()
    }
    if step.sample { samples.append(tracker.age / ms) }
    if step.declare {
      declaredAt = tracker.age / ms
      tracker.stallRecorded()
    }
    last = now
    return step
  }

  var age: UInt64 { tracker.age / 1_000_000 }
}

@Suite struct WorkItemTrackerTests {
  private func snapshot(
    item: UInt64,
    clockError: UInt64 = 0,
    suspicion: UInt64 = 1,
    threshold: UInt64 = 10
  ) -> WorkItemTracker.SlotSnapshot {
    WorkItemTracker.SlotSnapshot(
      item: item,
      clockError: clockError,
      generation: 1,
      suspicion: suspicion,
      threshold: threshold,
      earlyInterval: 5,
      interval: 10
    )
  }

  @Test func neverSamplesShortWorkItems() {
    var simulation = Simulation()
    for number in 0..<100 {
      let step = simulation.tick(after: 225, item: UInt64(1_000_000 + number * 225 + 100))
      #expect(!step.sample && !step.declare && !step.ended)
    }
  }

  @Test func detectsStallThatEndsBetweenTicks() {
    for (endedAt, isStall) in [(UInt64(4100), true), (3990, false)] {
      var simulation = Simulation()
      let item = simulation.now
      for _ in 0..<19 { simulation.tick(after: 200, item: item) }
      #expect(simulation.declaredAt == nil)
      simulation.tick(after: 400, item: 0, allowed: 400, endedAt: item + endedAt)
      #expect(simulation.declaredAt == nil)
      #expect(simulation.ended == endedAt)
      #expect(simulation.noticedAtEnd == isStall)
    }
    var simulation = Simulation()
    let item = simulation.now
    for _ in 0..<21 { simulation.tick(after: 200, item: item) }
    #expect(simulation.declaredAt != nil)
    simulation.tick(after: 200, item: 0, endedAt: item + 4300)
    #expect(simulation.ended == 4300 && !simulation.noticedAtEnd)
  }

  /// A work item can begin between the monitor's readings of the clock and of the slot.
  @Test func measuresAgeOfWorkBegunAfterTick() {
    var simulation = Simulation()
    let item = simulation.now + 200 + 90
    #expect(simulation.tick(after: 200, item: item).wait == 590_000_000)
    simulation.tick(after: 200, item: item)
    #expect(simulation.age == 110)
    simulation.tick(after: 200, item: 0, endedAt: item + 250)
    #expect(simulation.ended == nil)
  }

  @Test func samplesDenselyUpToThreshold() {
    var simulation = Simulation()
    for _ in 0..<4000 { simulation.tick(after: 10, item: 1_000_000) }
    #expect(simulation.declaredAt == 4000)
    let early = simulation.samples.filter { $0 <= 4000 }
    let late = simulation.samples.filter { $0 >= 4000 }
    #expect(early.first == 500 && early.last == 4000)
    for gap in zip(early, early.dropFirst()).map({ $1 - $0 }).dropLast() { #expect((100...310).contains(gap)) }
    #expect((12...26).contains(early.count))
    for (age, next) in zip(late, late.dropFirst()) {
      let distance = min(age / 20, 1000)
      #expect((distance / 2 - 10...distance * 3 / 2 + 10).contains(next - age))
    }
    #expect((12...17).contains(late.filter { $0 < 8000 }.count), "\(late)")
  }

  @Test func keepsShortInterval() {
    var simulation = Simulation()
    simulation.limits.interval = 50
    for _ in 0..<1000 { simulation.tick(after: 5, item: 1_000_000) }
    let late = simulation.samples.filter { $0 >= 4000 }
    for (age, next) in zip(late, late.dropFirst()) { #expect((25...80).contains(next - age)) }
    #expect(late.count > 15)
  }

  @Test func waitsUntilNextDueCheck() {
    var simulation = Simulation()
    #expect(simulation.tick(after: 10, item: 0).wait == .max)
    #expect(simulation.tick(after: 10, item: simulation.now).wait == 490_000_000)
    simulation.tick(after: 250, item: 1_000_010)
    #expect((100_000_000..<300_000_000).contains(simulation.tick(after: 240, item: 1_000_010).wait))
  }

  @Test func closesEarlyWorkItemWithItsAge() {
    var simulation = Simulation()
    for _ in 0..<10 { simulation.tick(after: 100, item: 1_000_000) }
    simulation.tick(after: 100, item: 0, endedAt: simulation.now + 60)
    #expect(simulation.ended == 1060)
    #expect(simulation.declaredAt == nil)
  }

  @Test func usesLastSightingForUnknownEnd() {
    var simulation = Simulation()
    for _ in 0..<10 { simulation.tick(after: 100, item: 1_000_000) }
    simulation.tick(after: 100, item: 0)
    #expect(simulation.ended == 1000)
  }

  @Test func newWorkItemEndsPreviousOne() {
    var simulation = Simulation()
    for _ in 0..<45 { simulation.tick(after: 100, item: 1_000_000) }
    #expect(simulation.declaredAt == 4000)
    simulation.tick(after: 100, item: 1_004_550, endedAt: 1_004_540)
    #expect(simulation.ended == 4540)
    simulation.tick(after: 100, item: 1_004_550)
    #expect(simulation.age == 150)
  }

  @Test func chargesGapAsOneTick() {
    var simulation = Simulation()
    for _ in 0..<4 { simulation.tick(after: 200, item: 1_000_000) }
    simulation.tick(after: 3_600_000, item: 1_000_000)
    #expect(simulation.age == 1050)
    #expect(simulation.tracker.gap == (3_600_000 - 250) * 1_000_000)
    #expect(simulation.declaredAt == nil)
  }

  @Test func chargesUnseenGapAsOneTick() {
    var simulation = Simulation()
    simulation.tick(after: 10, item: 0)
    simulation.tick(after: 60_000, item: 1_000_011)
    #expect(simulation.age == 250)
    #expect(simulation.samples.isEmpty)
  }

  @Test func chargesGapBeforeEndAsOneTick() {
    var simulation = Simulation()
    for _ in 0..<4 { simulation.tick(after: 200, item: 1_000_000) }
    simulation.tick(after: 60_000, item: 0, endedAt: simulation.now + 60_000)
    #expect(simulation.ended == 1050)
  }

  @Test func repeatsDeclarationsAndEndsUntilRecorded() {
    var tracker = WorkItemTracker(seed: 1)
    let work = snapshot(item: 1)
    func tick(_ now: UInt64) -> WorkItemTracker.Tick { WorkItemTracker.Tick(now: now, elapsed: 20, allowed: 100) }
    let first = tracker.advance(work, tick(20))
    let second = tracker.advance(work, tick(40))
    #expect(first.declare && second.declare)
    tracker.stallRecorded()
    let third = tracker.advance(work, tick(60))
    #expect(!third.declare)
    var idle = work
    idle.item = 0
    let fourth = tracker.advance(idle, tick(80))
    let fifth = tracker.advance(work, tick(100))
    #expect(fourth.ended && fifth.ended)
    _ = tracker.owe()
    let sixth = tracker.advance(work, tick(120))
    #expect(!sixth.ended)
  }

  /// Early begins from the coarse clock must not turn work below the threshold into stalls.
  @Test func doesNotChargeClockResolution() {
    var tracker = WorkItemTracker(seed: 1)
    let work = snapshot(item: 1000, clockError: 4)
    let at = tracker.advance(work, WorkItemTracker.Tick(now: 1013, elapsed: 20, allowed: 100))
    #expect(!at.declare)
    let past = tracker.advance(work, WorkItemTracker.Tick(now: 1014, elapsed: 1, allowed: 100))
    #expect(past.declare)
  }

  @Test func estimatesDurationFromUncertainBegin() {
    var tracker = WorkItemTracker(seed: 1)
    var work = snapshot(item: 1000, clockError: 8)
    #expect(tracker.advance(work, WorkItemTracker.Tick(now: 1030, elapsed: 100, allowed: 100)).declare)
    tracker.stallRecorded()
    work.item = 0
    #expect(tracker.advance(work, WorkItemTracker.Tick(now: 1060, elapsed: 30, allowed: 100)).ended)
    tracker.close(endedAt: 1050, lastTick: 1030, allowed: 100)
    _ = tracker.owe()
    // The begin is 1,000 to 1,008: mean age 46.
    #expect(tracker.pendingEnd?.age == 46)
  }

  @Test func samplesUnresponsiveThreadLessOften() {
    var simulation = Simulation()
    var backoff = SampleBackoff()
    var attempts = 0
    for number: UInt64 in 0..<3000 {
      let now = number * 10_000_000
      if simulation.tick(after: 10, item: 1_000_000).sample, backoff.allows(1_000_000, now) {
        attempts += 1
        backoff.notAnswered(1_000_000, now)
      }
    }
    #expect(attempts < 15)
    #expect(simulation.declaredAt == 4000)
    #expect(!backoff.allows(1_000_000, 30_000_000_000))
    #expect(backoff.allows(2_000_000, 30_000_000_000))
    #expect(!backoff.allows(1_000_000, 30_000_000_000, 0) && backoff.allows(1_000_000, 30_000_000_000, 7))
    backoff.notAnswered(1_000_000, 30_000_000_000, 7)
    #expect(!backoff.allows(1_000_000, 30_000_000_000, 7) && backoff.allows(1_000_000, 30_000_000_000, 8))
    backoff.answered(8)
    #expect(!backoff.allows(1_000_000, 30_000_000_000, 7))
    backoff.answered(7)
    #expect(backoff.allows(1_000_000, 30_000_000_000, 7))
  }

  @Test func endsWorkItemWhenOwnerChanges() {
    var tracker = WorkItemTracker(seed: 1)
    var work = snapshot(item: 1, suspicion: 10, threshold: 1000)
    _ = tracker.advance(work, WorkItemTracker.Tick(now: 60, elapsed: 60, allowed: 100))
    work.generation = 2
    let step = tracker.advance(work, WorkItemTracker.Tick(now: 120, elapsed: 60, allowed: 100))
    #expect(step.ended)
  }

  @Test func lateWakeUpsDoNotAccumulate() {
    var simulation = Simulation()
    simulation.limits.threshold = 400_000
    var step = simulation.tick(after: 10, item: 1_000_000)
    while simulation.age < 400_000 - 2000 {
      step = simulation.tick(after: step.wait / 1_000_000 + 30, item: 1_000_000, allowed: 1000)
    }
    let span = Double((simulation.samples.last ?? 0) - 500)
    // The mean of 1,990 gaps has a standard deviation of 1.3 ms.
    #expect(abs(span / Double(simulation.samples.count - 1) - 200) < 8)
  }

  @Test func sharedSamplesPostponeOwnSamples() {
    var simulation = Simulation()
    let item = simulation.now
    while simulation.age < 1000 { simulation.tick(after: 10, item: item) }
    let before = simulation.samples
    #expect(before.count >= 2)
    while simulation.age < 4500 {
      simulation.tick(after: 10, item: item, sharedAt: (simulation.now - 5) / 50 * 50)
    }
    #expect(simulation.samples == before + [4000])
    let last = simulation.now - 5
    while simulation.age < 7500 { simulation.tick(after: 10, item: item, sharedAt: last) }
    let after = simulation.samples.dropFirst(before.count + 1)
    #expect(after.count >= 2 && (4590...4860).contains(after.first ?? 0), "\(after)")
  }

  @Test func samplesAtEveryPhaseOfInterval() {
    for seed: UInt64 in 1...4 {
      var simulation = Simulation(tracker: WorkItemTracker(seed: seed))
      simulation.limits = (500, 100_000, 200, 200)
      while simulation.age < 200_000 { simulation.tick(after: 1, item: 1_000_000) }
      for samples in [simulation.samples.filter { $0 < 100_000 }, simulation.samples.filter { $0 > 100_000 }] {
        #expect((450...550).contains(samples.count))
        for phase: UInt64 in stride(from: 0, to: 200, by: 50) {
          let part = Double(samples.filter { $0 % 200 >= phase && $0 % 200 < phase + 50 }.count) / Double(samples.count)
          // Each phase must have a quarter; independent samples have a standard deviation of two percent.
          #expect(abs(part - 0.25) < 0.09)
        }
      }
    }
  }

  @Test func derivesGapsFromSeed() {
    func gaps(_ seed: UInt64) -> [UInt64] {
      var gaps = SampleGaps(seed: seed)
      return (0..<1000).map { _ in gaps.next(1000) }
    }
    #expect(gaps(7) == gaps(7))
    #expect(gaps(7) != gaps(8))
    #expect(gaps(7).allSatisfy { (500..<1500).contains($0) })
    #expect((950...1050).contains(gaps(7).reduce(0, +) / 1000))
    var gaps = SampleGaps(seed: 1)
    #expect(gaps.next(1 << 61) >= 1 << 60)
    #expect(gaps.next(0) == 0)
  }
}

@Suite struct ShortThresholdTests {
  private let millisecond: UInt64 = 1_000_000

  /// Simulates work items of 90 to 99.9 % of `threshold`, and as many that exceed `threshold` and clock error by 1 %.
  /// The coarse clock lags up to 8 ms. Returns the reported stalls of both kinds.
  private func stalls(threshold: UInt64, seed: UInt64) -> (inTime: Int, late: Int, workItemsEach: Int) {
    var random = SampleGaps(seed: seed)
    func upTo(_ limit: UInt64) -> UInt64 { random.next(limit) &- limit / 2 }
    let ms: UInt64 = 1_000_000
    let isExact = threshold < 125 * 8 * ms
    let clockError = isExact ? 0 : 8 * ms
    var tracker = WorkItemTracker(seed: seed)
    var now: UInt64 = 1_000_000 * ms
    var last = now
    var (inTime, late) = (0, 0)
    let workItemsEach = 200
    for number in 0..<2 * workItemsEach {
      let isLate = number % 2 == 1
      let begin = now + upTo(3 * ms)
      let length = isLate ? threshold + threshold / 100 + clockError : threshold / 1000 * (900 + upTo(100))
      let end = begin + length
      let item = isExact ? begin : begin - upTo(8 * ms)
      var isSampled = false
      var isOver = false
      while !isOver {
        var snapshot = WorkItemTracker.SlotSnapshot(
          item: now >= begin && now < end ? item : 0,
          clockError: clockError,
          generation: 1,
          suspicion: threshold / 8,
          threshold: threshold,
          earlyInterval: threshold / 20,
          interval: threshold
        )
        let tick = WorkItemTracker.Tick(now: now, elapsed: now - last, allowed: 250 * ms)
        var step = tracker.advance(snapshot, tick)
        if step.ended {
          tracker.close(endedAt: isSampled ? end : 0, lastTick: last, allowed: 250 * ms)
          if tracker.isUndeclaredStall { if isLate { late += 1 } else { inTime += 1 } }
          _ = tracker.owe()
          snapshot.item = 0
          step = tracker.advance(snapshot, tick)
          isOver = true
        } else if now > end + threshold {
          isOver = true
        }
        if step.sample { isSampled = true }
        if step.declare {
          if isLate { late += 1 } else { inTime += 1 }
          tracker.stallRecorded()
        }
        last = now
        // The monitor wakes up late while other threads have the CPUs.
        let wait = max(ms, min(min(step.wait, threshold / 8), 222 * ms))
        now += wait + (upTo(4) == 0 ? upTo(12 * ms) : upTo(100_000))
      }
    }
    return (inTime, late, workItemsEach)
  }

  @Test(arguments: [UInt64(10), 20, 50, 100, 999, 1000, 4000])
  func reportsOnlyLateWorkItems(milliseconds: UInt64) {
    for seed: UInt64 in 1...5 {
      let found = stalls(threshold: milliseconds * millisecond, seed: seed)
      #expect(found.inTime == 0)
      // A delayed monitor might miss a short work item.
      #expect(found.late > (milliseconds < 50 ? found.workItemsEach / 2 : found.workItemsEach - 1))
    }
  }
}

@Suite struct SampleStoreTests {
  private func stack(_ number: Int) -> Stack {
    Stack(frames: [.programCounter(RuntimeAddress(UInt64(number)))], end: .outermost)
  }

  private func sample(_ number: Int) -> Sample {
    Sample(age: .milliseconds(number), stack: nil, outcome: .captured, cpuTime: nil)
  }

  @Test func storesEqualStacksOnce() {
    var store = SampleStore()
    for number in 0..<100 { store.add(sample(number), stack: stack(number % 3)) }
    let (samples, stacks) = store.content
    #expect(samples.count == 100)
    #expect(stacks.count == 3)
    #expect(samples[4].stack == 1)
    #expect(store.takeLastBeside().isEmpty)
  }

  @Test(arguments: [100_000, 12_345, 4096, 2049]) func boundsSamplesOfAnyStall(total: Int) {
    var store = SampleStore()
    for number in 0..<total { store.add(sample(number), stack: stack(number)) }
    let (samples, stacks) = store.content
    #expect(samples.count <= SampleStore.limit + SampleStore.lastCount)
    #expect(samples.count > SampleStore.limit / 4)
    #expect(stacks.count == samples.count)
    let ages = samples.map { Int($0.age.wholeNanoseconds / 1_000_000) }
    #expect(ages.first == 0)
    #expect(Array(ages.suffix(SampleStore.lastCount)) == Array((total - SampleStore.lastCount)..<total))
    let spread = ages.dropLast(SampleStore.lastCount)
    let steps = zip(spread, spread.dropFirst()).map { $1 - $0 }
    #expect((steps.max() ?? 0) <= 2 * (steps.min() ?? 0) + 1)
    #expect(total - (spread.last ?? 0) <= 2 * (steps.max() ?? 0) + SampleStore.lastCount)
    for (sample, age) in zip(samples, ages) {
      #expect(sample.stack.map { stacks[$0] } == stack(age))
    }
    #expect(store.takeLastBeside().count <= SampleStore.lastCount)
    #expect(store.takeLastBeside().isEmpty)
  }

  private func suspended(_ number: Int) -> Sample {
    var sample = sample(number)
    sample.activity = .suspended
    return sample
  }

  @Test func repeatsSamplesOfUnmovedTask() {
    var store = SampleStore()
    var again = store.repeatLast(at: .milliseconds(1))
    #expect(again?.isKept == nil)
    store.add(sample(1), stack: stack(1))
    again = store.repeatLast(at: .milliseconds(2))
    #expect(again?.isKept == nil)
    store.add(suspended(3), stack: stack(2))
    for number in 4..<20 {
      again = store.repeatLast(at: .milliseconds(number))
      #expect(again?.isKept == true && again?.stack == stack(2) && again?.sample.age == .milliseconds(number))
    }
    store.add(suspended(20), stack: stack(3))
    _ = store.repeatLast(at: .milliseconds(21))
    let (samples, stacks) = store.content
    #expect(samples.map(\.age) == [1].map { .milliseconds($0) } + (3..<22).map { .milliseconds($0) })
    #expect(
      samples.map { $0.stack.map { stacks[$0] } } == [stack(1)] + Array(repeating: stack(2), count: 17) + [
        stack(3), stack(3),
      ]
    )
    #expect(stacks.count == 3)
  }

  @Test func boundsSamplesOfUnmovedTask() {
    var store = SampleStore()
    store.add(suspended(0), stack: stack(1))
    for number in 1..<50_000 { _ = store.repeatLast(at: .milliseconds(number)) }
    let (samples, stacks) = store.content
    #expect(samples.count <= SampleStore.limit + SampleStore.lastCount && samples.count > SampleStore.limit / 4)
    let ages = samples.map { Int($0.age.wholeNanoseconds / 1_000_000) }
    let steps = zip(ages, ages.dropFirst()).map { $1 - $0 }
    #expect((steps.max() ?? 0) <= 2 * (steps.min() ?? 0) && 50_000 - (ages.last ?? 0) <= 2 * (steps.max() ?? 0))
    #expect(stacks == [stack(1)] && samples.allSatisfy { $0.stack == 0 && $0.activity == .suspended })
  }

  @Test(arguments: [1, 2, 3, 4, 7, 16], [300, 5000, 30_000]) func keepsSamplesOfThreadsEvenly(threads: Int, total: Int)
  {
    var store = SampleStore()
    for number in 0..<total {
      var sample = sample(number)
      sample.threadID = Int32(number % threads + 1)
      store.add(sample, stack: stack(number % 5))
    }
    let counts = Dictionary(grouping: store.content.samples) { $0.threadID }.mapValues(\.count)
    #expect(counts.count == threads)
    #expect((counts.values.max() ?? 0) - (counts.values.min() ?? 0) <= 1 + SampleStore.lastCount)
  }
}

@Suite struct ReportLimiterTests {
  private let loop = WatchedSource(kind: .loop, name: "a")
  private let other = WatchedSource(kind: .loop, name: "b")
  private let second: UInt64 = 1_000_000_000

  @Test func countsRepeatedCulprits() {
    var limiter = ReportLimiter(perMinute: 100, perCulprit: 2)
    let decisions = (0..<5).map { limiter.decide(source: loop, culprit: "f", now: UInt64($0) * second) }
    #expect(decisions == [.report(repeats: 0), .report(repeats: 0), .count, .count, .count])
    #expect(limiter.decide(source: other, culprit: "f", now: 5 * second) == .report(repeats: 0))
    #expect(limiter.decide(source: loop, culprit: "g", now: 5 * second) == .report(repeats: 0))
    #expect(limiter.decide(source: loop, culprit: "f", now: 60 * second) == .report(repeats: 3))
    #expect(limiter.decide(source: loop, culprit: "f", now: 61 * second) == .report(repeats: 0))
    #expect(limiter.counted == 3)
  }

  @Test func limitsReportsPerMinute() {
    var limiter = ReportLimiter(perMinute: 3, perCulprit: 3)
    let decisions = (0..<5).map { limiter.decide(source: loop, culprit: "f\($0)", now: UInt64($0) * second) }
    #expect(decisions.filter { $0 == .count }.count == 2)
    #expect(limiter.decide(source: loop, culprit: "f4", now: 62 * second) == .report(repeats: 1))
  }

  @Test func reportsEachNewCulprit() {
    var limiter = ReportLimiter(perMinute: 1_000_000, perCulprit: 1)
    for number in 0..<5000 {
      #expect(limiter.decide(source: loop, culprit: "f\(number)", now: UInt64(number)) == .report(repeats: 0))
    }
  }
}
