import CulpritStallRecord
import Testing

@testable import CulpritBlame

@Suite struct LockWrapperTests {
  private func culprit(_ stacks: [[String]], _ activity: ThreadActivity = .inSystemCall(202), wrappers: [String] = [])
    -> String?
  {
    var made = Synthetic()
    var stall = made.stall(stacks)
    for place in stall.samples.indices { stall.samples[place].activity = activity }
    let rules = OwnershipRules(wrappers: wrappers)
    return StallReport(of: stall, in: Recording(process: nil, stacks: made.stacks), rules: rules, resolve: made.resolve)
      .culpritName
  }

  private func times(_ stack: [String]) -> [[String]] { Array(repeating: stack, count: 20) }

  @Test(arguments: [
    "Lock.lock()", "Lock.withLock(_:)", "Pool.acquire()", "Semaphore.wait()", "shop::Lock::lock", "cache_lock", "lock",
  ])
  func blamesCallerOfLock(name: String) {
    #expect(culprit(times(["c.start", "handle", name, "c.pthread_mutex_lock"])) == "handle")
    #expect(culprit(times(["c.start", "handle", "Store.withLock(_:)", name, "c.pthread_mutex_lock"])) == "handle")
  }

  @Test func honorsWrapperExceptions() {
    let stacks = times(["c.start", "handle", "Lock.lock()", "c.pthread_mutex_lock"])
    #expect(culprit(stacks, wrappers: ["!Lock.lock()"]) == "Lock.lock()")
    #expect(culprit(stacks, wrappers: ["!Lock.*"]) == "Lock.lock()")
    #expect(culprit(stacks, wrappers: ["!Other.*"]) == "handle")
  }

  @Test func blamesFunctionsThatAreNoWrappers() {
    #expect(culprit(times(["c.start", "handle", "Lock.lock()", "c.spin"]), .running) == "Lock.lock()")
    #expect(culprit(times(["c.start", "handle", "Lock.lock()"])) == "Lock.lock()")
    #expect(culprit(times(["c.start", "Lock.lock()", "c.pthread_mutex_lock"])) == "Lock.lock()")
    #expect(culprit(times(["c.start", "handle", "Store.load()", "c.pthread_mutex_lock"])) == "Store.load()")
    let two = (0..<20).map { ["c.start", "handle", "Queue.wait()", $0 % 2 == 0 ? "c.read" : "c.fsync"] }
    #expect(culprit(two) == "Queue.wait()")
  }

  @Test func blamesBodyOfWithLock() {
    let body = Array(repeating: ["c.start", "handle", "Lock.withLock(_:)", "rebuild", "c.read"], count: 30)
    #expect(culprit(body + times(["c.start", "handle", "Lock.withLock(_:)", "c.pthread_mutex_lock"])) == "rebuild")
  }
}
