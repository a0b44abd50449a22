import CauseWork
import Foundation

extension Scenario {
  static let processors = [
    Scenario("processor-c-quota", .c, .noProcessor, also: [.computing], "forecast_demand", [.root]) { stage in
      try withQuota(0.2) { try stage.turn { forecast_demand(until(2.2)) } }
    },
    Scenario("processor-cpp-quota", .cpp, .noProcessor, also: [.computing], "shop::fitCurve", [.root]) { stage in
      try withQuota(0.25) { try stage.turn { enter_fit_curve(until(2.2)) } }
    },
    Scenario("processor-swift-quota", .swift, .noProcessor, also: [.computing], "planRoutes(until:)", [.root]) {
      stage in
      try withQuota(0.2) { try stage.turn { planRoutes(until: until(2.2)) } }
    },
    // So little of a processor that it may not even come to tell where it is.
    Scenario("processor-c-idle", .c, .noProcessor, also: [.computing], nil) { stage in
      try besideBusyChildren(3, priority: 20) { try stage.turn { forecast_demand(until(2.2)) } }
    },
    Scenario("processor-swift-nice", .swift, .noProcessor, also: [.computing], "planRoutes(until:)") { stage in
      try besideBusyChildren(2, priority: 10) {
        try stage.turn { planRoutes(until: until(2.2)) }
      }
    },
  ]

  static let nearMisses = [
    // Five that compute have one processor.
    Scenario("near-busy-machine", .cpp, .noProcessor, also: [.computing], "shop::fitCurve", [.nearMiss]) { stage in
      try besideBusyChildren(4, priority: 0) { try stage.turn { enter_fit_curve(until(2.2)) } }
    },
    // So little of a processor that it looks like waiting.
    Scenario("near-quota", .swift, .noProcessor, also: [.computing], "planRoutes(until:)", [.nearMiss, .root]) {
      stage in
      try withQuota(0.06) { try stage.turn { planRoutes(until: until(2.4)) } }
    },
    // Two that wait for each other, until one gives up.
    Scenario("near-deadlock-timed", .c, .lock, "close_branch_in_time", holder: "lock_branch_in_time", [.nearMiss]) {
      stage in
      begin_closing_branch()
      try stage.turn { close_branch_in_time(1800) }
    },
    // The order of a deadlock, but the one that has it lets go before it wants the other.
    Scenario("near-deadlock-slow", .cpp, .lock, "shop::moveMoney", holder: "shop::auditAccount", [.nearMiss]) { stage in
      enter_hold_accounts(1800)
      try stage.turn { enter_move_money() }
    },
    // A lock is held while it sleeps, which nobody wants.
    Scenario("near-lock-unwanted", .swift, .sleep, "warmUp(_:)", [.nearMiss]) { stage in
      try stage.turn { warmUp(NSLock()) }
    },
    // A condition that is waited for with a lock held.
    Scenario("near-condition-with-lock", .cpp, .signal, "shop::Printer::await", [.nearMiss]) { stage in
      enter_begin_printing(1800)
      try stage.turn { enter_await_printer() }
    },
    // It computes, and another thread waits for the lock that it has.
    Scenario("near-others-wait", .cpp, .computing, "shop::recountStock", work: .ownCode, [.nearMiss]) { stage in
      try stage.turn { enter_recount_stock(until(1.8)) }
    },
  ]
}

/// Runs `body` with the process in a control group that may use such a share of a processor.
private func withQuota(_ share: Double, _ body: () throws -> Void) throws {
  let period = 100_000
  let quota = Int(share * Double(period))
  let group = try ControlGroup(
    "cpu",
    settings: [("cpu.cfs_period_us", "\(period)"), ("cpu.cfs_quota_us", "\(quota)")],
    orUnified: [("cpu.max", "\(quota) \(period)")]
  )
  defer { group.leave() }
  try group.enter()
  try body()
}

/// Runs `body` on a processor that so many children keep busy. Other threads of the process stay where they are.
private func besideBusyChildren(_ count: Int, priority: Int32, _ body: () throws -> Void) throws {
  let processor = cause_first_processor()
  let children = (0..<count).map { _ in cause_busy_child(processor) }
  let areGone = DispatchSemaphore(value: 0)
  // By another thread: this one may not even come to see that its time is up.
  Thread.detachNewThread {
    usleep(2_500_000)
    for child in children { cause_end_child(child) }
    areGone.signal()
  }
  defer { areGone.wait() }
  guard cause_pin(processor) == 0, cause_lower_priority(priority) == 0 else {
    throw Unavailable("the thread cannot be placed")
  }
  try body()
}

@inline(never) private func planRoutes(until end: UInt64) {
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<5000 { value = value &* 3_935_559_000_370_003_845 &+ (value >> 31) } }
  keep(Int(value & 15))
}

@inline(never) private func warmUp(_ lock: NSLock) {
  lock.lock()
  usleep(1_800_000)
  lock.unlock()
  keep(1)
}
