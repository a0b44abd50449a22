import SplitMix
import Testing

@testable import Culprit

@Suite struct FsyncSchedulerTests {
  private let second: UInt64 = 1_000_000_000

  @Test func syncsFileOncePerSecond() {
    let scheduler = FsyncScheduler()
    var place = FsyncScheduler.Place()
    let start = 100 * second
    #expect(scheduler.isTurn(&place, lastSync: 0, now: start))
    scheduler.synced(&place, at: start)
    #expect(!scheduler.isTurn(&place, lastSync: start, now: start + second - 1))
    #expect(scheduler.isTurn(&place, lastSync: start, now: start + second))
  }

  @Test func spacesSyncsOfDifferentFiles() {
    let scheduler = FsyncScheduler()
    var (first, other) = (FsyncScheduler.Place(), FsyncScheduler.Place())
    let start = 100 * second
    #expect(scheduler.isTurn(&first, lastSync: 0, now: start) && !scheduler.isTurn(&other, lastSync: 0, now: start))
    scheduler.synced(&first, at: start)
    #expect(!scheduler.isTurn(&other, lastSync: 0, now: start + second / 5 - 1))
    #expect(scheduler.isTurn(&other, lastSync: 0, now: start + second / 5))
  }

  @Test func leavingFreesTurn() {
    let scheduler = FsyncScheduler()
    var (first, other) = (FsyncScheduler.Place(), FsyncScheduler.Place())
    #expect(scheduler.isTurn(&first, lastSync: 0, now: 100 * second))
    #expect(!scheduler.isTurn(&other, lastSync: 0, now: 100 * second))
    scheduler.leave(first)
    #expect(scheduler.isTurn(&other, lastSync: 0, now: 100 * second))
    scheduler.leave(FsyncScheduler.Place())
    #expect(scheduler.isTurn(&other, lastSync: 0, now: 100 * second))
  }

  /// Files must take turns, with at most five syncs per second.
  @Test(arguments: [1, 4, 5, 6, 50]) func schedulesFilesFairly(files: Int) {
    var random = SplitMix(UInt64(files))
    let scheduler = FsyncScheduler()
    var places = (0..<files).map { _ in FsyncScheduler.Place() }
    var lastSyncs = [UInt64](repeating: 0, count: files)
    var times: [UInt64] = []
    var turns = [Int](repeating: 0, count: files)
    var now = 100 * second
    while now < 160 * second {
      for file in 0..<files where scheduler.isTurn(&places[file], lastSync: lastSyncs[file], now: now) {
        lastSyncs[file] = now
        scheduler.synced(&places[file], at: now)
        times.append(now)
        turns[file] += 1
      }
      now += UInt64.random(in: 1_000_000...20_000_000, using: &random)
    }
    #expect(zip(times, times.dropFirst()).allSatisfy { $1 - $0 >= second / 5 })
    #expect((turns.max() ?? 0) - (turns.min() ?? 0) <= 1)
    // Polling every 1 to 20 ms delays each turn by up to 20 ms.
    #expect((turns.min() ?? 0) >= min(58, 270 / files))
    #expect((turns.max() ?? 0) <= 60)
  }
}
