import SplitMix
import Testing

@testable import Culprit

@Suite struct WorkItemLimitTests {
  private typealias Tick = WorkItemTracker.Tick

  private static let eventInterval = WorkItemTracker.eventInterval

  /// A work item with begin 1,000 and threshold 10,000; by default sampled rarely and without a hang.
  private func snapshot(
    item: UInt64 = 1000,
    suspicion: UInt64 = 2000,
    threshold: UInt64 = 10_000,
    interval: UInt64 = 1 << 40,
    hangDelay: UInt64 = .max
  ) -> WorkItemTracker.SlotSnapshot {
    var snapshot = WorkItemTracker.SlotSnapshot(
      item: item,
      clockError: 0,
      generation: 1,
      suspicion: suspicion,
      threshold: threshold,
      earlyInterval: interval,
      interval: interval
    )
    snapshot.hangDelay = hangDelay
    return snapshot
  }

  private func tick(_ now: UInt64, after elapsed: UInt64) -> Tick { Tick(now: now, elapsed: elapsed, allowed: 1 << 50) }

  private func stalled(_ snapshot: WorkItemTracker.SlotSnapshot, age: UInt64) -> WorkItemTracker {
    var tracker = WorkItemTracker(seed: 1)
    _ = tracker.advance(snapshot, tick(1000 + age, after: age))
    tracker.stallRecorded()
    return tracker
  }

  @Test func suspectsWorkItemAtSuspicionAge() {
    for (age, isSuspected) in [(UInt64(1999), false), (2000, true), (2001, true)] {
      var tracker = WorkItemTracker(seed: 1)
      let step = tracker.advance(snapshot(), tick(1000 + age, after: 5000))
      #expect(step.sample == isSuspected && step.suspect == isSuspected && tracker.isSampled == isSuspected, "\(age)")
      #expect(tracker.age == age && !tracker.isStalled)
    }
  }

  @Test func suspectsWorkItemOnce() {
    var tracker = WorkItemTracker(seed: 1)
    let often = snapshot(interval: 2)
    var suspicions = 0
    for number: UInt64 in 0..<50 where tracker.advance(often, tick(3000 + 10 * number, after: 10)).suspect {
      suspicions += 1
    }
    #expect(suspicions == 1)
  }

  @Test func declaresStallAtThreshold() {
    for (age, isStall) in [(UInt64(9999), false), (10_000, true)] {
      var tracker = WorkItemTracker(seed: 1)
      #expect(tracker.advance(snapshot(), tick(1000 + age, after: 1 << 20)).declare == isStall)
      #expect(tracker.isStalled == isStall && tracker.isSampled)
      #expect(tracker.threshold == 10_000)
    }
  }

  @Test func declaresHangAtDelay() {
    for (age, isHang) in [(UInt64(14_999), false), (15_000, true)] {
      var tracker = stalled(snapshot(hangDelay: 5000), age: 12_000)
      let step = tracker.advance(snapshot(hangDelay: 5000), tick(1000 + age, after: age - 12_000))
      #expect(step.hang == isHang && !step.declare, "\(age)")
    }
    var undeclared = WorkItemTracker(seed: 1)
    #expect(!undeclared.advance(snapshot(hangDelay: 5000), tick(101_000, after: 1 << 20)).hang)
    for delay in [.max, .max - 10_000, .max - 9999] as [UInt64] {
      var tracker = stalled(snapshot(hangDelay: delay), age: 12_000)
      #expect(!tracker.advance(snapshot(hangDelay: delay), tick(1 << 40, after: 1 << 40)).hang)
    }
  }

  @Test func repeatsHangUntilRecorded() {
    var tracker = stalled(snapshot(hangDelay: 5000), age: 20_000)
    for number: UInt64 in 1...3 {
      let step = tracker.advance(snapshot(hangDelay: 5000), tick(21_000 + number, after: 1))
      #expect(step.hang && step.wait == 0)
    }
    tracker.hangRecorded()
    let step = tracker.advance(snapshot(hangDelay: 5000), tick(22_000, after: 1))
    #expect(!step.hang && step.wait > 0)
  }

  @Test func declaresHangOfEachWorkItem() {
    var tracker = WorkItemTracker(seed: 1)
    for number: UInt64 in 1...3 {
      let item: UInt64 = number << 32
      let view = snapshot(item: item, hangDelay: 5000)
      #expect(tracker.advance(view, tick(item + 12_000, after: 12_000)).declare)
      tracker.stallRecorded()
      #expect(tracker.advance(view, tick(item + 16_000, after: 4000)).hang, "work item \(number)")
      tracker.hangRecorded()
      #expect(tracker.advance(snapshot(item: 0), tick(item + 17_000, after: 1000)).ended)
      tracker.close(endedAt: 0, lastTick: 0, allowed: 0)
      #expect(!tracker.isUndeclaredStall)
      _ = tracker.owe()
      #expect(tracker.item == 0)
    }
  }

