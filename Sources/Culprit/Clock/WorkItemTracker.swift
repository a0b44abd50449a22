/// Follows one target slot from tick to tick and decides the monitor's actions.
///
/// A pure state machine: it reads no clock. All times are nanoseconds.
struct WorkItemTracker {
  /// The time between reports of a continuing stall. After a kill, the recorded duration must be accurate to one tick,
  /// even if a wake-up is late.
  static let eventInterval: UInt64 = 100_000_000
  /// With many simultaneous stalls, the time between reports of each is this value times their number.
  static let eventIntervalPerStall: UInt64 = 2_000_000
  /// After the threshold, the gap between samples is the age divided by this number; at the threshold, it equals the
  /// early interval (``WatchLimits``).
  static let samplesInAnAge: UInt64 = 20

  struct SlotSnapshot {
    /// The work item in progress, 0 for none.
    var item: UInt64
    /// The largest error of `item`, which can be too early.
    var clockError: UInt64
    var generation: UInt32
    var suspicion: UInt64
    var threshold: UInt64
    var earlyInterval: UInt64
    var interval: UInt64
    /// The time from the threshold to the hang.
    var hangDelay = UInt64.max
    /// The age of the work item when its watch began.
    var unwatched: UInt64 = 0
    /// The exempt time of the slot (observer_exemption_sum).
    var exempt: Int64 = 0
    /// The longest delay between the readings of the tick's clock and of `exempt`.
    var lag: UInt64 = 0
    /// The time of the last sample shared by another work item; 0: none.
    var sharedAt: UInt64 = 0
    var isTask = false

    @_noLocks init(
      item: UInt64,
      clockError: UInt64,
      generation: UInt32,
      suspicion: UInt64,
      threshold: UInt64,
      earlyInterval: UInt64,
      interval: UInt64
    ) {
      self.item = item
      self.clockError = clockError
      self.generation = generation
      self.suspicion = suspicion
      self.threshold = threshold
      self.earlyInterval = earlyInterval
      self.interval = interval
    }
  }

  struct Tick {
    /// The time on the clock that stamps work items.
    var now: UInt64
    var elapsed: UInt64
    /// The part of `elapsed` that a work item can be charged for, because the process was running.
    var allowed: UInt64
    /// The part of `elapsed` during which the watchdog was paused.
    var paused: UInt64 = 0
    var isPaused = false
    var eventInterval = WorkItemTracker.eventInterval

    @_noLocks init(now: UInt64, elapsed: UInt64, allowed: UInt64) {
      self.now = now
      self.elapsed = elapsed
      self.allowed = allowed
    }

    /// Creates a tick. On a clock that was set back, the elapsed time is 0.
    @_noLocks init(now: UInt64, last: UInt64, allowed: UInt64) {
      self.init(now: now, elapsed: now > last ? now &- last : 0, allowed: allowed)
    }

    var charged: UInt64 { @_noLocks get { min(elapsed, allowed) } }
  }

  struct Step {
    /// The work item is over: call ``close(endedAt:exempt:lastTick:allowed:paused:)``, then ``owe()``.
    var ended = false
    var sample = false
    var suspect = false
    /// The work item has become a stall: report it, then call ``stallRecorded()``.
    var declare = false
    /// The stall has become a hang: report it, then call ``hangRecorded()``.
    var hang = false
    /// The stall continues: report it, if the ring has space.
    var goesOn = false
    /// The time until the next action is possible. `UInt64.max` without work that ages; code that lets work age again
    /// must wake the monitor.
    var wait = UInt64.max
  }

  struct Ended: BitwiseCopyable {
    var item: UInt64
    var generation: UInt32
    var age: UInt64
    var gap: UInt64
    var threshold: UInt64
    /// Number of samples skipped to save CPU time.
    var spared: UInt64
    /// 0 if unknown.
    var tid: Int32
    var isTask: Bool
    var isStall: Bool
    var isDeclared: Bool
  }

