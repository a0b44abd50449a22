import Culprit
import Foundation
import Processors
import Programs
import SplitMix
import Synchronization

/// Hundreds of thousands of tasks that keep every thread busy and hold no thread for long.
struct HealthyLoad {
  private let seed: UInt64
  init(seed: UInt64) { self.seed = seed }

  private actor Counter {
    private(set) var count = 0
    func add(_ number: Int) { count += number }
  }

  /// The lengths of turns of long-lived tasks in microseconds, all far below the threshold of half a second.
  private static let turns = [10, 50, 200, 1000, 5000, 20_000]

  func run(seconds: Int) throws {
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(500)))
    let reports = Counts()
    watchdog.onStall { report in
      reports.add(1)
      say("report=\(report.headline)\n\(report)")
    }
    let watch = try watchdog.watchConcurrency()
    let counter = Counter()
    let stop = Flag()
    let all = DispatchGroup()
    // Yielding tasks, one more than threads.
    for number in 0...processors_reported() {
      var random = SplitMix(seed).derived(UInt64(number))
      all.enter()
      Task.detached {
        while !stop.isSet {
          let length = Self.turns.randomElement(using: &random) ?? 10
          for _ in 0..<Int.random(in: 1...100, using: &random) where !stop.isSet {
            takeATurn(length)
            await Task.yield()
          }
        }
        all.leave()
      }
    }
    // Groups of short tasks, which wait for each other and for an actor.
    for number in 0..<2 {
      var random = SplitMix(seed).derived(UInt64(1000 + number))
      all.enter()
      Task.detached {
        while !stop.isSet {
          let length = Int.random(in: 1...100, using: &random)
          await withTaskGroup(of: Int.self) { group in
            for _ in 0..<200 {
              group.addTask {
                takeATurn(length)
                await counter.add(1)
                return 1
              }
            }
            for await _ in group {}
          }
        }
        all.leave()
      }
    }
    usleep(UInt32(seconds) * 1_000_000)
    stop.set()
    all.wait()
    let done = DispatchSemaphore(value: 0)
    Task.detached {
      say("tasks=\(await counter.count)")
      done.signal()
    }
    done.wait()
    watch.stop()
    watchdog.stop(patience: .seconds(60))
    say("reports=\(reports.sum)")
  }
}

/// Measures the CPU time of the watchdog's threads while every thread of the pool works.
func measureCost(seconds: Int) throws {
  let watchdog = try Watchdog(Watchdog.Configuration())
  let watch = try watchdog.watchConcurrency()
  let stop = Flag()
  let all = DispatchGroup()
  for _ in 0..<processors_reported() {
    all.enter()
    Task.detached {
      // A turn is long enough for two samples. It mostly sleeps, because there are fewer CPUs than threads.
      while !stop.isSet {
        usleep(30_000)
        takeATurn(100)
        await Task.yield()
      }
      all.leave()
    }
  }
  sleep(2)
  let before = cpuTime(of: threadDirectories(named: "culprit-"))
  sleep(UInt32(seconds))
  let used = cpuTime(of: threadDirectories(named: "culprit-")) - before
  stop.set()
  all.wait()
  watch.stop()
  watchdog.stop(patience: .seconds(60))
  say("used=\(Double(used) / Double(seconds) / 1e9)")
}

/// Measures the rate of served requests, alternately watched and unwatched.
func measureRate(rounds: Int) throws {
  func window() -> Double {
    let served = Counts()
    let end = DispatchTime.now() + .milliseconds(500)
    let all = DispatchGroup()
    for _ in 0..<4 * processors_reported() {
      all.enter()
      Task.detached {
        var own = 0
        while DispatchTime.now() < end {
          // A request consists of two tasks.
          async let one: Void = takeATurn(5)
          async let two: Void = takeATurn(5)
          _ = await (one, two)
          own += 1
        }
        served.add(own)
        all.leave()
      }
    }
    all.wait()
    return Double(served.sum)
  }
  _ = window()
  for round in 0..<rounds {
    var rates: [Double] = [0, 0]
    for place in 0..<2 {
      let isWatched = (place + round) % 2 == 0
      let watchdog = isWatched ? try Watchdog(Watchdog.Configuration(threshold: .milliseconds(1000))) : nil
      let watch = try watchdog?.watchConcurrency()
      usleep(200_000)
      rates[isWatched ? 1 : 0] = window()
      watch?.stop()
      watchdog?.stop()
    }
    say("ratio=\(rates[1] / rates[0])")
  }
}

private final class Counts: Sendable {
  private let value = Atomic<Int>(0)
  var sum: Int { value.load(ordering: .acquiring) }
  func add(_ count: Int) { value.add(count, ordering: .releasing) }
}
