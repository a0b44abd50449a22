import CulpritStallRecord

/// A thread that held what another one waited for.
package struct WaitLink: Hashable, Sendable {
  /// What it held.
  package var kind: HeldLock.Kind
  /// Where that was.
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
  /// Whether the last link leads back to a thread of the chain, each was found twice, and none did anything in between.
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
    var locks: [HeldLock]
    var isCycle: Bool

    /// A fixed order.
    var order: [UInt64] { locks.flatMap { [$0.address, UInt64(UInt32(bitPattern: $0.holderID))] } }
  }

  private struct Group {
    var time = Duration.zero
    var waiters: [Sample] = []
    /// For each lock what was seen of its holder.
    var holders: [[Look]]
    /// Whether functions have names that say that they wait for such locks.
    var isNamed: [Bool]
  }

  /// So many frames of a stack are looked at for the function that waits.
  private static let waitingFrames = 8
  /// The most chains that are worked out.
  private static let chainsMax = 4
  /// The most links of a chain.
  private static let linksMax = 16

  init(
    _ stall: Stall,
    _ stacks: [Stack],
    rules: OwnershipRules,
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    (self.stall, self.stacks, self.rules, self.resolve) = (stall, stacks, rules, resolve)
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

  /// The chains, those first that took most of the time.
  mutating func chains(_ observations: Observations) -> [WaitChain] {
    var groups: [Signature: Group] = [:]
    for (sample, time) in observations.sampleTimes where sample.lock != nil {
      guard let (signature, holders, isNamed) = follow(sample) else { continue }
      add(
        sample,
        time,
        holders,
        isNamed,
        to: &groups[signature, default: Group(holders: holders.map { _ in [] }, isNamed: isNamed)]
      )
    }
    let heaviest = groups.sorted {
      $0.value.time != $1.value.time
        ? $0.value.time > $1.value.time : $0.key.order.lexicographicallyPrecedes($1.key.order)
    }
    return heaviest.prefix(Self.chainsMax).map { signature, group in chain(signature, group, observations) }
  }

  private func add(_ sample: Sample, _ time: Duration, _ holders: [Look?], _ isNamed: [Bool], to group: inout Group) {
    group.time += time
    group.waiters.append(sample)
    for (place, look) in holders.enumerated() {
      group.isNamed[place] = group.isNamed[place] && isNamed[place]
      // The same look may be the nearest of several samples.
      guard let look, group.holders[place].last.map({ !$0.isSame(as: look) }) ?? true else { continue }
      group.holders[place].append(look)
    }
  }

  /// From what `sample` found the thread waiting for to the one who holds everything up; with each what was seen of its holder at
  /// about that time, and whether the function that waits has such a name. `nil` where it waited for something else.
  private mutating func follow(_ sample: Sample) -> (Signature, [Look?], [Bool])? {
    var seen: Set<Int32> = sample.lock.map { [$0.waiterID] } ?? []
    var signature = Signature(locks: [], isCycle: false)
    var holders: [Look?] = []
    var areNamed: [Bool] = []
    var waiter = sample
    while let lock = waiter.lock, signature.locks.count < Self.linksMax {
      let isNamed = isWaiting(waiter, for: lock.kind)
      // What looked like a lock was none. Where not even a thread stands behind it, the name must say so.
      if isNamed == false || (lock.isOrphaned && isNamed == nil) { break }
      let look = nearest(lock.holderID, to: sample.age)
      signature.locks.append(lock)
      holders.append(look)
      areNamed.append(isNamed ?? false)
      guard seen.insert(lock.holderID).inserted else {
        signature.isCycle = true
        break
      }
      guard let look else { break }
      waiter = look.sample
    }
    return signature.locks.isEmpty ? nil : (signature, holders, areNamed)
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
    let links = signature.locks.enumerated().map { place, lock in
      let holders = group.holders[place]
      let held = holders.filter { $0.holds.map { $0.address == lock.address && $0.isHeld } ?? false }
      // Twice: by who holds it, or by who waits for it.
      let waiters = place == 0 ? group.waiters.count : group.holders[place - 1].count
      let isCertain = !held.isEmpty || waiters > 1
      let observed = seen(holders)
      let suspects = Suspects(observed.stacks.map(\.stack), total: observed.duration)
      return WaitLink(
        kind: lock.kind,
        address: lock.address,
        holder: (holders.last { !$0.thread.name.isEmpty } ?? holders.last)?.thread
          ?? ObservedThread(id: lock.holderID, name: ""),
        isOrphaned: lock.isOrphaned,
        isConfirmed: isCertain && group.isNamed[place],
        culprit: suspects.culprit().map { observed.claim(on: $0.function) },
        stack: observed.last?.stack.frames.reversed().map(\.resolved) ?? []
      )
    }
    return WaitChain(
      links: links,
      share: observations.share(of: group.time),
      sampleCount: group.waiters.count,
      isDeadlock: isDeadlock(signature, group) && links.allSatisfy(\.isConfirmed)
    )
  }

  /// Whether it is a cycle that nobody can leave: none of the waits ends by itself, each thread was looked at twice and used no
  /// processor in between, and it was so to the last. What has ended was none.
  private func isDeadlock(_ signature: Signature, _ group: Group) -> Bool {
    func stoodStill(_ samples: [Sample]) -> Bool {
      let times = samples.compactMap(\.cpuTime)
      return samples.count > 1 && times.count == samples.count && Set(times).count == 1
    }
    guard signature.isCycle, !stall.hasEnded, !signature.locks.contains(where: \.isTimed),
      group.holders.allSatisfy({ stoodStill($0.map(\.sample)) })
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
    case .queue: name.hasPrefix("dispatch_") || name.hasPrefix("DISPATCH_WAIT")
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
