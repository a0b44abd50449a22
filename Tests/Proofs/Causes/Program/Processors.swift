import CauseWork
import Foundation

extension Scenario {
  static let processors: [Scenario] = [
    Scenario("processor-c-quota", .noCPU, also: [.computing], "forecast_demand") { stage in
      try withQuota(0.2) { try stage.turn { forecast_demand(until(2.2)) } }
    },
    // A CPU share so small that the thread might never answer a sample.
    Scenario("processor-c-idle", .noCPU, also: [.computing], nil) { stage in
      try besideBusyChildren(3, priority: 20) { try stage.turn { forecast_demand(until(2.2)) } }
    },
    // The kernel does not count for how long the thread is runnable.
    Scenario("processor-c-uncounted", .noCPU, also: [.computing], "forecast_demand") { stage in
      let error = cause_hide_delay()
      guard error == 0 else { throw Unavailable("schedstat cannot be hidden: \(String(cString: strerror(error)))") }
      defer { cause_show_delay() }
      try besideBusyChildren(3, priority: 0) { try stage.turn { forecast_demand(until(2.2)) } }
    },
    Scenario("processor-swift-nice", .noCPU, also: [.computing], "planRoutes(until:)") { stage in
      try besideBusyChildren(2, priority: 10) {
        try stage.turn { planRoutes(until: until(2.2)) }
      }
    },
  ]
}

/// Runs `body` with the process in a control group that is limited to `share` of a CPU.
func withQuota(_ share: Double, _ body: () throws -> Void) throws {
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

/// Runs `body` on a CPU that `count` children keep busy. Other threads of the process are not moved.
func besideBusyChildren(_ count: Int, priority: Int32, _ body: () throws -> Void) throws {
  let processor = cause_first_processor()
  let children = (0..<count).map { _ in cause_busy_child(processor) }
  let areGone = DispatchSemaphore(value: 0)
  // On another thread: this one might not get the CPU in time to end the children.
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

@inline(never) func planRoutes(until end: UInt64) {
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<5000 { value = value &* 3_935_559_000_370_003_845 &+ (value >> 31) } }
  keep(Int(value & 15))
}
