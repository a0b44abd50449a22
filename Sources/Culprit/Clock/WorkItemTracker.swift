/// Follows one target slot from tick to tick and decides what the monitor is to do about it.
///
/// A pure state machine: what the slot shows and what time has passed come in, what to do comes out. It reads no clock,
/// so that tests drive time. All times are nanoseconds.
struct WorkItemTracker {
  /// How often the recorder is told of a stall that it goes on, so that a process that is killed leaves its stall's
  /// duration to within a tick of the monitor: less than half of that, so that a late wake-up is still in time.
  static let tellInterval: UInt64 = 100_000_000
  /// With many stalls at once the recorder is told of each of them more rarely: each adds so much to the interval beyond
  /// ``tellInterval``.
  static let tellIntervalPerStall: UInt64 = 2_000_000
  /// After the threshold a gap between samples is the age divided by this. At the threshold that is the early interval
  /// (``WatchLimits``).
  static let samplesInAnAge: UInt64 = 20

  /// What the slot shows.
  struct SlotSnapshot {
    /// The work item under way, 0 when there is none.
    var item: UInt64
    /// How much earlier than the truth `item` can be.
    var doubt: UInt64
    var generation: UInt32
    var suspicion: UInt64
    var threshold: UInt64
    var earlyInterval: UInt64
    var interval: UInt64
    /// How long after the threshold the stall is a hang.
    var hangDelay = UInt64.max
    /// How old the work item was when its watch began.
    var unwatched: UInt64 = 0
    /// How much of the slot's time has been exempt (observer_exemption_sum).
    var exempt: Int64 = 0
    /// How long after the clock of the tick that was read, at most.
    var lag: UInt64 = 0
    /// When a look for another work item of the same thread last served this one, too; 0: never.
    var sharedAt: UInt64 = 0
    /// Whether a task works on it.
    var isTask = false

    // Written out because the compiler checks @_noLocks file by file, and does not see into another file's implicit
    // one.
    @_noLocks init(
      item: UInt64,
      doubt: UInt64,
      generation: UInt32,
      suspicion: UInt64,
      threshold: UInt64,
      earlyInterval: UInt64,
      interval: UInt64
    ) {
      self.item = item
      self.doubt = doubt
      self.generation = generation
      self.suspicion = suspicion
      self.threshold = threshold
      self.earlyInterval = earlyInterval
      self.interval = interval
    }
  }

  /// When the monitor ticked.
  struct Tick {
    /// Now, on the clock that work items are stamped with.
    var now: UInt64
    /// The time since the last tick.
    var elapsed: UInt64
    /// The most of it that a work item may be charged with: the rest passed while this process was not running.
    var allowed: UInt64
    /// How much of it the watchdog was paused.
    var paused: UInt64 = 0
    /// Whether it is paused still.
    var isPaused = false
    /// The time after which the recorder is told again that a stall goes on.
    var tellInterval = WorkItemTracker.tellInterval

    @_noLocks init(now: UInt64, elapsed: UInt64, allowed: UInt64) {
      self.now = now
      self.elapsed = elapsed
      self.allowed = allowed
    }

    /// A tick at `now`, after one at `last`: no time has passed on a clock that was set back.
    @_noLocks init(now: UInt64, last: UInt64, allowed: UInt64) {
      self.init(now: now, elapsed: now > last ? now &- last : 0, allowed: allowed)
    }

    var charged: UInt64 { @_noLocks get { min(elapsed, allowed) } }
  }

  /// What is to be done.
  struct Step {
    /// The work item that was followed is over: call ``close(endedAt:exempt:lastTick:allowed:paused:)``, then ``owe()``.
    var ended = false
    /// Capture a stack.
    var sample = false
    /// The work item's thread is looked at for the first time.
    var suspect = false
    /// The work item has become a stall: tell the recorder, then call ``stallRecorded()``.
    var declare = false
    /// The stall has become a hang: tell the recorder, then call ``hangRecorded()``.
    var hang = false
    /// The stall goes on: tell the recorder, if there is room.
    var goesOn = false
    /// How long until there may be something to do; `UInt64.max` for a slot whose work, if any, does not grow older: who
    /// lets it grow older again wakes the monitor.
    var wait = UInt64.max
  }

