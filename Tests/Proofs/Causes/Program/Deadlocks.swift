import CauseWork
import Foundation
import Programs

extension Scenario {
  static let deadlocks: [Scenario] = [
    Scenario("deadlock-swift-queue", .deadlock, "storeReturn(on:)", holder: "acceptReturn(_:)") { stage in
      let lock = NSLock()
      let queue = DispatchQueue(label: "returns")
      lock.lock()
      occupy(queue) { acceptReturn(lock) }
      try stage.endlessTurn { storeReturn(on: queue) }
    },
    Scenario("deadlock-swift-locks", .deadlock, "sendParcel(_:)", holder: "payPostage(_:)") { stage in
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
    .deadlock("deadlock-swift-global", "loadTariffs()", holder: "loadTariffs()") { keep(tariffs) },
    Scenario("deadlock-swift-globals", .deadlock, "loadRegions()", holder: "loadRegions()") { stage in
      Thread.detachNewThread {
        hasRegions.wait()
        keep(depots)
      }
      try stage.endlessTurn { keep(regions) }
    },
    .deadlock("deadlock-c-two", "transfer_stock", holder: "return_goods", after: begin_returning_goods) {
      transfer_stock()
    },
    .deadlock("deadlock-c-three", "load_truck", holder: "leave_dock", after: begin_three_deliveries) {
      load_truck()
    },
    .deadlock("deadlock-c-self", "open_account_twice", holder: "open_account_twice") { open_account_twice() },
    // Tasks occupy all threads, and wait for signals that only other tasks would send.
    Scenario("signal-swift-pool", .signal, "awaitReply(_:)") { stage in
      try fillPool(stage) { awaitReply(DispatchSemaphore(value: 0)) }
    },
  ]
}

private func fillPool(_ stage: Stage, _ wait: @escaping @Sendable () -> Void) throws {
  let watch = try stage.watchdog.watchConcurrency()
  // Until the watchdog has found the pool's threads.
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
  // Until the other thread waits.
  usleep(300_000)
  return depots + 1
}

@inline(never) private func loadDepots() -> Int {
  // The compiler merges functions that differ in constants only.
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
