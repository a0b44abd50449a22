import CulpritStallRecord

/// What somebody waited for that a thread held.
package enum WaitedFor: Hashable, Sendable {
  /// Something whose words in memory say who holds it.
  case held(HeldLock.Kind)
  /// An initialization, by what the stacks of the threads show.
  case initialization
}

/// A thread that held what another one waited for.
package struct WaitLink: Hashable, Sendable {
  /// What it held.
  package var kind: WaitedFor
  /// Where that was; 0 where that is not known.
  package var address: UInt64
  /// The thread; without a name where it was not looked at.
  package var holder: ObservedThread
  /// Whether it had ended, so that nobody was left to let go.
  package var isOrphaned: Bool
  /// Whether it was found to hold it twice; else it is likely.
  package var isConfirmed: Bool
  /// Who held at least half of the time in which the thread was looked at; `nil` when nobody did.
  package var culprit: Claim?
  /// Its last stack of that time, innermost first.
  package var stack: [ResolvedFrame]
}

/// What the work waited for, who held that, and what that one waited for, to the one who holds everything up.
package struct WaitChain: Hashable, Sendable {
  /// From what the work waited for outwards.
  package var links: [WaitLink]
  /// How much of the stall that was.
  package var share: Share
  /// How many samples found it so.
  package var sampleCount: Int
  /// Whether the last link leads back to a thread of the chain.
  package var isCycle: Bool
  /// Whether that is a cycle that nobody can leave: each was found twice, and none did anything in between.
  package var isDeadlock: Bool
}

/// Who waited for whom during a stall.
struct WaitGraph {
  private let stall: Stall
  private let stacks: [Stack]
  private let rules: OwnershipRules
  private let resolve: (StackFrame) -> [ResolvedFrame]
  /// What was seen of each thread, in order of time.
  private var looks: [Int32: [Look]] = [:]
  /// Whether the function that a stack is in waits for a lock of such a kind; `nil` where it has no name.
  private var checks: [Check: Bool?] = [:]
  private var initializers: Initializers

  private struct Check: Hashable {
    var stack: Int
    var kind: HeldLock.Kind
  }

  private struct Look {
    var sample: Sample
    var thread: ObservedThread
    /// What it held, and whether it did so still afterwards; `nil` where it is one of the work's own threads.
    var holds: (address: UInt64, isHeld: Bool)?

    func isSame(as other: Look) -> Bool { sample.age == other.sample.age && (holds == nil) == (other.holds == nil) }
  }

  /// What tells chains apart.
  private struct Signature: Hashable {
    struct Link: Hashable {
      var kind: WaitedFor
      var address: UInt64
      var holderID: Int32
      var isOrphaned: Bool
    }

    var links: [Link] = []
    var isCycle = false

    /// A fixed order.
    var order: [UInt64] { links.flatMap { [$0.address, UInt64(UInt32(bitPattern: $0.holderID))] } }
  }

  /// What a sample leads to.
  private struct Way {
    var signature = Signature()
    /// For each link what was seen of its holder at about that time, and whether the function that waits has a name that says so.
    var holders: [Look?] = []
    var isNamed: [Bool] = []
    /// Whether a wait ends by itself.
    var isTimed = false
    /// Whether the kernel refuses one of the waits because it would never end.
    var isRefused = false

    /// A ring has no first link: that with the lowest address is, whoever of it waits.
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
    /// The numbers of the samples.
    var numbers: [Int] = []
    var waiters: [Sample] = []
    /// For each lock what was seen of its holder.
    var holders: [[Look]]
    /// Whether functions have names that say that they wait for such locks.
    var isNamed: [Bool]
    var isTimed = false
    var isRefused = false

    init(_ way: Way) {
      holders = way.holders.map { _ in [] }
      isNamed = way.isNamed
    }

    /// Adds the sample `number`, which leads here.
    mutating func add(_ number: Int, _ sample: Sample, _ time: Duration, _ way: Way) {
      numbers.append(number)
      self.time += time
      waiters.append(sample)
      isTimed = isTimed || way.isTimed
      isRefused = isRefused || way.isRefused
      for (place, look) in way.holders.enumerated() {
        isNamed[place] = isNamed[place] && way.isNamed[place]
        // The same look may be the nearest of several samples.
        guard let look, holders[place].last.map({ !$0.isSame(as: look) }) ?? true else { continue }
        holders[place].append(look)
      }
    }
  }

