import CCulpritObserver
import Glibc
import Testing

@testable import Culprit

@Suite struct SamplerSupervisorTests {
  private final class Samplers {
    let sampling: UnsafeMutablePointer<observer_sampling>
    private var supervisor: SamplerSupervisor

    init() throws {
      sampling = try #require(observer_sampling_create())
      supervisor = SamplerSupervisor(sampling)
    }

    deinit { observer_sampling_destroy(sampling) }

    func state(_ number: UInt32) -> observer_sampler_state { observer_sampler_state(sampling, number) }

    var isStopped: Bool { supervisor.isStopped }

    func check(after milliseconds: UInt64, isNeeded: Bool = false) -> SamplerSupervisor.Outcome {
      let tick = WorkItemTracker.Tick(now: 0, elapsed: milliseconds * 1_000_000, allowed: .max)
      return supervisor.supervise(tick, isNeeded: isNeeded)
    }
  }

  private func withSleeper(_ number: UInt32, _ samplers: Samplers, _ body: () throws -> Void) throws {
    let address = UInt(bitPattern: samplers.sampling)
    let (isReady, mayEnd) = (Promise<Bool>(), Promise<Bool>())
    let thread = try PosixThread(name: "sleeper") {
      observer_sampler_ready(UnsafeMutablePointer<observer_sampling>(bitPattern: address), number)
      isReady.fulfill(true)
      _ = mayEnd.wait(until: .max)
    }
    _ = isReady.wait(until: .max)
    while !observer_sampler_is_asleep(samplers.sampling, number) { usleep(1000) }
    defer {
      mayEnd.fulfill(true)
      _ = thread.join(until: .max)
    }
    try body()
  }

  @Test func activatesFirstSpareSampler() throws {
    let samplers = try Samplers()
    #expect(samplers.isStopped && samplers.check(after: 1).wait == 100_000_000)
    for number: UInt32 in [0, 1] { observer_sampler_ready(samplers.sampling, number) }
    let words = (0...1).map { observer_sampler_word(samplers.sampling, UInt32($0)) }
    #expect(samplers.check(after: 1).wait == .max && !samplers.isStopped)
    #expect(samplers.state(0) == OBSERVER_SAMPLER_ACTIVE && samplers.state(1) == OBSERVER_SAMPLER_SPARE)
    #expect(observer_sampler_word(samplers.sampling, 0) != words[0])
    #expect(observer_sampler_word(samplers.sampling, 1) == words[1])
    let word = observer_sampler_word(samplers.sampling, 0)
    _ = samplers.check(after: 1)
    #expect(observer_sampler_word(samplers.sampling, 0) == word)
    #expect(samplers.check(after: 1, isNeeded: true).wait == 100_000_000)
    #expect(observer_sampler_word(samplers.sampling, 0) == word + 1)
  }

  @Test func replacesSamplerBlockedForOneSecond() throws {
    let samplers = try Samplers()
    try withSleeper(0, samplers) {
      try withSleeper(1, samplers) {
        _ = samplers.check(after: 1)
        observer_sampler_begin_step(samplers.sampling, 0, 3, 4711)
        #expect(samplers.check(after: 500).lostSlot == -1)
        #expect(samplers.check(after: 500).lostSlot == -1)
        #expect(samplers.check(after: 499).wait == 100_000_000)
        #expect(samplers.state(0) == OBSERVER_SAMPLER_ACTIVE)
        #expect(samplers.check(after: 1).lostSlot == 3)
        #expect(samplers.state(0) == OBSERVER_SAMPLER_HELD_UP && samplers.state(1) == OBSERVER_SAMPLER_ACTIVE)
        #expect(!samplers.isStopped)
        observer_sampler_begin_step(samplers.sampling, 1, 4, 4712)
        #expect(samplers.check(after: 900).lostSlot == -1)
        #expect(samplers.check(after: 900).lostSlot == -1)
        #expect(samplers.check(after: 900).lostSlot == 4)
        #expect(samplers.isStopped && samplers.check(after: 1).wait == 100_000_000)
        observer_sampler_end_step(samplers.sampling, 0)
        observer_sampler_come_back(samplers.sampling, 0)
        #expect(samplers.check(after: 1).lostSlot == -1 && !samplers.isStopped)
        #expect(samplers.state(0) == OBSERVER_SAMPLER_ACTIVE)
      }
    }
  }

  @Test func keepsProgressingSampler() throws {
    let samplers = try Samplers()
    try withSleeper(0, samplers) {
      _ = samplers.check(after: 1)
      for _ in 0..<5 {
        observer_sampler_begin_step(samplers.sampling, 0, 3, 4711)
        #expect(samplers.check(after: 900).lostSlot == -1)
        #expect(samplers.check(after: 900).lostSlot == -1)
        observer_sampler_end_step(samplers.sampling, 0)
        #expect(samplers.check(after: 900).wait == .max)
      }
      #expect(samplers.state(0) == OBSERVER_SAMPLER_ACTIVE)
    }
  }

  @Test func keepsRunningSampler() throws {
    let samplers = try Samplers()
    observer_sampler_ready(samplers.sampling, 0)
    _ = samplers.check(after: 1)
    observer_sampler_begin_step(samplers.sampling, 0, 3, 4711)
    for _ in 0..<10 { #expect(samplers.check(after: 900).lostSlot == -1) }
    #expect(samplers.state(0) == OBSERVER_SAMPLER_ACTIVE)
  }
}