  /// A work item that is over, and what the recorder has to be told of it.
  struct Ended: BitwiseCopyable {
    var item: UInt64
    var generation: UInt32
    var age: UInt64
    var gap: UInt64
    var threshold: UInt64
    /// The samples that were not taken for want of processor time.
    var spared: UInt64
    /// Who worked on it, 0 if unknown.
    var tid: Int32
    /// Whether a task worked on it.
    var isTask: Bool
    /// Whether it took longer than it might.
    var isStall: Bool
    /// Whether the recorder knows that.
    var isDeclared: Bool
  }

  private enum Phase {
    /// Nothing is followed.
    case idle
    /// Too young to be looked at.
    case young
    /// Sampled, within its threshold.
    case suspected
    /// Past its threshold.
    case stalled
    /// Over, and nothing has been done about that yet.
    case over
  }

  private var phase = Phase.idle
  /// The work item that is followed, and the slot's owner then.
  private(set) var item: UInt64 = 0
  private(set) var generation: UInt32 = 0
  /// How old the work item is, not counting the times when the process was not running, and what was not counted.
  private(set) var age: UInt64 = 0
  private(set) var gap: UInt64 = 0
  /// How much of its time was exempt: it is not in the age.
  private(set) var exemptTime: UInt64 = 0
  private var exemptions = ExemptTime()
  /// The same at the tick before this one.
  private var exemptionsBefore = ExemptTime()
  /// The slot's owner whose exemptions these are.
  private var exemptGeneration: UInt32 = 0
  /// How much of the time since the last tick was exempt.
  private var exemptInTick: UInt64 = 0
  /// The age at which the next sample is due.
  private var nextSample: UInt64 = 0
  /// When a look for another work item last served this one.
  private var sharedAt: UInt64 = 0
  /// The age at which the recorder is told next that the stall goes on.
  private var nextTold: UInt64 = 0
  private var tellInterval = WorkItemTracker.tellInterval
  /// The samples that were not taken for want of processor time.
  private(set) var spared: UInt64 = 0
  private var isTask = false
  /// How much longer than its age the work item can have taken.
  private var doubt: UInt64 = 0
  /// Whether the age is that of the work item's end.
  private var isClosed = false
  /// What the work item may take.
  private(set) var threshold: UInt64 = 0
  /// Whether the recorder knows that the work item is a stall.
  private var isDeclared = false
  /// Whether it knows that the stall is a hang.
  private var isHangTold = false
  /// What the recorder has not been told of yet, for want of room.
  private(set) var owed: Ended?

  private var gaps: SampleGaps

  /// A tracker whose samples are as far apart as follows from `seed`.
  @_noLocks init(seed: UInt64) { gaps = SampleGaps(seed: seed) }

  /// Follows the slot for one tick.
  @_noLocks mutating func advance(_ snapshot: SlotSnapshot, _ tick: Tick) -> Step {
    exemptionsBefore = exemptions
    if snapshot.generation != exemptGeneration {
      exemptGeneration = snapshot.generation
      exemptions = ExemptTime()
    }
    exemptInTick = exemptions.take(snapshot.exempt, tick, lag: snapshot.lag)
    return follow(snapshot, tick)
  }

  /// The same for the work item that came after the one that ``advance(_:_:)`` has found to be over, in the same tick.
  @_noLocks mutating func advanceToNext(_ snapshot: SlotSnapshot, _ tick: Tick) -> Step { follow(snapshot, tick) }