  /// So many frames of a stack are looked at for the function that waits.
  private static let waitingFrames = 8
  /// The most chains that are worked out.
  private static let chainsMax = 16
  /// The most links of a chain.
  private static let linksMax = 16

  init(
    _ stall: Stall,
    _ stacks: [Stack],
    rules: OwnershipRules,
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    (self.stall, self.stacks, self.rules, self.resolve) = (stall, stacks, rules, resolve)
    initializers = Initializers(stall, stacks, rules: rules, resolve: resolve)
    // Which thread a sample is of that waited for nothing, is not known where the work may have changed threads.
    for sample in stall.samples {
      guard let id = sample.lock?.waiterID ?? sample.threadID else { continue }
      let thread = ObservedThread(id: id, name: id == stall.thread.id ? stall.thread.name : "")
      looks[id, default: []].append(Look(sample: sample, thread: thread, holds: nil))
    }
    for holder in stall.holders {
      let look = Look(sample: holder.sample, thread: holder.thread, holds: (holder.address, holder.isHeld))
      looks[holder.thread.id, default: []].append(look)
    }
    for id in looks.keys { looks[id]?.sort { $0.sample.age < $1.sample.age } }
  }

  /// The chains, those first that took most of the time, and for samples, by their numbers, which one they belong to.
  mutating func chains(_ observations: Observations) -> (all: [WaitChain], of: [Int: Int]) {
    var groups: [Signature: Group] = [:]
    for (number, (sample, time)) in observations.sampleTimes.enumerated() {
      guard let way = follow(sample) ?? (sample.lock == nil ? initialization(sample) : nil) else { continue }
      groups[way.signature, default: Group(way)].add(number, sample, time, way)
    }
    let heaviest = groups.sorted {
      $0.value.time != $1.value.time
        ? $0.value.time > $1.value.time : $0.key.order.lexicographicallyPrecedes($1.key.order)
    }
    var chainOf: [Int: Int] = [:]
    for (place, group) in heaviest.prefix(Self.chainsMax).enumerated() {
      for number in group.value.numbers { chainOf[number] = place }
    }
    return (heaviest.prefix(Self.chainsMax).map { chain($0, $1, observations) }, chainOf)
  }

  /// The way to who initializes what `sample` found the thread waiting for. That was seen once, when all threads were: nobody else can
  /// do it meanwhile. `nil` where it waited for something else, or it is not known who that is.
  private mutating func initialization(_ sample: Sample) -> Way? {
    guard sample.activity.isWaiting, let stack = sample.stack, let found = initializers.thread(waitedForBy: stack)
    else { return nil }
    var way = Way()
    way.signature.links = [
      Signature.Link(kind: .initialization, address: 0, holderID: found.thread.id, isOrphaned: false)
    ]
    way.holders = [lookWhenDeclared(found)]
    way.isNamed = [false]
    return way
  }

