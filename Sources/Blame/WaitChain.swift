import CulpritStallRecord

struct WaitGraph {
  private let stall: Stall
  private let stacks: [Stack]
  private let rules: OwnershipRules
  private let resolve: (StackFrame) -> [ResolvedFrame]
  private var observations: [Int32: [Observation]] = [:]
  private var checks: [Check: Bool?] = [:]
  private var initializers: Initializers

  private struct Check: Hashable {
    var stack: Int
    var kind: HeldLock.Kind
  }

  private struct Observation {
    var sample: Sample
    var thread: ObservedThread
    /// The held object, and whether it was still held after the observation; `nil` for threads of the work.
    var holds: (address: UInt64, isHeld: Bool)?

    func isSame(as other: Observation) -> Bool {
      sample.age == other.sample.age && (holds == nil) == (other.holds == nil)
    }
  }

  private struct Signature: Hashable {
    struct Link: Hashable {
      var kind: StallReport.WaitLink.Kind
      var address: UInt64
      var holderID: Int32
      var isOrphaned: Bool
    }

    var links: [Link] = []
    var isCycle = false

    var order: [UInt64] { links.flatMap { [$0.address, UInt64(UInt32(bitPattern: $0.holderID))] } }
  }

  private struct Way {
    var signature = Signature()
    /// For each link, the observation of its holder, and whether a function name confirms the wait.
    var holders: [Observation?] = []
    var isNamed: [Bool] = []
    var isTimed = false
    /// Whether the kernel refuses one of the waits because the wait would never end.
    var isRefused = false

    /// Rotates a cycle to start at its lowest address, independently of the thread where the search began.
    mutating func beginAtLowest() {
      let places = signature.links.indices
      guard let first = places.min(by: { signature.links[$0].address < signature.links[$1].address }) else { return }
      func turned<Element>(_ all: [Element]) -> [Element] { Array(all[first...] + all[..<first]) }
      signature.links = turned(signature.links)
      holders = turned(holders)
      isNamed = turned(isNamed)
    }
  }

  private struct Group {
    var time = Duration.zero
    var numbers: [Int] = []
    var waiters: [Sample] = []
    var holders: [[Observation]]
    var isNamed: [Bool]
    var isTimed = false
    var isRefused = false

    init(_ way: Way) {
      holders = way.holders.map { _ in [] }
      isNamed = way.isNamed
    }

    mutating func add(_ number: Int, _ sample: Sample, _ time: Duration, _ way: Way) {
      numbers.append(number)
      self.time += time
      waiters.append(sample)
      isTimed = isTimed || way.isTimed
      isRefused = isRefused || way.isRefused
      for (place, observation) in way.holders.enumerated() {
        isNamed[place] = isNamed[place] && way.isNamed[place]
        guard let observation, holders[place].last.map({ !$0.isSame(as: observation) }) ?? true else { continue }
        holders[place].append(observation)
      }
    }
  }

  private static let waitingFrames = 8
  private static let chainsMax = 16
  private static let linksMax = 16

  init(
    _ stall: Stall,
    _ stacks: [Stack],
    rules: OwnershipRules,
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    (self.stall, self.stacks, self.rules, self.resolve) = (stall, stacks, rules, resolve)
    initializers = Initializers(stall, stacks, rules: rules, resolve: resolve)
    // Without a wait, the thread of a sample is unknown, because the work might have changed threads.
    for sample in stall.samples {
      guard let id = sample.lock?.waiterID ?? sample.threadID else { continue }
      let thread = ObservedThread(id: id, name: id == stall.thread.id ? stall.thread.name : "")
      observations[id, default: []].append(Observation(sample: sample, thread: thread, holds: nil))
    }
    for holder in stall.holders {
      let observation = Observation(
        sample: holder.sample,
        thread: holder.thread,
        holds: (holder.address, holder.isHeld)
      )
      observations[holder.thread.id, default: []].append(observation)
    }
    observations = observations.mapValues { $0.ordered { $0.sample.age < $1.sample.age } }
  }

  mutating func chains(_ observations: Observations) -> (all: [StallReport.WaitChain], of: [Int: Int]) {
    var groups: [Signature: Group] = [:]
    for (number, (sample, time)) in observations.sampleTimes.enumerated() {
      guard let way = follow(sample) ?? (sample.lock == nil ? initialization(sample) : nil) else { continue }
      groups[way.signature, default: Group(way)].add(number, sample, time, way)
    }
    let heaviest = groups.ordered {
      $0.value.time != $1.value.time
        ? $0.value.time > $1.value.time : $0.key.order.lexicographicallyPrecedes($1.key.order)
    }
    var chainOf: [Int: Int] = [:]
    for (place, group) in heaviest.prefix(Self.chainsMax).enumerated() {
      for number in group.value.numbers { chainOf[number] = place }
    }
    return (heaviest.prefix(Self.chainsMax).map { chain($0, $1, observations) }, chainOf)
  }