  private enum Phase {
    case idle
    /// Too young to be sampled.
    case young
    /// Sampled, and not declared.
    case suspected
    case stalled
    /// Over, and not yet processed.
    case over
  }

  private var phase = Phase.idle
  /// The followed work item, and its slot's owner.
  private(set) var item: UInt64 = 0
  private(set) var generation: UInt32 = 0
  /// The age of the work item, without exempt time and time when the process was not running.
  private(set) var age: UInt64 = 0
  private(set) var gap: UInt64 = 0
  private(set) var exemptTime: UInt64 = 0
  private var exemptions = ExemptTime()
  /// The exemptions as of the previous tick.
  private var exemptionsBefore = ExemptTime()
  /// The owner to which the exemptions belong.
  private var exemptGeneration: UInt32 = 0
  private var exemptInTick: UInt64 = 0
  /// The age at which the next sample is due.
  private var nextSample: UInt64 = 0
  private var sharedAt: UInt64 = 0
  /// The age at which the next report of the continuing stall is due.
  private var nextEvent: UInt64 = 0
  private var eventInterval = WorkItemTracker.eventInterval
  private(set) var spared: UInt64 = 0
  private var isTask = false
  private var clockError: UInt64 = 0
  private var isClosed = false
  private(set) var threshold: UInt64 = 0
  private var isDeclared = false
  private var isHangReported = false
  /// The end still to be reported, because the ring was full.
  private(set) var pendingEnd: Ended?

  private var gaps: SampleGaps

  @_noLocks init(seed: UInt64) { gaps = SampleGaps(seed: seed) }

  @_noLocks mutating func advance(_ snapshot: SlotSnapshot, _ tick: Tick) -> Step {
    exemptionsBefore = exemptions
    if snapshot.generation != exemptGeneration {
      exemptGeneration = snapshot.generation
      exemptions = ExemptTime()
    }
    exemptInTick = exemptions.take(snapshot.exempt, tick, lag: snapshot.lag)
    return follow(snapshot, tick)
  }

  /// Processes the work item that follows an ended one, in the same tick.
  @_noLocks mutating func advanceToNext(_ snapshot: SlotSnapshot, _ tick: Tick) -> Step { follow(snapshot, tick) }

  @_noLocks private mutating func follow(_ snapshot: SlotSnapshot, _ tick: Tick) -> Step {
    var step = Step()
    eventInterval = tick.eventInterval
    if phase == .over {
      step.ended = true
      step.wait = 0
      return step
    }
    if phase != .idle, snapshot.item != item || snapshot.generation != generation {
      let wasSampled = phase != .young
      phase = .idle
      if wasSampled {
        phase = .over
        step.ended = true
        step.wait = 0
        return step
      }
    }
    guard snapshot.item != 0 else { return step }
    threshold = snapshot.threshold
    if phase == .idle {
      // The work item began after the tick's clock was read.
      guard tick.now >= begun(snapshot) else {
        // Exempt time since the beginning belongs to this work item.
        exemptions.giveBack(snapshot.lag &+ snapshot.clockError)
        step.wait = begun(snapshot) &- tick.now &+ snapshot.suspicion
        return step
      }
      begin(snapshot, tick)
    } else {
      charge(tick.charged, exempt: exemptInTick &+ tick.paused)
      gap &+= tick.elapsed &- tick.charged
    }
    if isSampled, snapshot.sharedAt > sharedAt { share(snapshot, tick) }
    if age >= snapshot.suspicion, age >= nextSample {
      step.sample = true
      schedule(snapshot)
      if phase == .young {
        phase = .suspected
        step.suspect = true
      }
    }
    if age >= snapshot.threshold, phase != .stalled { step.declare = true }
    if phase == .stalled, !isHangReported, age >= hangAge(snapshot) { step.hang = true }
    if phase == .stalled, age >= nextEvent {
      step.goesOn = true
      nextEvent = age &+ eventInterval
    }
    step.wait = snapshot.exempt < 0 || tick.isPaused ? .max : wait(snapshot)
    return step
  }