  /// From what `sample` found the thread waiting for to the one who holds everything up. `nil` where it waited for something else.
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
      // What looked like a lock was none. Where not even a thread stands behind it, the name must say so. And nobody holds what
      // he waits for: it was read when it had changed hands.
      if name == false || (lock.isOrphaned && name == nil)
        || way.signature.links.contains(where: { $0.address == lock.address })
      {
        break
      }
      var look = nearest(lock.holderID, to: sample.age)
      if look?.sample.lock?.address == lock.address, lock.holderID != lock.waiterID { look = nil }
      // Who waits for a queue that has another one for its target has it already, and has run nothing of it.
      let hasRun =
        lock.kind != .queue || look.map { $0.sample.lock != nil || isWaiting($0.sample, for: .queue) != true } ?? true
      way.signature.links.append(
        Signature.Link(
          kind: .held(lock.kind),
          address: lock.address,
          holderID: lock.holderID,
          isOrphaned: lock.isOrphaned
        )
      )
      way.holders.append(look)
      way.isNamed.append(name ?? false && hasRun)
      way.isTimed = way.isTimed || lock.isTimed
      guard seen.insert(lock.holderID).inserted else {
        way.signature.isCycle = true
        if lock.holderID == sample.lock?.waiterID { way.beginAtLowest() }
        break
      }
      guard let look else { break }
      (waiter, waiterID) = (look.sample, lock.holderID)
    }
    return way.holders.isEmpty ? nil : way
  }

  /// Adds to `way` what `waiter` waits for, where that leads back into a ring of threads that wait for initializations.
  private mutating func closeRing(
    _ way: inout Way,
    at waiter: (id: Int32, sample: Sample),
    from work: (id: Int32, sample: Sample),
    _ seen: inout Set<Int32>
  ) {
    guard let holder = initializers.ringHolder(of: waiter.id, waiter.sample, work: (work.id, work.sample.stack)) else {
      return
    }
    // Where it is another thread, that one waits for the waiter in turn.
    for id in seen.insert(holder).inserted ? [holder, waiter.id] : [holder] {
      way.signature.links.append(
        Signature.Link(kind: .initialization, address: 0, holderID: id, isOrphaned: false)
      )
      way.holders.append(
        id == waiter.id
          ? look(waiter.id, waiter.sample)
          : id == work.id ? look(work.id, work.sample) : initializers.thread(id).map(lookWhenDeclared)
      )
      way.isNamed.append(true)
    }
    way.signature.isCycle = true
    way.isRefused = waiter.sample.activity == .running
  }

  private func look(_ id: Int32, _ sample: Sample) -> Look {
    Look(sample: sample, thread: ObservedThread(id: id, name: name(of: id)), holds: nil)
  }

  /// The look at `thread` when the stall was declared.
  private func lookWhenDeclared(_ thread: ThreadSample) -> Look {
    let seen = Sample(
      age: stall.threshold,
      stack: thread.stack,
      outcome: thread.outcome,
      cpuTime: thread.cpuTime,
      activity: thread.activity
    )
    return Look(sample: seen, thread: thread.thread, holds: nil)
  }

  /// What was seen of thread `id` nearest to when the work was `age` old; `nil` where that is too far off to tell. What did nothing
  /// between two looks did nothing at any time between them.
  private func nearest(_ id: Int32, to age: Duration) -> Look? {
    guard let all = looks[id] else { return nil }
    let next = all.partitioningIndex { $0.sample.age >= age }
    let near = all[max(0, next - 1)..<min(all.count, next + 1)]
    func distance(_ look: Look) -> Duration { look.sample.age < age ? age - look.sample.age : look.sample.age - age }
    guard let found = near.min(by: { distance($0) < distance($1) }) else { return nil }
    let times = near.compactMap(\.sample.cpuTime)
    let isStill = near.count == 2 && times.count == 2 && times[0] == times[1]
    return isStill || distance(found) <= stall.threshold / 4 ? found : nil
  }

  /// Whether the thread was in a function that waits for a lock of `kind`; `nil` where no function there has a name.
  private mutating func isWaiting(_ sample: Sample, for kind: HeldLock.Kind) -> Bool? {
    guard let index = sample.stack, stacks.indices.contains(index) else { return nil }
    // The kernel itself says whose such a word is.
    if kind == .word { return true }
    let check = Check(stack: index, kind: kind)
    if let known = checks[check] { return known }
    let names = stacks[index].frames.prefix(Self.waitingFrames).flatMap(resolve).compactMap(\.rawName)
    let found: Bool? = names.isEmpty ? nil : names.contains { kind.isWaitedFor(in: $0) }
    checks[check] = .some(found)
    return found
  }

  private func chain(_ signature: Signature, _ group: Group, _ observations: Observations) -> WaitChain {
    let count = signature.links.count
    let isFree = signature.isCycle && !group.isRefused && hasTask(group)
    let links = signature.links.enumerated().map { place, link in
      let holders = group.holders[place]
      let held = holders.filter { $0.holds.map { $0.address == link.address && $0.isHeld } ?? false }
      // Twice: by who holds it, or by who waits for it.
      let waiters = place > 0 ? group.holders[place - 1].count : signature.isCycle ? group.holders[count - 1].count : 0
      let isCertain =
        !held.isEmpty || waiters > 1 || group.isRefused || (place == 0 && group.waiters.count > 1)
      let observed = seen(holders)
      let suspects = Suspects(observed.stacks.map(\.stack), total: observed.duration)
      return WaitLink(
        kind: link.kind,
        address: link.address,
        holder: ObservedThread(id: link.holderID, name: name(of: link.holderID)),
        isOrphaned: link.isOrphaned,
        isConfirmed: isCertain && group.isNamed[place] && !isFree,
        culprit: suspects.culprit().map { observed.claim(on: $0.function) },
        stack: observed.last?.stack.frames.reversed().map(\.resolved) ?? []
      )
    }
    return WaitChain(
      links: links,
      share: observations.share(of: group.time),
      sampleCount: group.waiters.count,
      isCycle: signature.isCycle,
      isDeadlock: isDeadlock(signature, group) && links.allSatisfy(\.isConfirmed)
    )
  }

  private func name(of id: Int32) -> String {
    if id == stall.thread.id, !stall.thread.name.isEmpty { return stall.thread.name }
    if let name = looks[id]?.last(where: { !$0.thread.name.isEmpty })?.thread.name { return name }
    return stall.others?.threads.first { $0.thread.id == id }?.thread.name ?? ""
  }

  /// Whether a thread of a group ran a task. What a task has locked it may let go of on another thread, when it has been suspended:
  /// the thread that is said to hold it does something else then.
  private func hasTask(_ group: Group) -> Bool {
    let samples = group.waiters + group.holders.flatMap { $0.map(\.sample) }
    return Set(samples.compactMap(\.stack)).contains {
      stacks.indices.contains($0) && TaskStack(stacks[$0]).kind == .task
    }
  }

  /// Whether it is a cycle that nobody can leave: none of the waits ends by itself, each thread was looked at twice and used no
  /// processor in between, and it was so to the last. What has ended was none. Where the kernel refuses a wait, the refusal is the
  /// evidence: the thread that asks again uses a processor.
  private func isDeadlock(_ signature: Signature, _ group: Group) -> Bool {
    func stoodStill(_ samples: [Sample]) -> Bool {
      if group.isRefused { return samples.count > 1 }
      let times = samples.compactMap(\.cpuTime)
      return samples.count > 1 && times.count == samples.count && Set(times).count == 1
    }
    guard signature.isCycle, !stall.hasEnded, !group.isTimed,
      group.isRefused || group.holders.allSatisfy({ stoodStill($0.map(\.sample)) })
    else { return false }
    // Several threads may wait for those of the cycle.
    return Dictionary(grouping: group.waiters) { $0.lock?.waiterID ?? 0 }.values
      .contains { samples in
        let last = stall.samples.last { $0.threadID == samples[0].threadID && !$0.isInTheWay }
        return stoodStill(samples) && samples.map(\.age).max() == last?.age
      }
  }

  /// What was seen of a holder, as if it had been all.
  private func seen(_ looks: [Look]) -> Observations {
    var alone = stall
    alone.source.kind = .section
    alone.samples = []
    for look in looks.sorted(by: { $0.sample.age < $1.sample.age }) {
      var sample = look.sample
      sample.threadID = nil
      if alone.samples.last?.age != sample.age { alone.samples.append(sample) }
    }
    return Observations(stall: alone, stacks: stacks, rules: rules, resolve: resolve).asWhole
  }
}

extension HeldLock.Kind {
  /// Whether the function with the raw name `symbol` waits for such a thing: one of the C library's or libdispatch's.
  fileprivate func isWaitedFor(in symbol: String) -> Bool {
    // glibc has names of its own for what it exports: `__GI___pthread_mutex_lock`.
    let own = symbol.hasPrefix("__GI_") ? symbol.dropFirst(5) : symbol[...]
    let name = own.drop { $0 == "_" }
    return switch self {
    case .word, .unknown: true
    case .mutex: name.hasPrefix("pthread_mutex_")
    case .readWriteLock: name.hasPrefix("pthread_rwlock_")
    case .thread: name.hasPrefix("pthread_") && name.contains("join")
    case .stream: AwaitedObjects.isStreamFunction(name)
    case .queue: ["DISPATCH_WAIT_FOR_QUEUE", "dispatch_sync", "dispatch_barrier"].contains(where: name.hasPrefix)
    }
  }
}

extension Array {
  /// The first place from which on all elements satisfy `predicate`, which none before it does.
  fileprivate func partitioningIndex(where predicate: (Element) -> Bool) -> Int {
    var (low, high) = (startIndex, endIndex)
    while low < high {
      let middle = low + (high - low) / 2
      if predicate(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
