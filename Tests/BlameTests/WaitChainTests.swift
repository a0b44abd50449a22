import CulpritStallRecord
import Testing

@testable import CulpritBlame

@Suite struct WaitChainTests {
  private var synthetic = Synthetic()
  private let locks = ["c.start", "handle", "c.pthread_mutex_lock"]

  private func mutex(_ address: UInt64, _ holder: Int32) -> HeldLock {
    HeldLock(kind: .mutex, address: address, holderID: holder, waiterID: 1)
  }

  /// A stall of 1 s in which thread 1 waits for `lock`. `holders` are the other threads, with their locks and waits.
  private mutating func stall(
    waitingFor lock: HeldLock,
    _ holders: [(id: Int32, address: UInt64, stack: [String], lock: HeldLock?)],
    isHeld: Bool = true,
    in functions: [String]? = nil,
    cpu: [Duration]? = nil
  ) -> Stall {
    var stall = synthetic.stall(Array(repeating: functions ?? locks, count: 10), cpu: cpu)
    stall.hasEnded = false
    for place in stall.samples.indices { stall.samples[place].lock = lock }
    for holder in holders {
      let seen = synthetic.stall(Array(repeating: holder.stack, count: 10), cpu: cpu)
      stall.holders += seen.samples.map { sample in
        var sample = sample
        sample.lock = holder.lock
        sample.lock?.waiterID = holder.id
        let thread = ObservedThread(id: holder.id, name: "thread \(holder.id)")
        return HolderSample(address: holder.address, thread: thread, isHeld: isHeld, sample: sample)
      }
    }
    return stall
  }

  private let still = Array(repeating: Duration.milliseconds(5), count: 10)