  /// Computes the final age of a work item that is over. Without `endedAt`, the last tick with the work item counts as
  /// its end.
  @_noLocks mutating func close(
    endedAt: UInt64,
    exempt: Int64 = 0,
    lastTick: UInt64,
    allowed: UInt64,
    paused: UInt64 = 0
  ) {
    guard phase == .over, !isClosed else { return }
    isClosed = true
    guard endedAt > lastTick else { return }
    let tick = Tick(now: endedAt, elapsed: endedAt &- lastTick, allowed: allowed)
    charge(tick.charged, exempt: exemptionsBefore.take(exempt, tick) &+ paused)
  }

  /// Adds `time` without `exempt` to the age. `exempt` includes exempt time of an earlier work item in the same tick.
  @_noLocks private mutating func charge(_ time: UInt64, exempt: UInt64) {
    let exempt = min(time, exempt)
    exemptTime &+= exempt
    age &+= time &- exempt
  }

  /// Whether the ended work item passed its threshold and ended between two ticks.
  var isUndeclaredStall: Bool { @_noLocks get { phase == .over && !isDeclared && age >= threshold } }

  var isSampled: Bool { @_noLocks get { phase == .suspected || phase == .stalled } }

  /// Whether the work item is past its threshold, reported or not.
  var isStalled: Bool { @_noLocks get { (phase == .stalled || phase == .suspected) && age >= threshold } }

  @_noLocks mutating func stallRecorded() {
    isDeclared = true
    nextEvent = age &+ eventInterval
    if phase != .over { phase = .stalled }
  }

  @_noLocks mutating func sampleSpared() { spared &+= 1 }

  @_noLocks mutating func hangRecorded() { isHangReported = true }

  /// Stores the end of the work item until it is reported, unless the end of an earlier stall is pending. Returns
  /// whether a stall was dropped.
  @_noLocks mutating func owe(_ tid: Int32 = 0) -> Bool {
    guard phase == .over else { return false }
    let isStall = isDeclared || isUndeclaredStall
    let keepsEarlier = pendingEnd?.isStall ?? false
    if !keepsEarlier {
      pendingEnd = Ended(
        item: item,
        generation: generation,
        // The threshold applies to the certain age; the report shows the expected age.
        age: isStall ? age &+ clockError / 2 : age,
        gap: gap,
        threshold: threshold,
        spared: spared,
        tid: tid,
        isTask: isTask,
        isStall: isStall,
        isDeclared: isDeclared
      )
    }
    phase = .idle
    item = 0
    return keepsEarlier && isStall
  }

  @_noLocks mutating func pendingStallRecorded() { pendingEnd?.isDeclared = true }

  @_noLocks mutating func endRecorded() { pendingEnd = nil }

  /// Returns the latest possible beginning, so work within its limit is never reported.
  @_noLocks private func begun(_ snapshot: SlotSnapshot) -> UInt64 { snapshot.item &+ snapshot.clockError }

  @_noLocks private mutating func begin(_ snapshot: SlotSnapshot, _ tick: Tick) {
    phase = .young
    item = snapshot.item
    generation = snapshot.generation
    // The last tick would have seen an older work item.
    let claimed = tick.now &- begun(snapshot)
    let charged = min(claimed, tick.allowed &+ snapshot.unwatched)
    gap = claimed &- charged
    age = 0
    exemptTime = 0
    charge(charged, exempt: exemptInTick &+ tick.paused)
    // Exempt time after the reading of the tick's clock also belongs to this work item.
    exemptions.giveBack(min(snapshot.lag, exemptInTick &- min(exemptInTick, exemptTime)))
    nextSample = 0
    isClosed = false
    isDeclared = false
    isHangReported = false
    sharedAt = 0
    spared = 0
    isTask = snapshot.isTask
    clockError = snapshot.clockError
  }

  @_noLocks private mutating func schedule(_ snapshot: SlotSnapshot) {
    let gap = gaps.next(distance(snapshot))
    // The gap begins at the planned time, so wake-up delays do not accumulate, unless too much was missed.
    let planned = nextSample &+ gap
    setNextSample(nextSample != 0 && planned > age ? planned : age &+ gap, snapshot)
  }

