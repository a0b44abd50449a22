import CauseWork
import Culprit
import Foundation

extension Scenario {
  static let congestion = [
    // Four kinds of jobs with equal parts of the time: none has half.
    Scenario("congestion-queue", .swift, .congestion, also: [.computing, .sleep], nil) { stage in
      try crowdQueue(
        stage,
        [{ handle_message() }, { enter_apply_event() }, { store_measurement() }, { updateCounter() }]
      )
    },
    Scenario("congestion-c-queue", .c, .congestion, also: [.computing], "store_measurement") { stage in
      try crowdQueue(stage, [{ store_measurement() }])
    },
    Scenario("congestion-swift-pool", .swift, .congestion, also: [.computing], "renderPreview()") { stage in
      try crowdPool(stage) { renderPreview() }
    },
    // Many jobs that each sleep briefly resemble a single sleep.
    Scenario("congestion-cpp-pool", .cpp, .congestion, also: [.sleep], "shop::applyEvent", [.nearMiss]) { stage in
      try crowdPool(stage) { enter_apply_event() }
    },
    Scenario("near-congestion-sleeping", .c, .congestion, also: [.sleep], "handle_message", [.nearMiss]) { stage in
      try crowdQueue(stage, [{ handle_message() }])
    },
    // One long block, on a queue with further blocks.
    Scenario("near-congestion-stuck", .swift, .sleep, also: [.congestion], "importPrices()", [.nearMiss]) { stage in
      let queue = DispatchQueue(label: "orders")
      let watch = try stage.watchdog.watchQueue(queue)
      usleep(300_000)
      queue.async { stage.measure { importPrices() } }
      for _ in 0..<20 { queue.async { updateCounter() } }
      queue.sync {}
      watch.stop()
    },
  ]
}

/// Congests a watched queue with more small blocks than it can process in time.
private func crowdQueue(_ stage: Stage, _ jobs: [@Sendable () -> Void]) throws {
  let queue = DispatchQueue(label: "orders")
  let watch = try stage.watchdog.watchQueue(queue)
  usleep(300_000)
  // In random order: on a busy machine, a sleep right after a computing job ends late and would take more time than the
  // other jobs.
  for number in (0..<220).shuffled() { queue.async(execute: jobs[number % jobs.count]) }
  queue.sync {}
  usleep(200_000)
  watch.stop()
}

/// Congests Swift's pool: each of its threads gets as many jobs as the queue of `crowdQueue`.
private func crowdPool(_ stage: Stage, _ job: @escaping @Sendable () -> Void) throws {
  let watch = try stage.watchdog.watchConcurrency()
  usleep(500_000)
  let all = DispatchGroup()
  for _ in 0..<220 * ProcessInfo.processInfo.activeProcessorCount {
    all.enter()
    Task.detached {
      job()
      all.leave()
    }
  }
  all.wait()
  usleep(200_000)
  watch.stop()
}

@inline(never) private func updateCounter() {
  Thread.sleep(forTimeInterval: 0.01)
  keep(1)
}

@inline(never) private func renderPreview() {
  let end = until(0.01)
  var value: UInt64 = 1
  while cause_now() < end { for _ in 0..<1000 { value = value &* 1_181_783_497_276_652_981 &+ (value >> 27) } }
  keep(Int(value & 31))
}

@inline(never) private func importPrices() {
  usleep(1_800_000)
  keep(2)
}