  @Test func resetsStateForNextWorkItem() {
    var tracker = stalled(snapshot(), age: 20_000)
    var exempt = snapshot()
    exempt.exempt = 500
    _ = tracker.advance(exempt, tick(21_500, after: 500))
    #expect(tracker.exemptTime == 500 && tracker.age == 20_000)
    _ = tracker.advance(snapshot(item: 0), tick(22_000, after: 500))
    tracker.close(endedAt: 21_900, lastTick: 21_500, allowed: 1000)
    #expect(tracker.age == 20_400)
    tracker.close(endedAt: 30_000, lastTick: 21_500, allowed: 1 << 40)
    #expect(tracker.age == 20_400)
    _ = tracker.owe()

    let next = snapshot(item: 30_000)
    _ = tracker.advance(next, tick(33_000, after: 11_000))
    #expect(tracker.exemptTime == 0 && tracker.gap == 0 && tracker.age == 3000)
    _ = tracker.advance(snapshot(item: 0), tick(43_000, after: 10_000))
    #expect(!tracker.isUndeclaredStall)
    tracker.close(endedAt: 42_000, lastTick: 33_000, allowed: 10_000)
    #expect(tracker.age == 12_000 && tracker.isUndeclaredStall)
    tracker.stallRecorded()
    #expect(!tracker.isUndeclaredStall)
  }

  @Test func doesNotChargeExemptTime() {
    func view(_ word: Int64, lag: UInt64 = 0) -> WorkItemTracker.SlotSnapshot {
      var view = snapshot()
      (view.exempt, view.lag) = (word, lag)
      return view
    }
    var tracker = WorkItemTracker(seed: 1)
    _ = tracker.advance(view(-1000), tick(1500, after: 700))
    #expect(tracker.age == 0 && tracker.exemptTime == 500)
    _ = tracker.advance(view(700), tick(2000, after: 500))
    #expect(tracker.age == 300 && tracker.exemptTime == 700)
    // Half of the new exempt time lies after the clock reading; it counts later.
    _ = tracker.advance(view(900, lag: 150), tick(2100, after: 100))
    #expect(tracker.age == 300 && tracker.exemptTime == 800)
    _ = tracker.advance(view(900), tick(2300, after: 200))
    #expect(tracker.age == 400 && tracker.exemptTime == 900)
    // The exemption began after the clock reading.
    _ = tracker.advance(view(900 - 2450), tick(2400, after: 100))
    #expect(tracker.age == 500 && tracker.exemptTime == 900)
    _ = tracker.advance(view(.min), tick(2500, after: 100))
    #expect(tracker.age == 500)
    var paused = tick(2700, after: 200)
    paused.paused = 150
    _ = tracker.advance(view(900), paused)
    #expect(tracker.age == 550)
  }

  @Test(arguments: [UInt32(1), 2]) func doesNotChargeExemptTimeBeforeEnd(generation: UInt32) {
    var tracker = WorkItemTracker(seed: 1)
    var view = snapshot()
    view.exempt = 400
    _ = tracker.advance(view, tick(4000, after: 5000))
    #expect(tracker.age == 2600)
    var next = snapshot(item: 13_500)
    next.generation = generation
    next.exempt = generation == 1 ? 5500 : 100
    #expect(tracker.advance(next, tick(14_000, after: 10_000)).ended)
    tracker.close(endedAt: 13_000, exempt: 5400, lastTick: 4000, allowed: 1 << 50)
    #expect(tracker.age == 6600 && !tracker.isUndeclaredStall)
    _ = tracker.owe()
    _ = tracker.advanceToNext(next, tick(14_000, after: 10_000))
    // With one owner, the exempt time can belong to either work item.
    #expect(tracker.age == (generation == 1 ? 0 : 400))
  }

  @Test func countsExemptTimeOfNewWorkItem() {
    var tracker = WorkItemTracker(seed: 1)
    var seen = snapshot(item: 5000)
    seen.exempt = 3000
    seen.lag = 4000
    #expect(!tracker.advance(seen, tick(4000, after: 4000)).declare)
    #expect(!tracker.advance(seen, tick(16_000, after: 12_000)).declare)
    #expect(tracker.age == 8000 && tracker.exemptTime == 3000)
    var other = WorkItemTracker(seed: 1)
    seen = snapshot(item: 3900)
    seen.exempt = 3000
    seen.lag = 4000
    _ = other.advance(seen, tick(4000, after: 4000))
    seen.lag = 0
    #expect(!other.advance(seen, tick(16_000, after: 12_000)).declare)
    #expect(other.age == 9100 && other.exemptTime == 3000)
  }

