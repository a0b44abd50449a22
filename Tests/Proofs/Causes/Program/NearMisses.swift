import CauseWork
import Foundation

extension Scenario {
  /// What looks like another cause.
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

@inline(never) private func warmUp(_ lock: NSLock) {
  lock.lock()
  usleep(1_800_000)
  lock.unlock()
  keep(1)
}
