import Culprit
import Foundation
import Judges
import Processors
import Programs
import SplitMix
import Synchronization

/// Stalls of the pool whose culprit has returned when the threshold passes.
struct Trials {
  private let isOne: Bool
  private let watchdog: Watchdog
  private let watch: WatchedProbe
  private let reports = Reports()
  private var random: SplitMix

  private final class Reports: Sendable {
    private let all = Mutex<[StallReport]>([])
    func add(_ report: StallReport) { all.withLock { $0.append(report) } }
    func takeAll() -> [StallReport] {
      all.withLock { all in
        defer { all = [] }
        return all
      }
    }
  }

  private static let threshold = 1000

  /// The load on the other threads.
  private enum Beside: CaseIterable {
    case nothing
    case shortTasks
    /// More tasks than threads: each probe waits for a task, but for less than the threshold.
    case longTasks
  }

  /// Creates trials that hold one thread (`isOne`), or every thread.
  init(isOne: Bool, seed: UInt64) throws {
    self.isOne = isOne
    random = SplitMix(seed)
    var configuration = Watchdog.Configuration(threshold: .milliseconds(Self.threshold))
    // No rate limits: each trial needs its report.
    (configuration.reporting.perMinute, configuration.reporting.perCulprit) = (.max, .max)
    watchdog = try Watchdog(configuration)
    watchdog.onStall { [reports] in reports.add($0) }
    watch = try watchdog.watchConcurrency()
    usleep(400_000)
  }

  mutating func run(_ count: Int) throws {
    var named = 0
    for number in 0..<count { named += try trial(number) ? 1 : 0 }
    say("trials=\(count)\nnamed=\(named)\nlimitations=\(watchdog.status.limitations.map(\.code))")
    watchdog.stop(patience: .seconds(60))
  }

  /// Runs a trial. Returns whether exactly one report names the culprit.
  private mutating func trial(_ number: Int) throws -> Bool {
    let holding = Holding.allCases.randomElement(using: &random) ?? .computing
    // The culprit returns within the threshold. Both functions together exceed the threshold, even if the probe has its
    // maximum delay. A busy machine delays the probe further.
    let first = Int.random(in: 860...980, using: &random)
    let second = Int.random(in: 400...450, using: &random)
    let isSecondAsleep = Bool.random(using: &random)
    let beside = isOne ? Beside.allCases.randomElement(using: &random) ?? .nothing : .nothing
    usleep(UInt32.random(in: 100_000...200_000, using: &random))
    let group = DispatchGroup()
    withBackground(beside) {
      for _ in 0..<(isOne ? 1 : processors_reported()) {
        group.enter()
        Task.detached {
          holding.hold(first)
          if isSecondAsleep { finishBySleeping(second) } else { finishByComputing(second) }
          group.leave()
        }
      }
      group.wait()
      usleep(100_000)
    }
    var found = reports.takeAll()
    // A busy machine delays the report.
    for _ in 0..<300 where found.isEmpty {
      usleep(100_000)
      found = reports.takeAll()
    }
    // Further reports would be wrong.
    usleep(200_000)
    found += reports.takeAll()
    let culprits = found.map { $0.culprit.map { "\($0.function.name) \($0.share)" } ?? "none" }
    let isNamed = TaskJudgement.isNamed(holding.function, in: found)
    say("trial=\(number) \(holding) \(first)+\(second) beside=\(beside): \(found.map(\.source)) \(culprits)")
    return isNamed
  }

  /// Runs `body` while the load `beside` runs on the other threads.
  private func withBackground(_ beside: Beside, _ body: () -> Void) {
    guard beside != .nothing else { return body() }
    let ends = DispatchGroup()
    let isStopping = Flag()
    switch beside {
    case .nothing: break
    case .shortTasks:
      ends.enter()
      // Not on a thread of Dispatch, because the trial holds these threads.
      Thread.detachNewThread {
        while !isStopping.isSet {
          Task.detached { takeATurn(200) }
          usleep(2000)
        }
        ends.leave()
      }
    case .longTasks:
      for _ in 0..<3 * Int(processors_reported()) {
        ends.enter()
        takeTurns(until: isStopping, ends)
      }
    }
    body()
    isStopping.set()
    ends.wait()
  }
}

/// Runs turns in sequence, each in a new task, which waits for a thread.
private func takeTurns(until isStopping: Flag, _ ends: DispatchGroup) {
  Task.detached {
    usleep(120_000)
    if isStopping.isSet { ends.leave() } else { takeTurns(until: isStopping, ends) }
  }
}

/// A flag that is set once.
final class Flag: Sendable {
  private let value = Atomic<Bool>(false)
  var isSet: Bool { value.load(ordering: .acquiring) }
  func set() { value.store(true, ordering: .releasing) }
}
