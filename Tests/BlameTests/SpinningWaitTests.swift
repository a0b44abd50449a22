import CulpritStallRecord
import Testing

@testable import CulpritBlame

/// Rings of threads that wait for each other's initializers. The kernel refuses the last wait of a ring, and
/// `swift_once` retries.
@Suite struct SpinningWaitTests {
  private var synthetic = Synthetic()
  private let itself = [
    "c.start", "handle", "c.taxAccessor", "c.swift_once", "loadTax", "c.taxAccessor", "c.swift_once", "c.syscall",
  ]
  private let first = [
    "c.start", "handle", "c.priceAccessor", "c.swift_once", "loadPrices", "c.taxAccessor", "c.swift_once", "c.syscall",
  ]
  private let second = [
    "c.start", "serve", "c.taxAccessor", "c.swift_once", "loadTax", "c.priceAccessor", "c.swift_once", "c.syscall",
  ]

  /// A stall of thread 1, which uses CPU time in `functions`. The `others` are the stacks of threads 2 and up.
  private mutating func stall(_ functions: [String], _ others: [[String]] = [], hasEnded: Bool = false) -> Stall {
    let cpu = (0..<10).map { Duration.milliseconds(90 * $0) }
    var stall = synthetic.stall(Array(repeating: functions, count: 10), cpu: cpu)
    stall.hasEnded = hasEnded
    for place in stall.samples.indices {
      stall.samples[place].activity = .running
      stall.samples[place].runDelay = .zero
    }
    var all = AllThreads()
    for (place, other) in others.enumerated() {
      let thread = ObservedThread(id: Int32(place + 2), name: "thread \(place + 2)")
      let stack = synthetic.stall([other]).samples[0].stack
      let activity = ThreadActivity.inSystemCall(202)
      all.threads.append(
        ThreadSample(thread: thread, stack: stack, outcome: .captured, cpuTime: .milliseconds(3), activity: activity)
      )
    }
    stall.others = all
    return stall
  }

  private mutating func blame(_ stall: Stall) -> StallReport { synthetic.blame(stall, architecture: "x86_64") }

  @Test mutating func reportsSelfWaitingInitialization() throws {
    let blame = blame(stall(itself))
    let chain = try #require(blame.waitChains.first)
    #expect(chain.isDeadlock && chain.links.map(\.holder.id) == [1] && chain.links[0].kind == .initialization)
    #expect(blame.causes.map(\.kind) == [.deadlock] && blame.culpritName == "loadTax")
  }

  @Test mutating func reportsMutuallyWaitingInitializations() throws {
    let blame = blame(stall(first, [["c.start", "idle", "c.poll"], second]))
    let chain = try #require(blame.waitChains.first)
    #expect(chain.isDeadlock && chain.links.map(\.holder.id) == [3, 1] && blame.causes.map(\.kind) == [.deadlock])
    #expect((chain.links[0].stack?.functions ?? []).contains { $0.function == "loadTax" })
  }

  @Test mutating func reportsRingWithSpinningSecondThread() throws {
    var stall = stall(first)
    let seen = self.stall(second)
    for place in stall.samples.indices {
      stall.samples[place].activity = .inSystemCall(202)
      stall.samples[place].cpuTime = .milliseconds(5)
      stall.samples[place].lock = HeldLock(kind: .word, address: 100, holderID: 2, waiterID: 1)
    }
    stall.holders = seen.samples.map {
      HolderSample(address: 100, thread: ObservedThread(id: 2, name: "thread 2"), isHeld: true, sample: $0)
    }
    let blame = blame(stall)
    let chain = try #require(blame.waitChains.first)
    #expect(chain.isDeadlock && chain.links.map(\.holder.id) == [2, 1] && blame.causes.map(\.kind) == [.deadlock])
  }

  /// If accessors are inlined, the only thread inside an initializer is the holder.
  @Test mutating func findsRingByExclusion() {
    #expect(blame(stall(first)).waitChains.first?.links.map(\.holder.id) == [1])
    #expect(blame(stall(first, [second, second])).waitChains.isEmpty)
  }

  @Test mutating func ignoresComputingInitializers() {
    let computing = Array(itself.dropLast(3)) + ["c.sin"]
    #expect(blame(stall(computing)).waitChains.isEmpty && blame(stall(computing)).causes.map(\.kind) == [.computing])
    #expect(blame(stall(Array(itself.prefix(4)) + ["c.syscall"])).waitChains.isEmpty)
  }

  @Test mutating func endedRingIsNoDeadlock() {
    #expect(blame(stall(itself, hasEnded: true)).waitChains.first?.isDeadlock == false)
    var once = stall(itself)
    once.samples = [once.samples[9]]
    #expect(blame(once).waitChains.first?.isDeadlock == false)
  }

  /// A recursive `std::call_once` sleeps instead of spinning.
  @Test mutating func reportsSelfWaitingCallOnce() throws {
    var stall = stall([
      "c.start", "handle", "tax", "c.__pthread_once_slow", "loadTax", "tax", "c.__pthread_once_slow", "c.futex_wait",
    ])
    for place in stall.samples.indices {
      stall.samples[place].activity = .inSystemCall(202)
      stall.samples[place].cpuTime = .milliseconds(5)
    }
    #expect(try #require(blame(stall).waitChains.first).isDeadlock && blame(stall).causes.map(\.kind) == [.deadlock])
  }

  /// The initializing thread waits for a dispatch group, which can still become empty, so there is no deadlock.
  @Test mutating func unknownStateIsNoDeadlock() {
    let other = ["c.start", "serve", "c.taxAccessor", "c.swift_once", "loadTax", "c.dispatch_group_wait", "c.syscall"]
    var stall = stall(first, [other])
    for place in stall.samples.indices { stall.samples[place].activity = .unknown }
    let blame = blame(stall)
    #expect(!blame.waitChains.contains(where: \.isDeadlock) && !blame.causes.contains { $0.kind == .deadlock })
  }

  /// In a stripped program, an unnamed initializer computes inside another initializer, and does not count as waiting.
  @Test mutating func unnamedFunctionsAreNoSystemCalls() {
    let stall = stall(Array(itself.prefix(4)) + ["c.priceAccessor", "c.swift_once", "loadPrices"])
    let synthetic = synthetic
    let blame = StallReport(of: stall, in: Recording(process: nil, stacks: synthetic.stacks), architecture: "x86_64") {
      frame in
      synthetic.resolve(frame).map { named in
        var frame = named
        if frame.function == "loadPrices" { (frame.function, frame.rawName) = (nil, nil) }
        return frame
      }
    }
    #expect(blame.waitChains.isEmpty && blame.causes.map(\.kind) == [.computing])
  }
}
