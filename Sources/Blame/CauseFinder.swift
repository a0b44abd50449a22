import CulpritStallRecord

/// Determines the causes of a stall by adding up its samples. The kernel's counts around a sample divide its time into
/// CPU time, time ready to run without a CPU, and waiting.
struct CauseFinder {
  private let stall: Stall
  private let observations: Observations
  private let chains: [StallReport.WaitChain]
  /// Indices of chains, by the numbers of samples.
  private let chainOf: [Int: Int]
  private let awaited: AwaitedObjects
  private let faults: ThreadCounters?
  private let memoryStalled: Duration?
  private let refaultedBytes: UInt64?
  private let hasMetLimit: Bool
  private let kinds = WorkKinds()
  private let deinitializersCompute: Bool
  /// Whether a queue took up work but could not keep up.
  private let isCongested: Bool
  private typealias Reason = AwaitedObjects.Reason
  typealias Cause = StallReport.Cause

  private static let partsMax = 4

  init(
    _ stall: Stall,
    _ observations: Observations,
    _ chains: (all: [StallReport.WaitChain], of: [Int: Int]),
    _ counts: StallReport.Counts,
    _ faults: ThreadCounters?
  ) {
    (self.stall, self.observations) = (stall, observations)
    (self.chains, chainOf) = (chains.all, chains.of)
    awaited = AwaitedObjects(architecture: observations.architecture)
    self.faults = faults
    memoryStalled = counts.memoryStalled
    refaultedBytes = counts.refaultedBytes
    hasMetLimit = (counts.memoryLimitHits ?? 0) > 0
    deinitializersCompute = Deallocation.deinitializersCompute(observations.stacks.map(\.stack))
    isCongested = stall.queueProgress?.stoodStill == false
  }

  private struct Sum {
    var time = Duration.zero
    var likely = Duration.zero
    var samples = 0
    var parts: [CauseSubject: Duration] = [:]

    mutating func add(_ reason: Reason, _ time: Duration) {
      self.time += time
      if reason.isLikely { likely += time }
      if let subject = reason.subject { parts[subject, default: .zero] += time }
    }

