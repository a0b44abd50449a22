import CauseWork
import Foundation

extension Scenario {
  static let processors = [
    Scenario("processor-c-quota", .c, .noCPU, also: [.computing], "forecast_demand", [.root]) { stage in
      try withQuota(0.2) { try stage.turn { forecast_demand(until(2.2)) } }
    },
    Scenario("processor-cpp-quota", .cpp, .noCPU, also: [.computing], "shop::fitCurve", [.root]) { stage in
      try withQuota(0.25) { try stage.turn { enter_fit_curve(until(2.2)) } }
    },
    Scenario("processor-swift-quota", .swift, .noCPU, also: [.computing], "planRoutes(until:)", [.root]) {
      stage in
      try withQuota(0.2) { try stage.turn { planRoutes(until: until(2.2)) } }
    },
    // A CPU share so small that the thread might never handle a sample's signal.
    Scenario("processor-c-idle", .c, .noCPU, also: [.computing], nil) { stage in
      try besideBusyChildren(3, priority: 20) { try stage.turn { forecast_demand(until(2.2)) } }
    },
    // The kernel's count of the thread's time without a CPU is hidden.
    Scenario("processor-c-uncounted", .c, .noCPU, also: [.computing], "forecast_demand", [.root]) { stage in
      let error = cause_hide_delay()
      guard error == 0 else { throw Unavailable("schedstat cannot be hidden: \(String(cString: strerror(error)))") }
      defer { cause_show_delay() }
      try besideBusyChildren(3, priority: 0) { try stage.turn { forecast_demand(until(2.2)) } }
    },
    Scenario("processor-swift-nice", .swift, .noCPU, also: [.computing], "planRoutes(until:)") { stage in
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
  // Another thread ends the children, because this thread might not get the CPU in time.
  Thread.detachNewThread {
    usleep(2_500_000)
    for child in children { cause_end_child(child) }
    areGone.signal()
  }
  defer { areGone.wait() }
  guard cause_pin(processor) == 0, cause_lower_priority(priority) == 0 else {
    throw Unavailable("cannot set the thread's CPU and priority")
  }
  try body()
}

@inline(never) func planRoutes(until end: UInt64) {
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<5000 { value = value &* 3_935_559_000_370_003_845 &+ (value >> 31) } }
  keep(Int(value & 15))
}