  /// Returns the chain to the thread that runs the initialization for which `sample` waits; `nil` if unknown. A single
  /// capture of the threads, when the stall was declared, suffices: no other thread can take over the initialization.
  private mutating func initialization(_ sample: Sample) -> Way? {
    guard sample.activity.isWaiting, let stack = sample.stack, let found = initializers.thread(waitedForBy: stack)
    else { return nil }
    var way = Way()
    way.signature.links = [
      Signature.Link(kind: .initialization, address: 0, holderID: found.thread.id, isOrphaned: false)
    ]
    way.holders = [observationWhenDeclared(found)]
    way.isNamed = [false]
    return way
  }

  private mutating func follow(_ sample: Sample) -> Way? {
    let worker = sample.lock?.waiterID ?? sample.threadID ?? stall.thread.id
    var seen: Set<Int32> = [worker]
    var way = Way()
    var (waiter, waiterID) = (sample, worker)
    while way.holders.count < Self.linksMax {
      guard let lock = waiter.lock else {
        closeRing(&way, at: (waiterID, waiter), from: (worker, sample), &seen)
        break
      }
      let name = isWaiting(waiter, for: lock.kind)
      // The memory is not a lock if the waiting function's name excludes a lock, or if holder and name are missing. If
      // a thread waits for an object it holds, the owner changed during the observation.
      if name == false || (lock.isOrphaned && name == nil)
        || way.signature.links.contains(where: { $0.address == lock.address })
      {
        break
      }
      var observation = nearest(lock.holderID, to: sample.age)
      if observation?.sample.lock?.address == lock.address, lock.holderID != lock.waiterID { observation = nil }
      // A thread that waits for a queue's target already holds the queue, but does not run its work.
      let hasRun =
        lock.kind != .queue
        || observation.map { $0.sample.lock != nil || isWaiting($0.sample, for: .queue) != true } ?? true
      way.signature.links.append(
        Signature.Link(
          kind: StallReport.WaitLink.Kind(lock.kind),
          address: lock.address,
          holderID: lock.holderID,
          isOrphaned: lock.isOrphaned
        )
      )
      way.holders.append(observation)
      way.isNamed.append(name ?? false && hasRun)
      way.isTimed = way.isTimed || lock.isTimed
      guard seen.insert(lock.holderID).inserted else {
        way.signature.isCycle = true
        if lock.holderID == sample.lock?.waiterID { way.beginAtLowest() }
        break
      }
      guard let observation else { break }
      (waiter, waiterID) = (observation.sample, lock.holderID)
    }
    return way.holders.isEmpty ? nil : way
  }

  /// Closes a cycle in which `waiter` waits for a one-time initialization.
  private mutating func closeRing(
    _ way: inout Way,
    at waiter: (id: Int32, sample: Sample),
    from work: (id: Int32, sample: Sample),
    _ seen: inout Set<Int32>
  ) {
    guard let holder = initializers.ringHolder(of: waiter.id, waiter.sample, work: (work.id, work.sample.stack)) else {
      return
    }
    for id in seen.insert(holder).inserted ? [holder, waiter.id] : [holder] {
      way.signature.links.append(
        Signature.Link(kind: .initialization, address: 0, holderID: id, isOrphaned: false)
      )
      way.holders.append(
        id == waiter.id
          ? observation(waiter.id, waiter.sample)
          : id == work.id ? observation(work.id, work.sample) : initializers.thread(id).map(observationWhenDeclared)
      )
      way.isNamed.append(true)
    }
    way.signature.isCycle = true
    way.isRefused = waiter.sample.activity == .running
  }

  private func observation(_ id: Int32, _ sample: Sample) -> Observation {
    Observation(sample: sample, thread: ObservedThread(id: id, name: name(of: id)), holds: nil)
  }

  private func observationWhenDeclared(_ thread: ThreadSample) -> Observation {
    let seen = Sample(
      age: stall.threshold,
      stack: thread.stack,
      outcome: thread.outcome,
      cpuTime: thread.cpuTime,
      activity: thread.activity
    )
    return Observation(sample: seen, thread: thread.thread, holds: nil)
  }

  /// Returns the observation of thread `id` nearest to `age`; `nil` if the observation is distant and the
  /// thread used CPU time around `age`.
  private func nearest(_ id: Int32, to age: Duration) -> Observation? {
    guard let all = observations[id] else { return nil }
    let next = all.partitioningIndex { $0.sample.age >= age }
    let near = all[max(0, next - 1)..<min(all.count, next + 1)]
    func distance(_ observation: Observation) -> Duration {
      observation.sample.age < age ? age - observation.sample.age : observation.sample.age - age
    }
    guard let found = near.min(by: { distance($0) < distance($1) }) else { return nil }
    let times = near.compactMap(\.sample.cpuTime)
    let isStill = near.count == 2 && times.count == 2 && times[0] == times[1]
    return isStill || distance(found) <= stall.threshold / 4 ? found : nil
  }

  /// Whether a function on the stack of `sample` waits for `kind`; `nil` if no function has a name.
  private mutating func isWaiting(_ sample: Sample, for kind: HeldLock.Kind) -> Bool? {
    guard let index = sample.stack, stacks.indices.contains(index) else { return nil }
    // The kernel identifies the owner of a lock word.
    if kind == .word { return true }
    let check = Check(stack: index, kind: kind)
    if let known = checks[check] { return known }
    let names = stacks[index].frames.prefix(Self.waitingFrames).flatMap(resolve).compactMap(\.rawName)
    let found: Bool? = names.isEmpty ? nil : names.contains { kind.isWaitedFor(in: $0) }
    checks[check] = .some(found)
    return found
  }