    mutating func take(_ other: Sum, as subject: CauseSubject?) {
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

  func causes() -> [Cause] {
    var sums: [Cause.Kind: Sum] = [:]
    let samples = observations.sampleTimes.map(\.sample)
    let uses = TimeUse.around(samples)
    let reasons = samples.enumerated().map { number, sample in
      isCongested ? Reason(.congestion) : reason(number, sample)
    }
    let missed = missedReason(reasons)
    let running = runningReasons(samples, reasons)
    for (number, observed) in observations.sampleTimes.enumerated() {
      for (reason, part) in parts(observed.sample, reasons[number], uses[number], missed, running[number])
      where part > 0 {
        sums[reason.kind, default: Sum()].add(reason, observed.time * part)
        sums[reason.kind]?.samples += 1
      }
    }
    settleAllocation(&sums)
    settleFaults(&sums)
    settlePressure(&sums)
    let rest = observations.duration - sums.values.reduce(.zero) { $0 + $1.time }
    if rest.inSeconds > 1e-6 { sums[.unknown, default: Sum()].add(Reason(.unknown, .unobserved), rest) }
    settleTraces(&sums)
    return sums.filter { $0.value.time > .zero }.ordered(by: Self.isHeavier).map(cause)
  }

  private func cause(_ kind: Cause.Kind, _ sum: Sum) -> Cause {
    let parts = Self.merged(sum.parts).ordered {
      $0.value != $1.value ? $0.value > $1.value : "\($0.key)" < "\($1.key)"
    }
    let share = observations.share(of: sum.time)
    return Cause(
      kind: kind,
      share: share.fraction,
      seconds: Seconds(share.time),
      sampleCount: sum.samples,
      isLikely: sum.likely * 2 > sum.time,
      subjects: parts.prefix(Self.partsMax).reduce(into: []) { subjects, part in
        let share = observations.share(of: part.value)
        let (code, text) = part.key.description(awaited.architecture)
        // Subjects with equal texts are combined, such as a path and the descriptor opened from it.
        if let place = subjects.firstIndex(where: { $0.text == text }) {
          subjects[place].share += share.fraction
          subjects[place].seconds = Seconds(subjects[place].time + share.time)
          return
        }
        subjects.append(Cause.Subject(code: code, text: text, share: share.fraction, seconds: Seconds(share.time)))
      }
    )
  }

  private static func isHeavier(_ one: (key: Cause.Kind, value: Sum), _ other: (key: Cause.Kind, value: Sum)) -> Bool {
    guard one.value.time == other.value.time else { return one.value.time > other.value.time }
    let order = Cause.Kind.all
    return (order.firstIndex(of: one.key) ?? 0) < (order.firstIndex(of: other.key) ?? 0)
  }

  /// Returns `parts`. Combines descriptors that differ only in their byte counts.
  private static func merged(_ parts: [CauseSubject: Duration]) -> [CauseSubject: Duration] {
    var kept: [CauseSubject: (subject: CauseSubject, most: Duration, sum: Duration)] = [:]
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

  /// Kinds of work that can block while they run.
  private static let waitingKinds: Set<Cause.Kind> = [.file, .network, .memory]

  /// Returns the presumed reason for waits in samples of a running thread: the reason with most time in samples of
  /// a waiting thread. Without such a reason, page faults if they are many.
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

  // MARK: - One sample

  private func reason(_ number: Int, _ sample: Sample) -> Reason {
    switch sample.obstacle {
    case .actor: return Reason(.lock, AwaitedObject.actor)
    case .thread: return Reason(.congestion, AwaitedObject.freeThread)
    case nil: break
    }
    let frames = frames(number)
    // The thread waits for an initialization, but the kernel refuses the wait with EDEADLK.
    if !sample.activity.isWaiting, sample.lock == nil, chainOf[number] != nil {
      return ofLock(number, sample, Reason(.initialization))
    }
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
      let found = awaited.reason(sample, call: nil, frames)
      guard found == Reason(.unknown) else { return found }
      return Reason(.unknown, frames.isEmpty ? .noStack : .noState)
    }
  }

  private func frames(_ number: Int) -> [WeightedStack.Frame] {
    observations.places[number].map { observations.stacks[$0].stack.frames } ?? []
  }

  private func ofLock(_ number: Int, _ sample: Sample, _ reason: Reason) -> Reason {
    guard let place = chainOf[number], chains.indices.contains(place), let link = chains[place].links.first else {
      return reason
    }
    if chains[place].isDeadlock { return Reason(.deadlock, .object(Self.object(link.kind))) }
    switch reason.kind {
    case .initialization, .loader, .threadEnd, .lock: return reason
    default: break
    }
    let kind: Cause.Kind = link.kind == .threadEnd ? .threadEnd : .lock
    return Reason(kind, .object(Self.object(link.kind)), isLikely: link.isLikely)
  }

  private static func object(_ kind: StallReport.WaitLink.Kind) -> AwaitedObject {
    switch kind {
    case .mutex: .mutex
    case .readWriteLock: .readWriteLock
    case .queue: .queue
    case .stream: .stream
    default: .lock
    }
  }

  private func ofRunning(_ frames: [WeightedStack.Frame]) -> Reason {
    guard !frames.isEmpty else { return Reason(.computing, .noStack) }
    let work = kinds.work(frames, deinitializersCompute: deinitializersCompute)
    return switch work {
    case .kind(.deallocation): Reason(.deallocation)
    case .kind(.fileAccess): Reason(.file)
    default: Reason(.computing, .work(work))
    }
  }

  private func ofSuspended(_ frames: [WeightedStack.Frame]) -> Reason {
    AwaitedElsewhere.isAsleep(frames) ? Reason(.sleep) : Reason(.awaiting)
  }

  // MARK: - Several samples

  /// Divides a sample's time among reasons: by the kernel's counts, and the rest as waiting.
  private func parts(_ sample: Sample, _ reason: Reason, _ use: TimeUse, _ missed: Reason?, _ running: Reason?)
    -> [(Reason, Double)]
  {
    guard use.isKnown, reason.kind != .congestion, !sample.isInTheWay else { return [(reason, 1)] }
    let noCPU = Reason(.noCPU, isLikely: use.isDelayEstimated)
    switch sample.activity {
    case .running where reason.kind == .deadlock || reason.kind == .initialization: return [(reason, 1)]
    case .running:
      // Clocks are read slightly after the stack, so a small rest is noise.
      guard use.waited > Self.muchWaiting else {
        let delayed = use.used + use.delayed > 0 ? use.delayed / (use.used + use.delayed) : 0
        return [(reason, 1 - delayed), (noCPU, delayed)]
      }
      let waited = Self.waitingKinds.contains(reason.kind) ? reason : missed ?? reason
      return [(reason, use.used), (noCPU, use.delayed), (waited, use.waited)]
    case .unknown, .inSystemCall, .inRestartedCall, .blocked:
      guard use.used + use.delayed > Self.hardlyRunning else { return [(reason, 1)] }
      let isAtFiles = running == nil && reason.kind == .file
      let computing = isAtFiles ? reason : running ?? Reason(.computing)
      return [(computing, use.used), (noCPU, use.delayed), (reason, use.waited)]
    case .suspended, .enqueued: return [(reason, 1)]
    }
  }

  /// Returns for each sample the reason in the nearest sample with a running thread. A sample with an unknown state
  /// provides its own reason. `nil` if no sample provides a reason.
  private func runningReasons(_ samples: [Sample], _ reasons: [Reason]) -> [Reason?] {
    var nearest = [(reason: Reason, distance: Int)?](repeating: nil, count: samples.count)
    func pass(_ order: some Sequence<Int>) {
      var last: Int?
      for number in order {
        if let known = last, samples[known].threadID != samples[number].threadID { last = nil }
        if samples[number].activity == .running { last = number }
        if samples[number].activity == .unknown, nearest[number] == nil {
          nearest[number] = (ofRunning(frames(number)), 0)
        }
        guard let last, abs(last - number) < nearest[number]?.distance ?? .max else { continue }
        nearest[number] = (reasons[last], abs(last - number))
      }
    }
    pass(samples.indices)
    pass(samples.indices.reversed())
    return nearest.map { $0?.reason }
  }

  /// Minimum share of uncounted time that counts as waiting in samples of a running thread.
  private static let muchWaiting = 0.15
  /// Minimum share of CPU and ready time that counts in samples of a waiting thread. Waking up takes less.
  private static let hardlyRunning = 0.03

  /// Attributes CPU time in the kernel outside system calls to page faults, if they are many.
  private func settleFaults(_ sums: inout [Cause.Kind: Sum]) {
    guard let counted = faults, var computing = sums[.computing],
      hasManyFaults || counted.minorFaults >= Self.manySmallFaults
    else { return }
    let ticks = counted.userTicks + counted.systemTicks
    guard ticks >= Self.enoughTicks else { return }
    let part = Double(counted.systemTicks) / Double(ticks)
    guard part > Self.muchOfTheKernel else { return }
    let own = CauseSubject.work(.ownCode)
    guard hasManyFaults else {
      let found = min(computing.parts[own] ?? .zero, computing.time * part)
      sums[.computing]?.parts[own]? -= found
      sums[.computing]?.parts[.work(.kind(.pageFaults)), default: .zero] += found
      return
    }
    var faults = Sum()
    faults.add(Reason(.memory, .pageFault), computing.time * part)
    faults.samples = computing.samples
    computing.time = computing.time * (1 - part)
    computing.parts = computing.parts.mapValues { $0 * (1 - part) }
    sums[.computing] = computing
    sums[.memory, default: Sum()].take(faults, as: nil)
  }

  /// Minimum number of faults that read from disk, above the usual.
  private static let manyFaults: UInt64 = 50
  private static let manySmallFaults: UInt64 = 20_000
  private static let enoughTicks: UInt64 = 20
  /// Minimum share of CPU time in the kernel. Interrupts cause smaller shares.
  private static let muchOfTheKernel = 0.2

  /// Under memory pressure, attributes file access to memory, because the files had been in memory.
  private func settlePressure(_ sums: inout [Cause.Kind: Sum]) {
    guard let files = sums[.file], areStalled(for: files.time) || areReadAgain else { return }
    var found = files
    found.likely = files.time
    sums[.file] = nil
    sums[.memory, default: Sum()].take(found, as: nil)
  }

  private func areStalled(for time: Duration) -> Bool { memoryStalled.map { $0 * 2 >= time } ?? false }

  /// Whether the thread mainly read from disk, and at least half of the bytes had been in memory before. Below the
  /// group's limit, refaults can belong to other processes of the machine.
  private var areReadAgain: Bool {
    guard hasMetLimit, let faults, let refaultedBytes, refaultedBytes >= Self.manyRefaultedBytes else { return false }
    return faults.diskReadBytes > faults.diskWrittenBytes && refaultedBytes >= faults.diskReadBytes / 2
  }

  /// Minimum number of bytes read again, above the usual.
  private static let manyRefaultedBytes: UInt64 = 1 << 20

  /// Adds causes with a negligible share of the stall to the largest cause.
  private func settleTraces(_ sums: inout [Cause.Kind: Sum]) {
    guard let most = sums.max(by: { $0.value.time < $1.value.time })?.key else { return }
    for (kind, sum) in sums where kind != most && sum.time < observations.duration * 0.001 {
      sums[most]?.time += sum.time
      sums[kind] = nil
    }
  }

  /// Attributes deallocation to allocation in code that alternates between them.
  private func settleAllocation(_ sums: inout [Cause.Kind: Sum]) {
    let allocation = CauseSubject.work(.kind(.allocation))
    guard let freed = sums[.deallocation], let allocated = sums[.computing]?.parts[allocation],
      allocated * 3 > freed.time
    else { return }
    sums[.deallocation] = nil
    sums[.computing]?.take(freed, as: allocation)
  }
}
