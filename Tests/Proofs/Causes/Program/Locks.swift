import CauseWork
import Foundation
import Programs
import Synchronization

extension Scenario {
  static let locks: [Scenario] = [
    Scenario("lock-nslock", .lock, "answerRequest(_:)", holder: "rebuildIndex()") { stage in
      let lock = NSLock()
      hold(lock) { rebuildIndex() }
      try stage.turn { answerRequest(lock) }
    },
    Scenario("lock-swift-mutex", .lock, "readBalance()", holder: "closeAccounts(_:)") { stage in
      onThread("keeper") { begun in
        balance.withLock { value in
          begun()
          closeAccounts(&value)
        }
      }
      try stage.turn { readBalance() }
    },
    Scenario("lock-queue", .lock, "storeOrder(on:)", holder: "compactStore()") { stage in
      let queue = DispatchQueue(label: "store")
      occupy(queue) { compactStore() }
      try stage.turn { storeOrder(on: queue) }
    },
    // The culprit is the caller of the lock's wrapper.
    Scenario("lock-swift-wrapper", .lock, "payInvoice(_:)", holder: "rebuildIndex()") { stage in
      let gate = Gate()
      hold(gate) { rebuildIndex() }
      try stage.turn { payInvoice(gate) }
    },
    // The owner waits for a queue that is busy with another block.
    Scenario("lock-chain", .lock, "confirmOrder(_:)", holder: "printLabels()") { stage in
      let lock = NSLock()
      let queue = DispatchQueue(label: "labels")
      occupy(queue) { printLabels() }
      hold(lock) { storeOrder(on: queue) }
      try stage.turn { confirmOrder(lock) }
    },
    // Locked through another descriptor of the process.
    Scenario("lock-swift-flock", .lock, also: [.file], "lockCache(_:)") { stage in
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
    // The queue runs many blocks before this one.
    Scenario("lock-queue-behind-many", .lock, also: [.congestion], "queryStatistics(_:)", holder: "countVisit()") {
      stage in
      let queue = DispatchQueue(label: "statistics")
      for _ in 0..<180 { queue.async { countVisit() } }
      try stage.turn { queryStatistics(queue) }
    },
    .turn("lock-c-mutex", .lock, "book_payment", holder: "rebuild_ledger", after: hold_ledger) { book_payment() },
    .turn("lock-c-read-write", .lock, "read_prices", holder: "reload_prices", after: hold_prices) { read_prices() },
    .turn("lock-c-stream", .lock, "write_log_line", holder: "rotate_log", after: hold_log) { write_log_line() },
    Scenario("lock-c-flock", .lock, also: [.file, .interProcess], "lock_spool_file") { stage in
      let child = hold_spool_file("\(stage.directory)/spool", 1800)
      try stage.turn { lock_spool_file("\(stage.directory)/spool") }
      cause_end_child(child)
    },
    Scenario("lock-c-record", .lock, also: [.file, .interProcess], "lock_invoice_number") { stage in
      let child = hold_invoice_number("\(stage.directory)/number", 1800)
      try stage.turn { lock_invoice_number("\(stage.directory)/number") }
      cause_end_child(child)
    },
    Scenario("lock-c-convoy", .lock, "book_seats", holder: "serve_customer") { stage in
      let end = until(1.8)
      begin_serving(4, end)
      try stage.turn { book_seats(end) }
    },
    .turn(
      "lock-cpp-computing-holder",
      .lock,
      "shop::Statistics::update",
      holder: "shop::Statistics::summarise",
      after: enter_hold_statistics
    ) { enter_update_statistics() },
  ]
}

/// Lets another thread hold `lock` during `work`.
private func hold(_ lock: some NSLocking & Sendable, _ work: @escaping @Sendable () -> Void) {
  onThread("keeper") { begun in
    lock.lock()
    begun()
    work()
    lock.unlock()
  }
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

private final class Gate: NSLocking, Sendable {
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