  @_noLocks private mutating func follow(_ snapshot: SlotSnapshot, _ tick: Tick) -> Step {
    var step = Step()
    tellInterval = tick.tellInterval
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
      // It began since the time of this tick was read. Counted from here it would gain what lies between the two.
      guard tick.now >= begun(snapshot) else {
        // What was exempt from its begin on is its own.
        exemptions.giveBack(snapshot.lag &+ snapshot.doubt)
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
    if phase == .stalled, !isHangTold, age >= hangAge(snapshot) { step.hang = true }
    if phase == .stalled, age >= nextTold {
      step.goesOn = true
      nextTold = age &+ tellInterval
    }
    step.wait = snapshot.exempt < 0 || tick.isPaused ? .max : wait(snapshot)
    return step
  }

  /// Settles the age of a work item that is over.
  ///
  /// - Parameters:
  ///   - endedAt: When it ended, 0 if that is not known: it is then taken to have ended when it was last seen.
  ///   - exempt: What of the slot's time had been exempt by then.
  ///   - lastTick: The time of the tick before this one.
  ///   - allowed: The most that may be added since then.
  ///   - paused: How much of the time since then the watchdog was paused.
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

  /// Makes the work item older by `time`, of which `exempt` does not count. Where it began since the last tick, that may
  /// have been the one's before: it is not charged with it either.
  @_noLocks private mutating func charge(_ time: UInt64, exempt: UInt64) {
    let exempt = min(time, exempt)
    exemptTime &+= exempt
    age &+= time &- exempt
  }

  /// Whether the work item, which is over, took longer than it might and nobody has noticed: it passed its threshold
  /// and ended between two ticks.
  var isUndeclaredStall: Bool { @_noLocks get { phase == .over && !isDeclared && age >= threshold } }

  /// Whether the work item is being sampled.
  var isSampled: Bool { @_noLocks get { phase == .suspected || phase == .stalled } }

  /// Whether the work item takes longer than it may, told or not.
  var isStalled: Bool { @_noLocks get { (phase == .stalled || phase == .suspected) && age >= threshold } }

  /// The recorder has been told that the work item is a stall.
  @_noLocks mutating func stallRecorded() {
    isDeclared = true
    nextTold = age &+ tellInterval
    if phase != .over { phase = .stalled }
  }

  /// A sample that was due has not been taken for want of processor time.
  @_noLocks mutating func sampleSpared() { spared &+= 1 }

  /// The recorder has been told that the stall is a hang.
  @_noLocks mutating func hangRecorded() { isHangTold = true }

  /// The recorder is to be told that the work item is over, at once or when there is room: what comes after it is
  /// followed meanwhile. It can be owed one end: a stall's, if there is one, and the earliest.
  ///
  /// - Parameter tid: Who worked on it, 0 if unknown.
  /// - Returns: Whether a stall is given up for that.
  @_noLocks mutating func owe(_ tid: Int32 = 0) -> Bool {
    guard phase == .over else { return false }
    let isStall = isDeclared || isUndeclaredStall
    let keepsEarlier = owed?.isStall ?? false
    if !keepsEarlier {
      owed = Ended(
        item: item,
        generation: generation,
        // The limit is checked against the age that is certain. The duration of a stall is the expected one.
        age: isStall ? age &+ doubt / 2 : age,
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

  /// The recorder has been told that what is owed was a stall.
  @_noLocks mutating func owedStallRecorded() { owed?.isDeclared = true }

  /// The recorder has been told of what was owed.
  @_noLocks mutating func endRecorded() { owed = nil }

  /// When the work item began, at the latest: counted from an earlier time, work that kept to its limit would be called
  /// a stall.
  @_noLocks private func begun(_ snapshot: SlotSnapshot) -> UInt64 { snapshot.item &+ snapshot.doubt }

  @_noLocks private mutating func begin(_ snapshot: SlotSnapshot, _ tick: Tick) {
    phase = .young
    item = snapshot.item
    generation = snapshot.generation
    // The work item is younger than the last tick, or that tick would have seen it.
    let claimed = tick.now &- begun(snapshot)
    let charged = min(claimed, tick.allowed &+ snapshot.unwatched)
    gap = claimed &- charged
    age = 0
    exemptTime = 0
    charge(charged, exempt: exemptInTick &+ tick.paused)
    // What was exempt after the clock was read is its own, too.
    exemptions.giveBack(min(snapshot.lag, exemptInTick &- min(exemptInTick, exemptTime)))
    nextSample = 0
    isClosed = false
    isDeclared = false
    isHangTold = false
    sharedAt = 0
    spared = 0
    isTask = snapshot.isTask
    doubt = snapshot.doubt
  }

  /// Sets the time of the sample after the one that is due now.
  @_noLocks private mutating func schedule(_ snapshot: SlotSnapshot) {
    let gap = gaps.next(distance(snapshot))
    // From the time that was planned, so that late wake-ups do not add up; unless too much was missed.
    let planned = nextSample &+ gap
    setNextSample(nextSample != 0 && planned > age ? planned : age &+ gap, snapshot)
  }

  /// A look for another work item has served this one: the next sample is as far from it as from one of its own.
  @_noLocks private mutating func share(_ snapshot: SlotSnapshot, _ tick: Tick) {
    sharedAt = snapshot.sharedAt
    let since = tick.now > sharedAt ? tick.now &- sharedAt : 0
    let gap = gaps.next(distance(snapshot))
    setNextSample(age &- min(age, since) &+ gap, snapshot)
  }

  /// How far apart samples are at this age, on average. From the threshold on it grows with the age, until it is the
  /// interval: whenever the work item ends, no sample stands for much of it, and little of it comes behind the last one.
  @_noLocks private func distance(_ snapshot: SlotSnapshot) -> UInt64 {
    guard age >= snapshot.threshold else { return snapshot.earlyInterval }
    return min(snapshot.interval, max(snapshot.earlyInterval, age / Self.samplesInAnAge))
  }

  /// The last sample before the threshold is moved to it, so that the moment at which other watchdogs take their only
  /// stack is on record.
  @_noLocks private mutating func setNextSample(_ planned: UInt64, _ snapshot: SlotSnapshot) {
    nextSample = age < snapshot.threshold ? min(planned, snapshot.threshold) : planned
  }

  /// The age at which the stall is a hang.
  @_noLocks private func hangAge(_ snapshot: SlotSnapshot) -> UInt64 {
    let (age, overflow) = snapshot.threshold.addingReportingOverflow(snapshot.hangDelay)
    return overflow ? .max : age
  }

  @_noLocks private func wait(_ snapshot: SlotSnapshot) -> UInt64 {
    let due: UInt64
    switch phase {
    case .young: due = snapshot.suspicion
    case .stalled: due = min(nextTold, isHangTold ? nextSample : min(nextSample, hangAge(snapshot)))
    default: due = min(nextSample, snapshot.threshold)
    }
    return due > age ? due &- age : 0
  }
}

/// How much of the time between two ticks was exempt.
struct ExemptTime: BitwiseCopyable {
  /// What of the sum has been taken, and how much of that at the last tick.
  private var taken: UInt64 = 0
  private var takenLast: UInt64 = 0

  @_noLocks init() {}

  /// Takes what `word` (observer_exemption_sum), which was read up to `lag` after the clock of the tick, has of the time
  /// since the last tick.
  ///
  /// What is exempt of the time after the clock was read is taken at the next tick. No more is, whatever there is of it:
  /// a process that was frozen in an exemption would have hours of them. Where the sum is not known, all of the time is
  /// taken for exempt.
  @_noLocks mutating func take(_ word: Int64, _ tick: WorkItemTracker.Tick, lag: UInt64 = 0) -> UInt64 {
    takenLast = 0
    guard word != .min else { return tick.elapsed }
    // Opened after the clock of the tick was read: nothing yet, and no overflow.
    let sum = UInt64(word < 0 ? max(0, word &+ Int64(bitPattern: tick.now)) : word)
    let new = sum &- min(sum, taken)
    takenLast = min(new, tick.elapsed)
    taken = max(taken, sum &- min(new &- takenLast, lag))
    return takenLast
  }

  /// The next tick takes `time` once more, of what the last one has taken.
  @_noLocks mutating func giveBack(_ time: UInt64) { taken &-= min(time, takenLast) }
}

/// The times between samples: drawn at random from half to one and a half times the interval, which they are on
/// average.
///
/// Work that cycles with the interval would be seen at one phase only, however many samples there are. A gap that is
/// spread over one whole interval makes the phases of any two samples independent of each other.
struct SampleGaps: BitwiseCopyable {
  private var state: UInt64

  /// The same gaps follow from the same `seed`.
  @_noLocks init(seed: UInt64) { state = seed }

  /// The next gap, for this `interval`.
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

/// Where this file's code lies (``Residency``).
func trackerCodeAnchor() -> CodeAnchor { { 2 } }
