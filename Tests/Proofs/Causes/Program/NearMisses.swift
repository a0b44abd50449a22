import CauseWork
import Foundation

extension Scenario {
  /// Stalls that resemble stalls with other causes.
  static let nearMisses = [
    // Five computing processes share one CPU.
    Scenario("near-busy-machine", .cpp, .noCPU, also: [.computing], "shop::fitCurve", [.nearMiss]) { stage in
      try besideBusyChildren(4, priority: 0) { try stage.turn { enter_fit_curve(until(2.2)) } }
    },
    // A CPU share so small that the stall resembles waiting.
    Scenario("near-quota", .swift, .noCPU, also: [.computing], "planRoutes(until:)", [.nearMiss, .root]) {
      stage in
      try withQuota(0.06) { try stage.turn { planRoutes(until: until(2.4)) } }
    },
    // Two threads wait for each other until one wait times out.
    Scenario("near-deadlock-timed", .c, .lock, "close_branch_in_time", holder: "lock_branch_in_time", [.nearMiss]) {
      stage in
      begin_closing_branch()
      try stage.turn { close_branch_in_time(1800) }
    },
    // The lock order of a deadlock, but the owner releases its lock before it takes the other lock.
    Scenario("near-deadlock-slow", .cpp, .lock, "shop::moveMoney", holder: "shop::auditAccount", [.nearMiss]) { stage in
      enter_hold_accounts(1800)
      try stage.turn { enter_move_money() }
    },
    // Sleeps while it holds a lock that no other thread wants.
    Scenario("near-lock-unwanted", .swift, .sleep, "warmUp(_:)", [.nearMiss]) { stage in
      try stage.turn { warmUp(NSLock()) }
    },
    // Waits for a condition while it holds an unrelated lock.
    Scenario("near-condition-with-lock", .cpp, .signal, "shop::Printer::await", [.nearMiss]) { stage in
      enter_begin_printing(1800)
      try stage.turn { enter_await_printer() }
    },
    // Computes while it holds a lock that another thread waits for.
    Scenario("near-others-wait", .cpp, .computing, "shop::recountStock", work: .ownCode, [.nearMiss]) { stage in
      try stage.turn { enter_recount_stock(until(1.8)) }
    },
  ]
}

@inline(never) private func warmUp(_ lock: NSLock) {
  lock.lock()
  usleep(1_800_000)
  lock.unlock()
  keep(1)
}
