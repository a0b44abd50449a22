import CauseWork
import Culprit
import Foundation

extension Scenario {
  /// Stalls of tasks and actors, in sections that suspend and on the pool's threads.
  static let tasks = [
    Scenario("sleep-task", .swift, .sleep, "awaitRetry()") { stage in try section(stage) { await awaitRetry() } },
    Scenario("computing-task", .swift, .computing, "resizeImage(until:)", work: .ownCode) { stage in
      try section(stage) { stage.measure { resizeImage(until: until(1.8)) } }
    },
    // Child tasks alternate, so consecutive samples are of different threads.
    Scenario("computing-children", .swift, .computing, "cutThumbnail()", work: .ownCode) { stage in
      try section(stage) { await cutThumbnails(until: until(1.8)) }
    },
    Scenario("computing-actor", .swift, .computing, "Ledger.recount(until:)", work: .json) { stage in
      let ledger = Ledger()
      try section(stage) { await ledger.measureRecount(stage) }
    },
    // The actor's current job is the culprit.
    Scenario("lock-actor", .swift, .lock, "Ledger.recount(until:)") { stage in
      let ledger = Ledger()
      try section(stage) {
        Task.detached { await ledger.recount(until: until(1.8)) }
        try? await Task.sleep(nanoseconds: 50_000_000)
        await ledger.readTotal()
      }
    },
    // A single job of a task, on a pool thread.
    Scenario("computing-job", .swift, .computing, "resizeImage(until:)", work: .ownCode) { stage in
      try job(stage) { resizeImage(until: until(1.8)) }
    },
    Scenario("signal-job", .swift, .signal, "awaitDispatch(_:)") { stage in
      let semaphore = DispatchSemaphore(value: 0)
      onThread("dispatching") { begun in
        begun()
        usleep(2_300_000)
        semaphore.signal()
      }
      try job(stage) { awaitDispatch(semaphore) }
    },
    Scenario("awaiting-continuation", .swift, .awaiting, "awaitCourier()") { stage in
      try section(stage) { await awaitCourier() }
    },
    Scenario("file-task", .swift, .file, "writeExport(to:until:)", [.loadSensitive]) { stage in
      try section(stage) { stage.measure { writeExport(to: "\(stage.directory)/export", until: until(1.8)) } }
    },
    Scenario("computing-queue", .swift, .computing, "filterReviews(until:)", work: .text) { stage in
      let queue = DispatchQueue(label: "orders")
      let watch = try stage.watchdog.watchQueue(queue)
      usleep(300_000)
      queue.async { stage.measure { filterReviews(until: until(1.8)) } }
      queue.sync {}
      watch.stop()
    },
  ]
}

/// Runs `body`, which can suspend, in a watched section of a task.
private func section(_ stage: Stage, _ body: @escaping @Sendable () async -> Void) throws {
  inTask {
    // During the first section, Culprit finds the offsets of the task's fields.
    await stage.watchdog.withSection("first", threshold: .milliseconds(600)) {
      try? await Task.sleep(nanoseconds: 300_000_000)
    }
    await stage.watchdog.withSection("orders", threshold: .milliseconds(600)) { await body() }
  }
}

/// Runs `body` as a job on a watched pool thread.
private func job(_ stage: Stage, _ body: @escaping @Sendable () -> Void) throws {
  let watch = try stage.watchdog.watchConcurrency()
  usleep(500_000)
  inTask { stage.measure(body) }
  usleep(200_000)
  watch.stop()
}

@inline(never) private func awaitRetry() async {
  try? await Task.sleep(nanoseconds: 1_800_000_000)
  keep(1)
}

@inline(never) private func resizeImage(until end: UInt64) {
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<5000 { value = value &* 6_364_136_223_846_793_005 &+ (value >> 13) } }
  keep(Int(value & 63))
}

@inline(never) private func cutThumbnail() {
  let end = until(0.01)
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<1000 { value = value &* 3_935_559_000_370_003_845 &+ (value >> 11) } }
  keep(Int(value & 3))
}

@inline(never) private func cutThumbnails(until end: UInt64) async {
  while cause_now() < end {
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<2 { group.addTask { cutThumbnail() } }
    }
    keep(4)
  }
}

private actor Ledger {
  @inline(never) func readTotal() { keep(1) }

  func measureRecount(_ stage: Stage) { stage.measure { recount(until: until(1.8)) } }

  @inline(never) func recount(until end: UInt64) {
    let text = Data("[\(Array(repeating: "[1, 2.5, \"seven\"]", count: 300).joined(separator: ", "))]".utf8)
    while cause_now() < end { keep(((try? JSONSerialization.jsonObject(with: text)) as? [Any])?.count ?? 0) }
  }
}

@inline(never) private func awaitDispatch(_ semaphore: DispatchSemaphore) {
  semaphore.wait()
  keep(2)
}

@inline(never) private func awaitCourier() async {
  await withCheckedContinuation { continuation in
    Thread.detachNewThread {
      usleep(1_800_000)
      continuation.resume()
    }
  }
  keep(3)
}

@inline(never) private func writeExport(to path: String, until end: UInt64) {
  let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
  let bytes = [UInt8](repeating: 7, count: 8192)
  while cause_now() < end {
    keep(pwrite(file, bytes, bytes.count, 0))
    keep(Int(fdatasync(file)))
  }
  close(file)
}

@inline(never) private func filterReviews(until end: UInt64) {
  let reviews = (0..<100).map { "Review \($0): a very good tea, and a fair price" }
  while cause_now() < end {
    for review in reviews { keep(review.lowercased().split(separator: " ").count + review.uppercased().count) }
  }
}
