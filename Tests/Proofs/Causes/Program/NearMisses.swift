import CauseWork
import Foundation

extension Scenario {
  /// Stalls that resemble one with another cause.
  static let nearMisses: [Scenario] = [
    // Five computing processes share one CPU.
    Scenario("near-busy-machine", .noCPU, also: [.computing], "shop::fitCurve") { stage in
      try besideBusyChildren(4, priority: 0) { try stage.turn { enter_fit_curve(until(2.2)) } }
    },
    // A CPU share so small that the stall resembles waiting.
    Scenario("near-quota", .noCPU, also: [.computing], "planRoutes(until:)") { stage in
      try withQuota(0.06) { try stage.turn { planRoutes(until: until(2.4)) } }
    },
    // Two threads wait for each other until one wait times out.
    Scenario("near-deadlock-timed", .lock, "close_branch_in_time", holder: "lock_branch_in_time") { stage in
      begin_closing_branch()
      try stage.turn { close_branch_in_time(1800) }
    },
    // The lock order of a deadlock, but the owner releases its lock before it takes the other.
    .turn("near-deadlock-slow", .lock, "shop::moveMoney", holder: "shop::auditAccount", after: enter_hold_accounts) {
      enter_move_money()
    },
    // Sleeps with a lock held that no other thread wants.
    .turn("near-lock-unwanted", .sleep, "warmUp(_:)") { warmUp(NSLock()) },
    // Waits for a condition with an unrelated lock held.
    .turn("near-condition-with-lock", .signal, "shop::Printer::await", after: enter_begin_printing) {
      enter_await_printer()
    },
    // Computes while another thread waits for its lock.
    .turn("near-others-wait", .computing, "shop::recountStock") { enter_recount_stock(until(1.8)) },
  ]
}

@inline(never) private func warmUp(_ lock: NSLock) {
  lock.lock()
  usleep(1_800_000)
  lock.unlock()
  keep(1)
}
