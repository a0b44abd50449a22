import CulpritStallRecord

/// Why a stall's work did not go on: what each sample says, in sum.
///
/// The time of a sample in which the thread waited belongs to what it waited for. That of one in which it ran is divided by what
/// the kernel counted around it: what it used a processor for, and what it was ready for without one. All parts together are
/// the stall.
struct CauseFinder {
  private let stall: Stall
  private let observations: Observations
  private let chains: [WaitChain]
  /// The chain that a sample belongs to, by the sample's number.
  private let chainOf: [Int: Int]
  private let awaited: AwaitedObjects
  private typealias Reason = AwaitedObjects.Reason

  /// The most parts of a cause that are told.
  private static let partsMax = 4

  init(
    _ stall: Stall,
    _ observations: Observations,
    _ chains: (all: [WaitChain], of: [Int: Int]),
    architecture: String
  ) {
    (self.stall, self.observations) = (stall, observations)
    (self.chains, chainOf) = (chains.all, chains.of)
    awaited = AwaitedObjects(architecture: architecture)
  }

  private struct Sum {
    var time = Duration.zero
    var likely = Duration.zero
    var samples = 0
    var parts: [Cause.Subject: Duration] = [:]

    mutating func add(_ reason: Reason, _ time: Duration) {
      self.time += time
      if reason.isLikely { likely += time }
      if let subject = reason.subject { parts[subject, default: .zero] += time }
    }

    /// Takes what `other` has.
    mutating func take(_ other: Sum, as subject: Cause.Subject?) {
      time += other.time
      likely += other.likely
      samples += other.samples
      if let subject {
        parts[subject, default: .zero] += other.time
      } else {
        parts.merge(other.parts) { $0 + $1 }
      }
    }
  }

  /// The causes, the heaviest first.
  func causes() -> [Cause] {
    var sums: [Cause.Kind: Sum] = [:]
    let uses = uses()
    let congested = congestedSamples()
    let reasons = observations.sampleTimes.enumerated().map { number, observed in
      congested.contains(number) ? Reason(.congestion) : reason(number, observed.sample)
    }
    let missed = missedReason(reasons)
    for (number, observed) in observations.sampleTimes.enumerated() {
      let reason = reasons[number]
      let use = Self.mayRun(observed.sample) && reason.kind != .congestion ? uses[number] : Use()
      func add(_ reason: Reason, _ part: Double) {
        guard part > 0 else { return }
        sums[reason.kind, default: Sum()].add(reason, observed.time * part)
        sums[reason.kind]?.samples += 1
      }
      add(Reason(.noProcessor), use.delayed)
      if observed.sample.activity == .unknown, use.isKnown {
        // What it used a processor for it has computed, whatever it was said to do.
        add(ofRunning(frames(number)), 1 - use.delayed - use.waited)
        add(reason, use.waited)
        continue
      }
      add(reason, 1 - use.delayed - use.waited)
      add(Self.waitingKinds.contains(reason.kind) ? reason : missed ?? reason, use.waited)
    }
    settleAllocation(&sums)
    settleFaults(&sums)
    let rest = observations.duration - sums.values.reduce(.zero) { $0 + $1.time }
    if rest.inSeconds > 1e-6 { sums[.unknown, default: Sum()].time += rest }
    return sums.filter { $0.value.time > .zero }.map(cause).sorted(by: Self.isHeavier)
  }

  private func cause(_ kind: Cause.Kind, _ sum: Sum) -> Cause {
    let parts = Self.merged(sum.parts).sorted {
      $0.value != $1.value ? $0.value > $1.value : "\($0.key)" < "\($1.key)"
    }
    return Cause(
      kind: kind,
      share: observations.share(of: sum.time),
      sampleCount: sum.samples,
      isLikely: sum.likely * 2 > sum.time,
      parts: parts.prefix(Self.partsMax).map { Cause.Part(subject: $0.key, share: observations.share(of: $0.value)) }
    )
  }

  private static func isHeavier(_ one: Cause, _ other: Cause) -> Bool {
    guard one.share.time == other.share.time else { return one.share.time > other.share.time }
    let order = Cause.Kind.allCases
    return (order.firstIndex(of: one.kind) ?? 0) < (order.firstIndex(of: other.kind) ?? 0)
  }

  /// `parts`, in which the same descriptor with other counts of bytes is one.
  private static func merged(_ parts: [Cause.Subject: Duration]) -> [Cause.Subject: Duration] {
    var kept: [Cause.Subject: (subject: Cause.Subject, most: Duration, sum: Duration)] = [:]
    for (subject, time) in parts {
      var key = subject
      if case .descriptor(let found) = subject {
        key = .descriptor(Descriptor(number: found.number, target: found.target, isCut: found.isCut))
      }
      guard let known = kept[key] else {
        kept[key] = (subject, time, time)
        continue
      }
      kept[key] = (time > known.most ? subject : known.subject, max(time, known.most), known.sum + time)
    }
    return Dictionary(kept.values.map { ($0.subject, $0.sum) }) { $0 + $1 }
  }