  @Test mutating func reportsLockOwnerAndItsStack() throws {
    let stall = stall(waitingFor: mutex(100, 2), [(2, 100, ["c.start", "rebuild", "c.read"], nil)])
    let chain = try #require(synthetic.blame(stall).waitChains.first)
    #expect(chain.links.map(\.holder.name) == ["thread 2"] && chain.sampleCount == 10 && !chain.isDeadlock)
    #expect(chain.share > 0.99 && !chain.links[0].isLikely)
    #expect(
      chain.links[0].culprit?.frame.function == "rebuild" && chain.links[0].stack?.functions.first?.function == "c.read"
    )
    #expect(synthetic.blame(stall).culpritName == "handle")
  }

  @Test mutating func followsWaitingOwner() throws {
    let stall = stall(
      waitingFor: mutex(100, 2),
      [
        (2, 100, ["c.start", "store", "c.pthread_mutex_lock"], mutex(200, 3)),
        (3, 200, ["c.start", "sync", "c.fsync"], nil),
      ]
    )
    let chain = try #require(synthetic.blame(stall).waitChains.first)
    #expect(
      chain.links.map(\.holder.id) == [2, 3] && chain.links.map { $0.culprit?.frame.function } == ["store", "sync"]
    )
    #expect(!chain.isDeadlock)
  }

  @Test(arguments: [true, false], [true, false]) mutating func reportsStaticCycleAsDeadlock(
    isHeld: Bool,
    isBlocked: Bool
  ) throws {
    let moving = (0..<10).map { Duration.milliseconds($0) }
    let stall = stall(
      waitingFor: mutex(100, 2),
      [(2, 100, ["c.start", "move", "c.pthread_mutex_lock"], mutex(200, 1))],
      isHeld: isHeld,
      cpu: isBlocked ? still : moving
    )
    let chain = try #require(synthetic.blame(stall).waitChains.first)
    #expect(chain.links.map(\.holder.id) == [2, 1] && chain.links[1].holder.name == "main")
    #expect(chain.isDeadlock == isBlocked)
  }

  @Test mutating func cycleThatCanEndIsNoDeadlock() {
    func isDeadlock(_ stall: Stall) -> Bool? { synthetic.blame(stall).waitChains.first?.isDeadlock }
    let whole = stall(
      waitingFor: mutex(100, 2),
      [(2, 100, ["c.start", "move", "c.pthread_mutex_lock"], mutex(200, 1))],
      cpu: still
    )
    #expect(isDeadlock(whole) == true)
    var ended = whole
    ended.hasEnded = true
    #expect(isDeadlock(ended) == false)
    var timed = whole
    for place in timed.holders.indices { timed.holders[place].sample.lock?.isTimed = true }
    #expect(isDeadlock(timed) == false)
    var left = whole
    left.samples[9].lock = nil
    #expect(isDeadlock(left) == false)
    var once = whole
    once.holders = [whole.holders[5]]
    #expect(isDeadlock(once) == false)
    var moved = whole
    moved.holders[4].sample.cpuTime = .milliseconds(6)
    #expect(isDeadlock(moved) == false)
  }

  /// The recorded owner itself waits for the lock, which another thread now owns.
  @Test mutating func waiterIsNotOwner() throws {
    let stall = stall(
      waitingFor: mutex(100, 2),
      [(2, 100, ["c.start", "small", "c.pthread_mutex_lock"], mutex(100, 3)), (3, 100, ["c.start", "big"], nil)],
      cpu: still
    )
    let chain = try #require(synthetic.blame(stall).waitChains.first)
    #expect(chain.links.map(\.holder.id) == [2] && chain.links[0].culprit == nil && !chain.isCycle)
  }

  @Test mutating func lockOfSuspendedTaskIsNoDeadlock() throws {
    var stall = stall(waitingFor: mutex(100, 1), [], cpu: still)
    for place in synthetic.stacks.indices {
      synthetic.addCaller(to: place)
    }
    stall.hasEnded = false
    let chain = try #require(synthetic.blame(stall).waitChains.first)
    #expect(chain.isCycle && !chain.isDeadlock && chain.links[0].isLikely)
  }

  @Test mutating func mergesChainsOfSeveralWaiters() throws {
    var stall = stall(waitingFor: mutex(100, 2), [(2, 100, ["c.start", "rebuild"], nil)])
    for place in stall.samples.indices {
      stall.samples[place].threadID = Int32(5 + place % 2)
      stall.samples[place].lock?.waiterID = Int32(5 + place % 2)
    }
    let chains = synthetic.blame(stall).waitChains
    #expect(chains.count == 1 && chains[0].share > 0.99 && chains[0].sampleCount == 10)
  }

  @Test mutating func followsWorkAcrossThreads() throws {
    // The work began on thread 1, and now waits on thread 5 for a lock of thread 1.
    var stall = stall(waitingFor: mutex(100, 1), [(1, 100, ["c.start", "other", "c.read"], nil)], cpu: still)
    for place in stall.samples.indices { stall.samples[place].lock?.waiterID = 5 }
    let chain = try #require(synthetic.blame(stall).waitChains.first)
    #expect(!chain.isDeadlock && chain.links.map { $0.culprit?.frame.function } == ["other"])
  }

  /// Samples of a long stall are far apart, but equal CPU times prove that the threads did not run.
  @Test mutating func reportsLongDeadlock() throws {
    var long = stall(
      waitingFor: mutex(100, 2),
      [(2, 100, ["c.start", "move", "c.pthread_mutex_lock"], mutex(200, 1))],
      cpu: still
    )
    for place in long.samples.indices { long.samples[place].age = .seconds(60 * place + 30) }
    long.duration = .seconds(600)
    for place in long.holders.indices { long.holders[place].sample.age = .seconds(place == 9 ? 570 : 60 * place) }
    let chain = try #require(synthetic.blame(long).waitChains.first)
    #expect(chain.isDeadlock && chain.share > 0.99)
  }

  @Test mutating func missingCPUTimeIsNoDeadlock() {
    let stall = stall(
      waitingFor: mutex(100, 2),
      [(2, 100, ["c.start", "move", "c.pthread_mutex_lock"], mutex(200, 1))]
    )
    #expect(synthetic.blame(stall).waitChains.first?.isDeadlock == false)
  }

  @Test mutating func reportsSelfDeadlock() throws {
    let stall = stall(waitingFor: mutex(100, 1), [], cpu: still)
    let chain = try #require(synthetic.blame(stall).waitChains.first)
    #expect(chain.isDeadlock && chain.links.map(\.holder.id) == [1])
  }

  @Test mutating func requiresLockFunctionOnStack() {
    let condition = ["c.start", "handle", "c.pthread_cond_wait"]
    let stall = stall(waitingFor: mutex(100, 2), [(2, 100, ["c.start", "rebuild"], nil)], in: condition)
    #expect(synthetic.blame(stall).waitChains.isEmpty)
    // Only the C library's own function names count.
    for (name, isLock) in [
      ("withMutex", false), ("my_pthread_mutex_lock", false), ("c.__GI___pthread_mutex_lock", true),
    ] {
      let stall = self.stall(
        waitingFor: mutex(100, 2),
        [(2, 100, ["c.start", "rebuild"], nil)],
        in: ["c.start", "handle", name, "c.futex_wait"]
      )
      #expect(synthetic.blame(stall).waitChains.isEmpty != isLock, "\(name)")
    }
    // A lock word contains its owner's id, so the stack needs no lock function.
    var word = stall
    for place in word.samples.indices { word.samples[place].lock?.kind = .word }
    #expect(synthetic.blame(word).waitChains.count == 1)
  }

  @Test mutating func dividesTimeBetweenSuccessiveOwners() {
    var stall = stall(
      waitingFor: mutex(100, 2),
      [(2, 100, ["c.start", "first"], nil), (3, 100, ["c.start", "second"], nil)]
    )
    for place in 7..<10 { stall.samples[place].lock = mutex(100, 3) }
    let chains = synthetic.blame(stall).waitChains
    #expect(chains.map { $0.links[0].culprit?.frame.function } == ["first", "second"])
    #expect(chains.map(\.sampleCount) == [7, 3] && chains.reduce(0) { $0 + $1.share } <= 1.0001)
  }

  @Test mutating func singleObservationIsUnconfirmed() throws {
    var stall = stall(waitingFor: mutex(100, 2), [(2, 100, ["c.start", "rebuild"], nil)], isHeld: false)
    for place in 1..<10 { stall.samples[place].lock = nil }
    #expect(try #require(synthetic.blame(stall).waitChains.first?.links.first).isLikely)
  }

  @Test mutating func ignoresStaleOwnerStacks() throws {
    var stall = stall(waitingFor: mutex(100, 2), [(2, 100, ["c.start", "rebuild"], nil)])
    for place in stall.holders.indices { stall.holders[place].sample.age += .seconds(10) }
    let link = try #require(synthetic.blame(stall).waitChains.first?.links.first)
    #expect(link.culprit == nil && link.stack == nil && link.holder.id == 2)
  }
}