  /// Each tick sees a new turn, younger than the uncertainty of its begin.
  /// Exempt time of earlier turns must not reduce the age of the last turn, which hangs.
  @Test func doesNotAccumulateExemptTime() {
    var tracker = WorkItemTracker(seed: 1)
    func seen(_ number: UInt64) -> WorkItemTracker.SlotSnapshot {
      var snapshot = snapshot(item: 1000 * number)
      snapshot.clockError = 8
      snapshot.exempt = Int64(500 * number)
      return snapshot
    }
    for number in 1...UInt64(10) { _ = tracker.advance(seen(number), tick(1000 * number + 4, after: 1000)) }
    _ = tracker.advance(seen(10), tick(11_004, after: 1000))
    #expect(tracker.age == 988 && tracker.exemptTime == 8)
    _ = tracker.advance(seen(10), tick(12_004, after: 1000))
    #expect(tracker.age == 1988 && tracker.exemptTime == 8)
  }

  @Test func discardsExemptTimeOfFrozenProcess() {
    for (exempt, lag) in [(Int64(1) << 40, UInt64(0)), (1 << 41, 5), (.min, 0)] {
      var tracker = WorkItemTracker(seed: 1)
      var seen = snapshot(item: 1 << 40)
      (seen.clockError, seen.exempt, seen.lag) = (8, exempt, lag)
      _ = tracker.advance(seen, Tick(now: 1 << 40, elapsed: 1 << 40, allowed: 250))
      seen.exempt = max(exempt, 1 << 40)
      var now: UInt64 = 1 << 40
      for _ in 0..<3 {
        now += 1000
        _ = tracker.advance(seen, tick(now, after: 1000))
      }
      #expect(tracker.age >= 1900, "\(exempt) \(lag): \(tracker.age)")
    }
  }

  @Test func separatesExemptTimeOfOwners() {
    var tracker = WorkItemTracker(seed: 1)
    var former = snapshot(item: 0)
    former.exempt = 10_000
    _ = tracker.advance(former, tick(20_000, after: 20_000))
    var present = snapshot(item: 40_000)
    present.generation = 2
    present.exempt = 0
    _ = tracker.advance(present, tick(30_000, after: 10_000))
    present.exempt = 6000
    _ = tracker.advance(present, tick(48_000, after: 18_000))
    #expect(tracker.exemptTime == 6000 && tracker.age == 2000)
  }

  @Test func treatsEndAtThresholdAsStall() {
    for (end, isStall) in [(UInt64(10_999), false), (11_000, true)] {
      var tracker = WorkItemTracker(seed: 1)
      _ = tracker.advance(snapshot(), tick(4000, after: 5000))
      _ = tracker.advance(snapshot(item: 0), tick(20_000, after: 16_000))
      tracker.close(endedAt: end, lastTick: 4000, allowed: 16_000)
      #expect(tracker.isUndeclaredStall == isStall)
    }
  }

  /// An end before the last sighting, from an early clock reading, must not reduce the age.
  @Test func endNeverReducesAge() {
    for end in [UInt64(1), 3000, 4000] {
      var tracker = WorkItemTracker(seed: 1)
      _ = tracker.advance(snapshot(), tick(4000, after: 5000))
      _ = tracker.advance(snapshot(item: 0), tick(20_000, after: 16_000))
      tracker.close(endedAt: end, lastTick: 4000, allowed: 16_000)
      #expect(tracker.age == 3000)
    }
  }

  @Test func boundsChargeAtFirstSighting() {
    for (unwatched, age) in [(UInt64(0), UInt64(700)), (250, 950), (5000, 5000)] {
      var tracker = WorkItemTracker(seed: 1)
      var view = snapshot()
      view.unwatched = unwatched
      _ = tracker.advance(view, Tick(now: 6000, elapsed: 5000, allowed: 700))
      #expect(tracker.age == age && tracker.gap == 5000 - age)
      #expect(tracker.item == 1000 && tracker.generation == 1)
    }
    var tracker = WorkItemTracker(seed: 1)
    #expect(tracker.advance(snapshot(), tick(1000, after: 10)).wait == 2000)
    #expect(tracker.item == 1000 && tracker.age == 0 && tracker.gap == 0)
  }

  @Test func ignoresEndOfYoungWorkItems() {
    var tracker = WorkItemTracker(seed: 1)
    _ = tracker.advance(snapshot(), tick(1500, after: 500))
    let idle = tracker.advance(snapshot(item: 0), tick(2000, after: 500))
    #expect(!idle.ended && idle.wait == .max && !tracker.isSampled)
    _ = tracker.advance(snapshot(item: 1800), tick(2000, after: 500))
    #expect(tracker.item == 1800 && tracker.age == 200)
    _ = tracker.advance(snapshot(item: 2100), tick(2300, after: 300))
    #expect(tracker.item == 2100 && tracker.age == 200)
  }