  /// Schedules the next sample after a shared one.
  @_noLocks private mutating func share(_ snapshot: SlotSnapshot, _ tick: Tick) {
    sharedAt = snapshot.sharedAt
    let since = tick.now > sharedAt ? tick.now &- sharedAt : 0
    let gap = gaps.next(distance(snapshot))
    setNextSample(age &- min(age, since) &+ gap, snapshot)
  }

  /// Returns the average distance between samples. It grows with the age, so no sample represents a large part of the
  /// work item.
  @_noLocks private func distance(_ snapshot: SlotSnapshot) -> UInt64 {
    guard age >= snapshot.threshold else { return snapshot.earlyInterval }
    return min(snapshot.interval, max(snapshot.earlyInterval, age / Self.samplesInAnAge))
  }

  /// Moves the first sample after the threshold to the threshold, where other watchdogs take their only stack.
  @_noLocks private mutating func setNextSample(_ planned: UInt64, _ snapshot: SlotSnapshot) {
    nextSample = age < snapshot.threshold ? min(planned, snapshot.threshold) : planned
  }

  @_noLocks private func hangAge(_ snapshot: SlotSnapshot) -> UInt64 {
    let (age, overflow) = snapshot.threshold.addingReportingOverflow(snapshot.hangDelay)
    return overflow ? .max : age
  }

  @_noLocks private func wait(_ snapshot: SlotSnapshot) -> UInt64 {
    let due: UInt64
    switch phase {
    case .young: due = snapshot.suspicion
    case .stalled: due = min(nextEvent, isHangReported ? nextSample : min(nextSample, hangAge(snapshot)))
    default: due = min(nextSample, snapshot.threshold)
    }
    return due > age ? due &- age : 0
  }
}

/// The exempt part of the time between two ticks.
struct ExemptTime: BitwiseCopyable {
  /// The part of the sum already taken, and the part taken at the last tick.
  private var taken: UInt64 = 0
  private var takenLast: UInt64 = 0

  @_noLocks init() {}

  /// Returns the exempt time since the last tick. If the sum `word` (observer_exemption_sum) is unknown, the whole time
  /// counts.
  ///
  /// Exempt time after the reading of the tick's clock is taken at the next tick, up to `lag`. Without this limit, a
  /// process frozen in an exemption would carry over hours.
  @_noLocks mutating func take(_ word: Int64, _ tick: WorkItemTracker.Tick, lag: UInt64 = 0) -> UInt64 {
    takenLast = 0
    guard word != .min else { return tick.elapsed }
    // An exemption that began after the tick's clock was read counts as 0, and must not overflow.
    let sum = UInt64(word < 0 ? max(0, word &+ Int64(bitPattern: tick.now)) : word)
    let new = sum &- min(sum, taken)
    takenLast = min(new, tick.elapsed)
    taken = max(taken, sum &- min(new &- takenLast, lag))
    return takenLast
  }

  /// Leaves `time` of the last taken exempt time to the next tick.
  @_noLocks mutating func giveBack(_ time: UInt64) { taken &-= min(time, takenLast) }
}

/// The times between samples, drawn at random from half to one and a half times the interval. Fixed gaps would always
/// sample one phase of work that cycles with the interval.
struct SampleGaps: BitwiseCopyable {
  private var state: UInt64

  @_noLocks init(seed: UInt64) { state = seed }

  @_noLocks mutating func next(_ interval: UInt64) -> UInt64 {
    // SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    state &+= 0x9e37_79b9_7f4a_7c15
    var random = state
    random = (random ^ (random >> 30)) &* 0xbf58_476d_1ce4_e5b9
    random = (random ^ (random >> 27)) &* 0x94d0_49bb_1331_11eb
    random ^= random >> 31
    return interval / 2 &+ interval.multipliedFullWidth(by: random).high
  }
}

func trackerCodeAnchor() -> CodeAnchor { { 2 } }