  /// What a thread can wait for while it is at work on it.
  private static let waitingKinds: Set<Cause.Kind> = [.file, .network, .memory]

  /// What a thread waited for when it was not found waiting: what it was found waiting for at other times, or page faults where there
  /// were many. `nil` where that is not known.
  private func missedReason(_ reasons: [Reason]) -> Reason? {
    var times: [Reason: Duration] = [:]
    for (observed, reason) in zip(observations.sampleTimes, reasons)
    where observed.sample.activity.isWaiting && reason.kind != .unknown {
      times[reason, default: .zero] += observed.time
    }
    let heaviest = times.max { $0.value != $1.value ? $0.value < $1.value : "\($0.key)" < "\($1.key)" }
    if let heaviest { return heaviest.key }
    return hasManyFaults ? Reason(.memory, .pageFault) : nil
  }

  private var hasManyFaults: Bool { (faults?.majorFaults ?? 0) >= Self.manyFaults }
  private var faults: ThreadCounters? { StallCounts(observations.sampleTimes.map(\.sample)).thread }

  // MARK: - One sample

  private func reason(_ number: Int, _ sample: Sample) -> Reason {
    if sample.isInTheWay { return Reason(.congestion, AwaitedObject.freeThread) }
    let frames = frames(number)
    switch sample.activity {
    case .running: return ofRunning(frames)
    case .enqueued: return Reason(.congestion, AwaitedObject.freeThread)
    case .suspended: return ofSuspended(frames)
    case .blocked:
      let isForMap = sample.evidence.kernelFunction.hasPrefix("rwsem_")
      return Reason(.memory, isForMap ? .addressSpace : .pageFault)
    case .inSystemCall(let call):
      return ofLock(number, sample, awaited.reason(sample, call: call, frames))
    case .inRestartedCall(let call): return awaited.reason(sample, call: call, frames)
    case .unknown:
      if sample.outcome == .noWorker { return Reason(.congestion, .object(.freeThread), isLikely: true) }
      return awaited.reason(sample, call: nil, frames)
    }
  }

  private func frames(_ number: Int) -> [WeightedStack.Frame] {
    observations.places[number].map { observations.stacks[$0].stack.frames } ?? []
  }

  /// What the lock's words and the chain that they lead to add to `reason`, which the functions have told.
  private func ofLock(_ number: Int, _ sample: Sample, _ reason: Reason) -> Reason {
    guard let place = chainOf[number], chains.indices.contains(place), let link = chains[place].links.first else {
      return reason
    }
    if chains[place].isDeadlock { return Reason(.deadlock, .object(Self.object(link.kind))) }
    switch reason.kind {
    case .initialization, .loader, .threadEnd, .lock: return reason
    default: break
    }
    let kind: Cause.Kind = link.kind == .thread ? .threadEnd : .lock
    return Reason(kind, .object(Self.object(link.kind)), isLikely: !link.isConfirmed)
  }

  private static func object(_ kind: HeldLock.Kind) -> AwaitedObject {
    switch kind {
    case .mutex: .mutex
    case .readWriteLock: .readWriteLock
    case .queue: .queue
    case .word, .thread, .unknown: .lock
    }
  }

  private func ofRunning(_ frames: [WeightedStack.Frame]) -> Reason {
    guard !frames.isEmpty else { return Reason(.computing) }
    let work = WorkKinds.work(frames)
    return switch work {
    case .kind(.deallocation): Reason(.deallocation)
    case .kind(.fileAccess): Reason(.file)
    case .kind(.sockets): Reason(.network)
    default: Reason(.computing, .work(work))
    }
  }

  /// Where a task waits: its innermost function is on top.
  private func ofSuspended(_ frames: [WeightedStack.Frame]) -> Reason {
    let isAsleep = frames.reversed().prefix { !$0.isApplication }
      .contains { $0.owner == .system && ($0.resolved.function?.contains("sleep(") ?? false) }
    return isAsleep ? Reason(.sleep) : Reason(.awaiting)
  }

  // MARK: - Several samples

  /// What a thread that was found running did of its time, of that which is known.
  private struct Use {
    /// The part in which it was ready, and had no processor.
    var delayed = 0.0
    /// The part in which it waited for something, too shortly to be found so.
    var waited = 0.0
    /// Whether anything was counted.
    var isKnown = false
  }

  /// For each sample of a running thread what the kernel counted around it.
  ///
  /// A wait for a processor is counted when it ends: a run of such samples has what was counted from the one before it to the one
  /// behind it.
  private func uses() -> [Use] {
    let samples = observations.sampleTimes.map(\.sample)
    var uses = [Use](repeating: Use(), count: samples.count)
    var begin = 0
    while begin < samples.count {
      guard Self.mayRun(samples[begin]) else {
        begin += 1
        continue
      }
      var end = begin
      while end + 1 < samples.count, Self.mayRun(samples[end + 1]),
        samples[end + 1].threadID == samples[begin].threadID
      {
        end += 1
      }
      divide(begin, end, samples, &uses)
      begin = end + 1
    }
    return uses
  }

