import Culprit
import Glibc
import Judges
import Programs
import Synchronization

/// A service in which many requests wait at once while three of its loops stall.
///
/// Each request is a section of a suspended task. The loops stall at one time and for equal durations: one computes,
/// one sleeps, one waits for a lock of a named thread. Each loop stalls twice: just after the requests become late, and
/// some seconds later.
final class Service: Sendable {
  /// The threshold of sections and loops, and the duration of a loop's stall.
  static let threshold = 0.5
  static let stall = 2.0
  /// The ages of the requests at which the loops stall.
  static let stallTimes = [0.6, 7.0]
  /// The begin of the measurement, as an age of the requests, which have just become late, and its duration.
  static let measured = (from: 0.5, for: 10.0)

  private let watchdog: Watchdog
  private let waiting = Mutex<[CheckedContinuation<Void, Never>]>([])
  private let seen = Mutex(Seen())
  private let work = HealthyWork()

  private struct Seen {
    /// Delays of the requests' handlers after the threshold.
    var handlerDelays: [Double] = []
    /// For each loop, the times of the begins of stalls and of the calls of `onStallBegan`.
    var begun: [String: [Double]] = [:]
    var declared: [String: [Double]] = [:]
    var reports: [StallReport] = []
  }

  init(_ watchdog: Watchdog) {
    self.watchdog = watchdog
    watchdog.onStallBegan { [self] event in
      let now = Self.now
      if event.source.kind == .loop { seen.withLock { $0.declared[event.source.name, default: []].append(now) } }
    }
    watchdog.onStall { [self] report in
      if report.source.kind == .loop { seen.withLock { $0.reports.append(report) } }
    }
  }

  /// Runs `count` requests that wait for at least `hold` seconds, and stalls the loops meanwhile. Prints facts.
  func run(requests count: Int, hold: Double) throws {
    let loops: [(name: String, work: @Sendable (Double) -> Void)] = [
      ("compute", rebuildCatalogue(until:)), ("sleep", sleepOnDisk(until:)), ("lock", waitForLedger(until:)),
    ]
    let begin = Self.now
    for number in 0..<count {
      Task {
        if number % 2 == 0 {
          await watchdog.withSection("request", threshold: .seconds(Self.threshold)) { await awaitAnswer() }
        } else {
          await handleRequest()
        }
      }
    }
    let threads = try loops.map { loop in
      let watched = try watchdog.watchLoop(named: loop.name, threshold: .seconds(Self.threshold))
      return NamedThread(loop.name) { [self] in
        for time in Self.stallTimes {
          Self.wait(until: begin + time)
          let began = Self.now
          seen.withLock { $0.begun[loop.name, default: []].append(began) }
          watched.begin()
          loop.work(began + Self.stall)
          watched.end()
        }
      }
    }
    let end = begin + Self.measured.from + Self.measured.for
    let healthy = [
      NamedThread("answers") { [work] in work.answer(from: begin + Self.measured.from, until: end) },
      NamedThread("operations") { [work] in work.operate(from: begin + Self.measured.from, until: end) },
    ]
    let holder = NamedThread("ledger") { for time in Self.stallTimes { writeLedger(from: begin + time - 0.1) } }
    Self.wait(until: begin + Self.measured.from)
    let before = CPUUse()
    Self.wait(until: end)
    let after = CPUUse()
    let resident = Self.residentBytes()
    (threads + healthy + [holder]).forEach { $0.join() }
    Self.wait(until: begin + hold)
    printFacts(loops.map(\.name), after - before, resident)
    work.printFacts()
    // One more for each handler that got no CPU for 20 ms: a matter of the machine's load.
    let added = max(0, after.handlerThreads - 1)
    say("threads=\(after.threads - added)\nthreads.added=\(added)\nstall_files=\(after.stallFiles)")
    say("resident.end=\(Double(Self.residentBytes()) / 1_048_576)")
    for continuation in waiting.withLock({ $0 }) { continuation.resume() }
  }

  /// Waits for an answer in a section with a handler.
  private func handleRequest() async {
    let late = Self.now + Self.threshold
    let section = watchdog.beginSection("handled request", threshold: .seconds(Self.threshold)) { [self] _ in
      let delay = Self.now - late
      seen.withLock { $0.handlerDelays.append(delay) }
    }
    await awaitAnswer()
    section.end()
  }

  @inline(never)
  private func awaitAnswer() async {
    await withCheckedContinuation { continuation in waiting.withLock { $0.append(continuation) } }
  }

  private func printFacts(_ loops: [String], _ use: CPUUse, _ resident: Int) {
    let seen = seen.withLock { $0 }
    for name in loops {
      let reports = seen.reports.filter { $0.source.name == name }
      let named = reports.filter { Self.isRight($0, name) }.count
      let declared = seen.declared[name] ?? []
      let delays = (seen.begun[name] ?? [])
        .map { begun in (declared.first { $0 > begun } ?? .infinity) - begun - Self.threshold }
      say("\(name).named=\(named)")
      say("\(name).delay=\((delays.max() ?? .infinity) * 1000)")
      say("remark=\(name): declared after \(delays.map { Figures.text($0 * 1000) }) ms")
      say("\(name).samples=\(reports.map(\.samples.count).min() ?? 0)")
      for report in reports where !Self.isRight(report, name) {
        let holders = report.waitChains.map { $0.links.map(\.holder.name) }
        say(
          "remark=\(name): culprit \(report.culprit?.function.name ?? "none"), \(report.samples.count) samples, "
            + "lost \(report.evidence.lostCount), holders \(holders)"
        )
      }
    }
    say("handlers=\(seen.handlerDelays.count)\nhandler.delay=\((seen.handlerDelays.max() ?? 0) * 1000)")
    // Excludes handlers, which are the service's code.
    let own = use.times.filter { $0.key != "culprit-handler" }.values.reduce(0, +)
    say("processor=\(own / Self.measured.for * 100)")
    for (name, time) in use.times.sorted(by: { $0.value > $1.value }) where time > 0.02 {
      say("remark=\(name) used \(Figures.text(time / Self.measured.for * 100)) % of a processor")
    }
    say("resident=\(Double(resident) / 1_048_576)")
    let sources = watchdog.metrics.sources
    say("taken=\(sources.reduce(0) { $0 + $1.samples })")
    say("dropped=\(sources.reduce(0) { $0 + $1.samplesLost })")
    say("spared=\(watchdog.status.samplesSkipped)")
    say("problems=\(watchdog.status.problems.count)")
  }

  /// Whether `report` names the culprit of the loop `name` and, for the lock, its owner.
  private static func isRight(_ report: StallReport, _ name: String) -> Bool {
    let functions = ["compute": "rebuildCatalogue", "sleep": "sleepOnDisk", "lock": "waitForLedger"]
    guard let function = functions[name], let culprit = report.culprit,
      culprit.function.name.hasPrefix(function)
    else { return false }
    return name != "lock" || report.waitChains.contains { $0.links.contains { $0.holder.name == "ledger" } }
  }

  static var now: Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  static func wait(until time: Double) {
    while true {
      let left = time - now
      guard left > 0 else { return }
      usleep(UInt32(left * 1e6) + 1)
    }
  }

  private static func residentBytes() -> Int {
    let fields = readFile("/proc/self/statm").split(separator: " ")
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * sysconf(Int32(_SC_PAGESIZE)) : 0
  }
}
