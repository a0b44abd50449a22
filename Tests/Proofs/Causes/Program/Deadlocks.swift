import CauseWork
import Foundation

extension Scenario {
  static let deadlocks = [
    Scenario("deadlock-swift-queue", .swift, .deadlock, "storeReturn(on:)", holder: "acceptReturn(_:)", [.deadlock]) {
      stage in
      let lock = NSLock()
      let queue = DispatchQueue(label: "returns")
      lock.lock()
      let hasBegun = DispatchSemaphore(value: 0)
      queue.async {
        hasBegun.signal()
        acceptReturn(lock)
      }
      hasBegun.wait()
      try stage.endlessTurn { storeReturn(on: queue) }
    },
    Scenario("deadlock-swift-locks", .swift, .deadlock, "sendParcel(_:)", holder: "payPostage(_:)", [.deadlock]) {
      stage in
      let (parcels, postage) = (NSLock(), NSLock())
      parcels.lock()
      onThread("postage") { begun in
        postage.lock()
        begun()
        payPostage(parcels)
      }
      try stage.endlessTurn { sendParcel(postage) }
    },
    // The kernel refuses these waits with EDEADLK, and `swift_once` retries them forever.
    Scenario("deadlock-swift-global", .swift, .deadlock, "loadTariffs()", holder: "loadTariffs()", [.deadlock]) {
      stage in
      try stage.endlessTurn { keep(tariffs) }
    },
    Scenario("deadlock-swift-globals", .swift, .deadlock, "loadRegions()", holder: "loadRegions()", [.deadlock]) {
      stage in
      Thread.detachNewThread {
        hasRegions.wait()
        keep(depots)
      }
      try stage.endlessTurn { keep(regions) }
    },
    Scenario("deadlock-c-two", .c, .deadlock, "transfer_stock", holder: "return_goods", [.deadlock]) { stage in
      begin_returning_goods()
      try stage.endlessTurn { transfer_stock() }
    },
    Scenario("deadlock-c-three", .c, .deadlock, "load_truck", holder: "leave_dock", [.deadlock]) { stage in
      begin_three_deliveries()
      try stage.endlessTurn { load_truck() }
    },
    Scenario("deadlock-c-self", .c, .deadlock, "open_account_twice", holder: "open_account_twice", [.deadlock]) {
      stage in
      try stage.endlessTurn { open_account_twice() }
    },
    Scenario("deadlock-cpp-two", .cpp, .deadlock, "shop::chargeCard", holder: "shop::refundPurchase", [.deadlock]) {
      stage in
      enter_begin_refund()
      try stage.endlessTurn { enter_charge_card() }
    },
    // Tasks occupy all threads, and wait for signals that only other tasks would send.
    Scenario("signal-swift-pool", .swift, .signal, "awaitReply(_:)") { stage in
      try fillPool(stage) { awaitReply(DispatchSemaphore(value: 0)) }
    },
    Scenario("signal-c-pool", .c, .signal, "wait_for_reply") { stage in
      try fillPool(stage) { wait_for_reply() }
    },
  ]
}

private func fillPool(_ stage: Stage, _ wait: @escaping @Sendable () -> Void) throws {
  let watch = try stage.watchdog.watchConcurrency()
  // Waits until the watchdog has found the pool's threads.
  usleep(300_000)
  stage.finishLater()
  for _ in 0..<ProcessInfo.processInfo.activeProcessorCount * 2 { Task.detached { wait() } }
  withExtendedLifetime(watch) { while true { pause() } }
}

private let tariffs: Int = loadTariffs()

@inline(never) private func loadTariffs() -> Int { tariffs + 1 }

private let regions: Int = loadRegions()
private let depots: Int = loadDepots()
private let hasRegions = DispatchSemaphore(value: 0)

@inline(never) private func loadRegions() -> Int {
  hasRegions.signal()
  // Gives the other thread time to begin its wait.
  usleep(300_000)
  return depots + 1
}

@inline(never) private func loadDepots() -> Int {
  // Differs from loadRegions, because the compiler merges functions that differ only in constants.
  keep(regions)
  return 1
}

@inline(never) private func acceptReturn(_ lock: NSLock) {
  lock.lock()
  keep(1)
  lock.unlock()
}

@inline(never) private func storeReturn(on queue: DispatchQueue) {
  queue.sync { keep(2) }
  keep(3)
}

@inline(never) private func payPostage(_ lock: NSLock) {
  lock.lock()
  keep(4)
}

@inline(never) private func sendParcel(_ lock: NSLock) {
  lock.lock()
  keep(5)
}

@inline(never) private func awaitReply(_ reply: DispatchSemaphore) {
  reply.wait()
  keep(6)
}
