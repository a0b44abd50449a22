import Judges
import Culprit
import Dispatch
import Foundation
import Glibc
import SourceLoads
import Synchronization

/// Runs healthy work in every kind of source at once. No report is expected.
struct SourcesSoak {
  /// The duration in seconds.
  var seconds: Int

  /// The state of the running load.
  private final class Load: Sendable {
    let isOver = Atomic<Bool>(false)
    let reports = Mutex<[String]>([])
    let items = Mutex<[String: Int]>([:])

    func count(_ source: String, _ number: Int = 1) { items.withLock { $0[source, default: 0] += number } }

    /// Calls `body` repeatedly on a new thread, until the soak test is over.
    func `repeat`(_ source: String, _ threads: Threads, _ body: @escaping @Sendable () -> Void) {
      threads.start {
        while !self.isOver.load(ordering: .relaxed) {
          for _ in 0..<20 { body() }
          self.count(source, 20)
          usleep(1000)
        }
      }
    }
  }

  private final class Threads: @unchecked Sendable {
    // SAFETY: used by the thread that runs the soak test only.
    private var started: [Thread] = []
    private let ended = DispatchSemaphore(value: 0)

    func start(_ body: @escaping @Sendable () -> Void) {
      let ended = ended
      let thread = Thread {
        body()
        ended.signal()
      }
      started.append(thread)
      thread.start()
    }

    func join() {
      for _ in started { ended.wait() }
      started = []
    }
  }

  /// Runs the soak test and prints its results.
  ///
  /// - Parameter figures: Receives the results.
  /// - Throws: ``WatchdogError``.
  func run(_ figures: Figures) throws {
    let load = Load()
    let threads = Threads()
    // The default threshold tolerates delays of seconds on a busy machine.
    let watchdog = try Watchdog()
    watchdog.onStall { report in
      guard !report.source.name.hasPrefix("near ") else { return }
      load.reports.withLock { $0.append(report.description) }
    }
    let near = NearThresholds()
    let queue = DispatchQueue(label: "soak.serial")
    let many = DispatchQueue(label: "soak.concurrent", attributes: .concurrent)
    let (loop, executor) = (ClosureLoop(), ClosureLoop())
    let watches = [
      try watchdog.watchQueue(queue), try watchdog.watchQueue(many), try watchdog.watchConcurrency(),
      try watchdog.watchExecutor(executor, named: "executor"),
      try watchdog.watchLoop(named: "closures") { ping in loop.execute(ping) },
    ]
    let marked = try watchdog.watchLoop(named: "marked")
    load.repeat("loop", threads) { marked.withTurn(label: "turn") { Self.work() } }
    load.repeat("section", threads) { watchdog.withSection("section", threshold: .seconds(4)) { Self.work() } }
    load.repeat("activity", threads) { watchdog.withActivity("activity", threshold: .seconds(60)) { Self.work() } }
    load.repeat("queue", threads) { queue.sync { Self.work() } }
    load.repeat("concurrent queue", threads) { many.sync { Self.work() } }
    load.repeat("event loop", threads) { loop.wait { Self.work() } }
    load.repeat("executor", threads) { executor.wait { Self.work() } }
    load.repeat("pool", threads) {
      let done = DispatchSemaphore(value: 0)
      Task.detached {
        Self.work()
        done.signal()
      }
      done.wait()
    }
    threads.start { Self.runLoop(watchdog, load) }
    try near.begin(watchdog) { threads.start($0) }
    // The first half runs on an otherwise idle machine, the second with computing threads.
    usleep(UInt32(seconds) * 500_000)
    near.setBusy(true)
    usleep(UInt32(seconds) * 500_000)
    near.end()
    load.isOver.store(true, ordering: .relaxed)
    threads.join()
    for watch in watches { watch.stop() }
    loop.stop()
    executor.stop()
    let nearFalse = near.printFigures(figures)
    watchdog.stop(patience: .seconds(60))
    let items = load.items.withLock { $0 }
    for (source, count) in items.sorted(by: { $0.key < $1.key }) { figures.note("\(source): \(count) work items") }
    let reports = load.reports.withLock { $0 }
    for report in reports { figures.note(report.replacingOccurrences(of: "\n", with: "\n# ")) }
    figures.print("sources.seconds", Double(seconds), "s")
    figures.print("sources.kinds", Double(items.count), "kinds", in: 9...9)
    figures.print(
      "sources.items",
      Double(items.values.reduce(0, +)),
      "items",
      in: Double(items.count)...Double.infinity
    )
    figures.print("sources.false_reports", Double(reports.count + nearFalse), "reports", in: 0...0)
  }

  /// Runs a watched run loop with timers.
  private static func runLoop(_ watchdog: Watchdog, _ load: Load) {
    guard let watch = try? watchdog.watchCurrentRunLoop(named: "soak") else { return }
    let timer = Timer(timeInterval: 0.001, repeats: true) { _ in
      work()
      load.count("run loop")
    }
    RunLoop.current.add(timer, forMode: .default)
    while !load.isOver.load(ordering: .relaxed) {
      _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.1))
    }
    timer.invalidate()
    watch.stop()
  }

  /// Computes for some microseconds.
  @inline(never)
  private static func work() {
    var value: UInt64 = 1
    for _ in 0..<2000 { value = value &* 6_364_136_223_846_793_005 &+ 1 }
    result.store(value, ordering: .relaxed)
  }

  private static let result = Atomic<UInt64>(0)
}