  @Test func samplesAtThreshold() {
    for seed: UInt64 in 1...50 {
      var tracker = WorkItemTracker(seed: seed)
      let view = snapshot(interval: 700)
      var ages: [UInt64] = []
      for now: UInt64 in stride(from: 1010, through: 16_000, by: 10) {
        let step = tracker.advance(view, tick(now, after: 10))
        if step.sample { ages.append(tracker.age) }
        if step.declare { tracker.stallRecorded() }
      }
      #expect(ages.contains(10_000), "seed \(seed): \(ages)")
      #expect(ages.count > 15)
    }
  }

  @Test func changesIntervalAtThreshold() {
    for seed: UInt64 in 1...20 {
      for age in [UInt64(9999), 10_000] {
        var tracker = WorkItemTracker(seed: seed)
        var view = snapshot(interval: 1 << 30)
        view.earlyInterval = 2
        let step = tracker.advance(view, tick(1000 + age, after: 1 << 40))
        #expect(step.sample)
        tracker.stallRecorded()
        let soon = tracker.advance(view, tick(1000 + age + 5, after: 5))
        #expect(soon.sample == (age < 10_000), "seed \(seed), \(age)")
      }
    }
  }

  /// Compares a tracker with an independent account of the same ticks.
  @Test(arguments: UInt64(1)...200)
  func matchesReferenceAccounting(seed: UInt64) {
    var random = SplitMix(seed)
    let threshold = UInt64.random(in: 1_000_000...2_000_000_000, using: &random)
    var view = snapshot(
      item: 1 << 40,
      suspicion: threshold / 8,
      threshold: threshold,
      interval: max(2, threshold / 10),
      hangDelay: UInt64.random(in: 0...threshold, using: &random)
    )
    let allowed = threshold / 5
    var tracker = WorkItemTracker(seed: seed)
    var now = (1 << 40) + UInt64.random(in: 0...allowed, using: &random)
    var (age, gap, exempt) = (now - (1 << 40), UInt64(0), UInt64(0))
    var elapsed = allowed
    var recordedAt: UInt64?
    var lastEvent: UInt64 = 0
    var (isSuspected, isHangRecorded) = (false, false)
    for number in 0..<60 {
      let step = tracker.advance(view, Tick(now: now, elapsed: elapsed, allowed: allowed))
      #expect(tracker.age == age && tracker.gap == gap && tracker.exemptTime == exempt)
      #expect(step.suspect == (!isSuspected && age >= view.suspicion))
      isSuspected = isSuspected || age >= view.suspicion
      #expect(tracker.isSampled == isSuspected && tracker.isStalled == (isSuspected && age >= threshold))
      #expect(step.declare == (age >= threshold && recordedAt == nil))
      #expect(step.hang == (recordedAt != nil && !isHangRecorded && age >= threshold + view.hangDelay))
      #expect(step.goesOn == (recordedAt != nil && age >= lastEvent + Self.eventInterval))
      if step.goesOn { lastEvent = age }
      expectNothingBefore(step.wait, tracker, view, now)
      if step.declare, Bool.random(using: &random) {
        (recordedAt, lastEvent) = (age, age)
        tracker.stallRecorded()
      }
      if step.hang, Bool.random(using: &random) {
        isHangRecorded = true
        tracker.hangRecorded()
      }
      elapsed = UInt64.random(in: 1...(number % 7 == 0 ? 4 * allowed : allowed), using: &random)
      now += elapsed
      let charged = min(elapsed, allowed)
      let part = number % 5 == 3 ? UInt64.random(in: 0...elapsed, using: &random) : 0
      view.exempt += Int64(part)
      gap += elapsed - charged
      exempt += min(part, charged)
      age += charged - min(part, charged)
    }
    #expect(age > threshold)
  }

  private func expectNothingBefore(
    _ wait: UInt64,
    _ tracker: WorkItemTracker,
    _ view: WorkItemTracker.SlotSnapshot,
    _ now: UInt64
  ) {
    guard wait > 1, wait < .max else { return }
    func isAnythingDue(after time: UInt64) -> Bool {
      var copy = tracker
      let step = copy.advance(view, tick(now + time, after: time))
      return step.sample || step.declare || step.hang || step.goesOn
    }
    guard !isAnythingDue(after: 0) else { return }
    #expect(!isAnythingDue(after: wait - 1))
    #expect(isAnythingDue(after: wait))
  }
}
