import CauseWork
import Foundation
import Synchronization

extension Scenario {
  static let locks = [
    Scenario("lock-nslock", .swift, .lock, "answerRequest(_:)", holder: "rebuildIndex()") { stage in
      let lock = NSLock()
      onThread("keeper") { begun in
        lock.lock()
        begun()
        rebuildIndex()
        lock.unlock()
      }
      try stage.turn { answerRequest(lock) }
    },
    Scenario("lock-swift-mutex", .swift, .lock, "readBalance()", holder: "closeAccounts(_:)") { stage in
      onThread("keeper") { begun in
        balance.withLock { value in
          begun()
          closeAccounts(&value)
        }
      }
      try stage.turn { readBalance() }
    },
    Scenario("lock-queue", .swift, .lock, "storeOrder(on:)", holder: "compactStore()") { stage in
      let queue = DispatchQueue(label: "store")
      let hasBegun = DispatchSemaphore(value: 0)
      queue.async {
        hasBegun.signal()
        compactStore()
      }
      hasBegun.wait()
      try stage.turn { storeOrder(on: queue) }
    },
    Scenario("lock-recursive", .swift, .lock, "showStock(_:)", holder: "computeStock(until:)") { stage in
      let lock = NSRecursiveLock()
      onThread("keeper") { begun in
        lock.lock()
        begun()
        computeStock(until: until(1.8))
        lock.unlock()
      }
      try stage.turn { showStock(lock) }
    },
    // The culprit is the caller of the lock's wrapper.
    Scenario("lock-swift-wrapper", .swift, .lock, "payInvoice(_:)", holder: "rebuildIndex()") { stage in
      let gate = Gate()
      onThread("keeper") { begun in
        gate.lock()
        begun()
        rebuildIndex()
        gate.unlock()
      }
      try stage.turn { payInvoice(gate) }
    },
    // The owner waits for a queue that is busy with another block.
    Scenario("lock-chain", .swift, .lock, "confirmOrder(_:)", holder: "printLabels()") { stage in
      let lock = NSLock()
      let queue = DispatchQueue(label: "labels")
      let isBusy = DispatchSemaphore(value: 0)
      queue.async {
        isBusy.signal()
        printLabels()
      }
      isBusy.wait()
      onThread("keeper") { begun in
        lock.lock()
        begun()
        storeOrder(on: queue)
        lock.unlock()
      }
      try stage.turn { confirmOrder(lock) }
    },
    // The owner holds the lock through another descriptor of this process.
    Scenario("lock-swift-flock", .swift, .lock, also: [.file], "lockCache(_:)") { stage in
      let path = "\(stage.directory)/cache.lock"
      onThread("keeper") { begun in
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        flock(file, LOCK_EX)
        begun()
        usleep(1_800_000)
        close(file)
      }
      try stage.turn { lockCache(path) }
    },
    // The queue runs many blocks before the waiting block.
    Scenario(
      "lock-queue-behind-many",
      .swift,
      .lock,
      also: [.congestion],
      "queryStatistics(_:)",
      holder: "countVisit()",
      [.nearMiss]
    ) { stage in
      let queue = DispatchQueue(label: "statistics")
      for _ in 0..<180 { queue.async { countVisit() } }
      try stage.turn { queryStatistics(queue) }
    },
    Scenario("lock-c-mutex", .c, .lock, "book_payment", holder: "rebuild_ledger") { stage in
      hold_ledger(1800)
      try stage.turn { book_payment() }
    },
    Scenario("lock-c-read-write", .c, .lock, "read_prices", holder: "reload_prices") { stage in
      hold_prices(1800)
      try stage.turn { read_prices() }
    },
    Scenario("lock-c-stream", .c, .lock, "write_log_line", holder: "rotate_log") { stage in
      hold_log(1800)
      try stage.turn { write_log_line() }
    },
    Scenario("lock-c-flock", .c, .lock, also: [.file, .interProcess], "lock_spool_file") { stage in
      let child = hold_spool_file("\(stage.directory)/spool", 1800)
      try stage.turn { lock_spool_file("\(stage.directory)/spool") }
      cause_end_child(child)
    },
    Scenario("lock-c-record", .c, .lock, also: [.file, .interProcess], "lock_invoice_number") { stage in
      let child = hold_invoice_number("\(stage.directory)/number", 1800)
      try stage.turn { lock_invoice_number("\(stage.directory)/number") }
      cause_end_child(child)
    },
    Scenario("lock-c-convoy", .c, .lock, "book_seats", holder: "serve_customer") { stage in
      let end = until(1.8)
      begin_serving(4, end)
      try stage.turn { book_seats(end) }
    },
    Scenario("lock-cpp-mutex", .cpp, .lock, "shop::Register::open", holder: "shop::Register::countCash") { stage in
      enter_hold_register(1800)
      try stage.turn { enter_open_register() }
    },
    Scenario(
      "lock-cpp-computing-holder",
      .cpp,
      .lock,
      "shop::Statistics::update",
      holder: "shop::Statistics::summarise"
    ) { stage in
      enter_hold_statistics(1800)
      try stage.turn { enter_update_statistics() }
    },
  ]
}

@inline(never) private func rebuildIndex() {
  usleep(1_800_000)
  keep(1)
}

@inline(never) private func answerRequest(_ lock: NSLock) {
  lock.lock()
  keep(2)
  lock.unlock()
}

private let balance = Synchronization.Mutex(0)

@inline(never) private func closeAccounts(_ value: inout Int) {
  usleep(1_800_000)
  value += 1
}

@inline(never) private func readBalance() { keep(balance.withLock { $0 } + 1) }

@inline(never) private func compactStore() {
  usleep(1_800_000)
  keep(3)
}

@inline(never) private func storeOrder(on queue: DispatchQueue) {
  queue.sync { keep(4) }
  keep(5)
}

@inline(never) private func computeStock(until end: UInt64) {
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<5000 { value = value &* 2_862_933_555_777_941_757 &+ 3 } }
  keep(Int(value & 7))
}

@inline(never) private func showStock(_ lock: NSRecursiveLock) {
  lock.lock()
  keep(6)
  lock.unlock()
}

@inline(never) private func printLabels() {
  usleep(1_800_000)
  keep(7)
}

@inline(never) private func confirmOrder(_ lock: NSLock) {
  lock.lock()
  keep(8)
  lock.unlock()
}

@inline(never) private func lockCache(_ path: String) {
  let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
  keep(Int(flock(file, LOCK_EX)))
  close(file)
}

@inline(never) private func countVisit() {
  usleep(10_000)
  keep(9)
}

@inline(never) private func queryStatistics(_ queue: DispatchQueue) {
  queue.sync { keep(10) }
  keep(11)
}

private final class Gate: Sendable {
  private let inner = NSLock()

  @inline(never) func lock() {
    inner.lock()
    keep(1)
  }

  @inline(never) func unlock() {
    inner.unlock()
    keep(1)
  }
}

@inline(never) private func payInvoice(_ gate: Gate) {
  gate.lock()
  keep(2)
  gate.unlock()
}