  private func chain(_ signature: Signature, _ group: Group, _ observations: Observations) -> StallReport.WaitChain {
    let count = signature.links.count
    let isFree = signature.isCycle && !group.isRefused && hasTask(group)
    let links = signature.links.enumerated().map { place, link in
      let holders = group.holders[place]
      let held = holders.filter { $0.holds.map { $0.address == link.address && $0.isHeld } ?? false }
      // Certainty requires two observations of the holder or of waiting threads.
      let waiters = place > 0 ? group.holders[place - 1].count : signature.isCycle ? group.holders[count - 1].count : 0
      let isCertain =
        !held.isEmpty || waiters > 1 || group.isRefused || (place == 0 && group.waiters.count > 1)
      let observed = seen(holders, observations.architecture)
      let stack = observed.last?.stack.frames.reversed().map { StallReport.Function($0.content, rules) } ?? []
      return StallReport.WaitLink(
        kind: link.kind,
        address: link.address,
        holder: StallReport.Thread(id: link.holderID, name: name(of: link.holderID)),
        hasHolderEnded: link.isOrphaned,
        isLikely: !isCertain || !group.isNamed[place] || isFree,
        culprit: observed.culprit,
        stack: stack.isEmpty ? nil : StallReport.Stack(functions: stack, missingCallers: nil)
      )
    }
    let share = observations.share(of: group.time)
    return StallReport.WaitChain(
      links: links,
      share: share.fraction,
      seconds: Seconds(share.time),
      sampleCount: group.waiters.count,
      isCycle: signature.isCycle,
      isDeadlock: isDeadlock(signature, group) && !links.contains(where: \.isLikely)
    )
  }

  private func name(of id: Int32) -> String {
    if id == stall.thread.id, !stall.thread.name.isEmpty { return stall.thread.name }
    if let name = observations[id]?.last(where: { !$0.thread.name.isEmpty })?.thread.name { return name }
    return stall.others?.threads.first { $0.thread.id == id }?.thread.name ?? ""
  }

  /// Whether a thread of a group ran a task. Tasks can release their locks on another thread.
  private func hasTask(_ group: Group) -> Bool {
    let samples = group.waiters + group.holders.flatMap { $0.map(\.sample) }
    return Set(samples.compactMap(\.stack)).contains {
      stacks.indices.contains($0) && TaskStack(stacks[$0]).kind == .task
    }
  }

  /// Whether the cycle is permanent. No wait has a timeout, and each thread was sampled twice without CPU use in
  /// between. The stall is unfinished, and the cycle lasted to its last sample. After a refused wait, CPU time does not
  /// count, because the thread retries.
  private func isDeadlock(_ signature: Signature, _ group: Group) -> Bool {
    func stoodStill(_ samples: [Sample]) -> Bool {
      if group.isRefused { return samples.count > 1 }
      let times = samples.compactMap(\.cpuTime)
      return samples.count > 1 && times.count == samples.count && Set(times).count == 1
    }
    guard signature.isCycle, !stall.hasEnded, !group.isTimed,
      group.isRefused || group.holders.allSatisfy({ stoodStill($0.map(\.sample)) })
    else { return false }
    return Dictionary(grouping: group.waiters) { $0.lock?.waiterID ?? 0 }.values
      .contains { samples in
        let last = stall.samples.last { $0.threadID == samples[0].threadID && !$0.isInTheWay }
        return stoodStill(samples) && samples.map(\.age).max() == last?.age
      }
  }

  private func seen(_ observations: [Observation], _ architecture: String) -> Observations {
    var alone = stall
    alone.source.kind = .section
    alone.samples = []
    for observation in observations.ordered(by: { $0.sample.age < $1.sample.age }) {
      var sample = observation.sample
      sample.threadID = nil
      if alone.samples.last?.age != sample.age { alone.samples.append(sample) }
    }
    return Observations(stall: alone, stacks: stacks, rules: rules, architecture: architecture, resolve: resolve)
      .asWhole
  }
}

extension HeldLock.Kind {
  func isWaitedFor(in symbol: String) -> Bool {
    // glibc uses internal aliases of its exports: `__GI___pthread_mutex_lock`.
    let own = symbol.hasPrefix("__GI_") ? symbol.dropFirst(5) : symbol[...]
    let name = own.drop { $0 == "_" }
    return switch self {
    case .mutex: name.hasPrefix("pthread_mutex_")
    case .readWriteLock: name.hasPrefix("pthread_rwlock_")
    case .thread: name.hasPrefix("pthread_") && name.contains("join")
    case .stream: AwaitedObjects.isStreamFunction(name)
    case .queue: ["DISPATCH_WAIT_FOR_QUEUE", "dispatch_sync", "dispatch_barrier"].contains(where: name.hasPrefix)
    default: true
    }
  }
}