  /// Whether the kernel has not said that the thread waited.
  private static func mayRun(_ sample: Sample) -> Bool { sample.activity == .running || sample.activity == .unknown }

  /// What a run is looked at in parts of: that many of its samples at once.
  private static let window = 8

  private func divide(_ begin: Int, _ end: Int, _ samples: [Sample], _ uses: inout [Use]) {
    let whole = counted(begin, end, samples)
    var first = begin
    while first <= end {
      let last = min(first + Self.window - 1, end)
      let part = counted(first, last, samples) ?? whole
      for number in first...last { uses[number] = part ?? Use() }
      first = last + 1
    }
  }

  /// What the thread did between the sample before `begin` and the one behind `end`; `nil` where nothing was counted.
  private func counted(_ begin: Int, _ end: Int, _ samples: [Sample]) -> Use? {
    func isSame(_ number: Int) -> Bool {
      samples.indices.contains(number) && samples[number].threadID == samples[begin].threadID
    }
    let from = isSame(begin - 1) ? begin - 1 : begin
    let to = isSame(end + 1) ? end + 1 : end
    guard from < to, let usedBefore = samples[from].cpuTime, let usedAfter = samples[to].cpuTime,
      let delayBefore = samples[from].runDelay, let delayAfter = samples[to].runDelay,
      usedAfter >= usedBefore, delayAfter >= delayBefore
    else { return nil }
    let used = (usedAfter - usedBefore).inSeconds
    let delayed = (delayAfter - delayBefore).inSeconds + uncounted(from, to, samples).inSeconds
    // Half of the way to a neighbour that was found waiting is its own.
    let passed = (from..<to).reduce(0.0) { sum, number in
      let areRunning = Self.mayRun(samples[number]) && Self.mayRun(samples[number + 1])
      return sum + (samples[number + 1].age - samples[number].age).inSeconds * (areRunning ? 1 : 0.5)
    }
    guard used + delayed > 0 else { return nil }
    let known = max(used + delayed, passed)
    let waited = 1 - (used + delayed) / known
    // Clocks are read a moment after the stack is taken.
    guard waited > Self.muchWaiting else { return Use(delayed: delayed / (used + delayed), isKnown: true) }
    return Use(delayed: delayed / known, waited: waited, isKnown: true)
  }

  /// A smaller part of the time between samples that is not accounted for says nothing.
  private static let muchWaiting = 0.15

  /// How long the thread was ready without a processor up to the sample `to`, which was not counted yet: it ran all the time as the
  /// kernel has it, and used nothing.
  private func uncounted(_ from: Int, _ to: Int, _ samples: [Sample]) -> Duration {
    var first = to
    while first > from, samples[first].activity == .running, samples[first - 1].cpuTime == samples[to].cpuTime,
      samples[first - 1].runDelay == samples[to].runDelay
    {
      first -= 1
    }
    return samples[to].age - samples[first].age
  }

  /// The samples in which a queue did what it could, and had more to do: waiting work was taken up just before, or just after.
  private func congestedSamples() -> Set<Int> {
    guard case .moved? = stall.queueProgress else { return [] }
    return Set(observations.sampleTimes.indices)
  }

  /// Processor time in the kernel of code that is in no system call is that of page faults, where many needed reading: memory is looked
  /// for then, and freed.
  private func settleFaults(_ sums: inout [Cause.Kind: Sum]) {
    guard hasManyFaults, let counted = faults, var computing = sums[.computing] else { return }
    let ticks = counted.userTicks + counted.systemTicks
    guard ticks >= Self.enoughTicks else { return }
    let part = Double(counted.systemTicks) / Double(ticks)
    guard part > Self.muchOfTheKernel else { return }
    var faults = Sum()
    faults.add(Reason(.memory, .pageFault), computing.time * part)
    faults.samples = computing.samples
    computing.time = computing.time * (1 - part)
    computing.parts = computing.parts.mapValues { $0 * (1 - part) }
    sums[.computing] = computing
    sums[.memory, default: Sum()].take(faults, as: nil)
  }

  /// Fewer are nothing unusual, and take no time.
  private static let manyFaults: UInt64 = 50
  /// Fewer ticks tell no share.
  private static let enoughTicks: UInt64 = 20
  /// A smaller part of the processor time in the kernel is that of interrupts and the like.
  private static let muchOfTheKernel = 0.2

  /// What allocates and frees in turn allocates: nothing is destroyed.
  private func settleAllocation(_ sums: inout [Cause.Kind: Sum]) {
    let allocation = Cause.Subject.work(.kind(.allocation))
    guard let freed = sums[.deallocation], let allocated = sums[.computing]?.parts[allocation],
      allocated * 3 > freed.time
    else { return }
    sums[.deallocation] = nil
    sums[.computing]?.take(freed, as: allocation)
  }
}
