import Culprit
import Foundation
import Judges
import SimulatedClock
import Synchronization
import TestWorkloads

struct Year {
  private let stalls: Int
  private let directory: String?
  private let clock = SimulatedClock()
  private let watchdog: Watchdog
  private let loop: WatchedLoop
  private let reports: Reports

  private final class Reports: Sendable {
    private let state = Mutex<(count: Int, named: Int, last: ContinuousClock.Instant)>((0, 0, .now))

    func add(_ report: StallReport) {
      let now = ContinuousClock.now
      let isNamed = report.culprit?.function.name == "loadCatalogue(_:)"
      state.withLock { $0 = ($0.count + 1, $0.named + (isNamed ? 1 : 0), now) }
    }

    var counts: (count: Int, named: Int) { state.withLock { ($0.count, $0.named) } }
    var last: ContinuousClock.Instant { state.withLock { $0.last } }
  }

  /// The process's resources at one time.
  private struct Use {
    var residentKiB: Int
    var descriptors: Int
    var threads: Int
    var reportTimes: [Duration]
    var named: Int
    var reported: Int

    var reportTime: Duration { reportTimes.sorted()[reportTimes.count / 2] }
  }

  /// - Parameters:
  ///   - stalls: The number of stalls in the year.
  ///   - directory: The directory for stall files, if any.
  /// - Throws: `WatchdogError` if the watchdog cannot start.
  init(stalls: Int, directory: String?) throws {
    (self.stalls, self.directory) = (stalls, directory)
    clock.begin(patience: .milliseconds(5))
    var configuration = Watchdog.Configuration(threshold: .milliseconds(500), directory: directory)
    (configuration.reporting.perMinute, configuration.reporting.perCulprit) = (.max, .max)
    configuration.storage.bytesMax = 2 << 20
    watchdog = try Watchdog(configuration)
    let reports = Reports()
    watchdog.onStall { reports.add($0) }
    self.reports = reports
    loop = try watchdog.watchLoop(named: "requests")
  }

  /// Runs the year, and compares the resources at the end with the resources after the first fifth.
  func run(_ figures: Figures) throws {
    let parts = 10
    var uses: [Use] = []
    for part in 0..<parts { uses.append(try live(stalls / parts, from: part * stalls / parts, figures)) }
    guard watchdog.stop(patience: .seconds(60)) else { throw ProofError("the watchdog did not stop") }
    let (early, late) = (uses[1], uses[parts - 1])
    func growth(_ value: (Use) -> Int) -> Double { Double(value(late) - value(early)) }
    let all = Double(stalls)
    figures.print("uptime.reported", Double(uses.reduce(0) { $0 + $1.reported }), "stalls", in: all...all)
    figures.print("uptime.named", Double(uses.reduce(0) { $0 + $1.named }), "stalls", in: all...all)
    figures.print("uptime.memory", Double(late.residentKiB) / 1024, "MiB")
    figures.print("uptime.memory_growth", growth(\.residentKiB) / 1024, "MiB", in: -64...4)
    figures.print("uptime.descriptor_growth", growth(\.descriptors), "descriptors", in: -8...0)
    figures.print("uptime.thread_growth", growth(\.threads), "threads", in: -8...0)
    figures.print("uptime.report_time", late.reportTime / .milliseconds(1), "ms")
    figures.print("uptime.report_time_growth", late.reportTime / early.reportTime, "times", in: 0...1.25)
  }

  /// Runs a part of the year with `count` stalls. Returns the resources at its end.
  private func live(_ count: Int, from first: Int, _ figures: Figures) throws -> Use {
    let pause = Duration.seconds(365 * 86_400) / stalls
    let before = reports.counts
    var times: [Duration] = []
    for number in first..<first + count {
      serve()
      try useLibrary(number)
      if number % 100 == 99 { try change(number / 100) }
      // Skips idle time, because the wakeups of a year would take too long.
      clock.skip(pause)
      clock.block(for: .milliseconds(50))
      let begin = ContinuousClock.now
      loop.withTurn { loadCatalogue(clock) }
      clock.wait { reports.counts.count > number }
      times.append(reports.last - begin)
    }
    clock.settle()
    let after = reports.counts
    let use = Use(
      residentKiB: status("VmRSS:"),
      descriptors: (try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")).count,
      threads: status("Threads:"),
      reportTimes: times,
      named: after.named - before.named,
      reported: after.count - before.count
    )
    figures.note(
      "after \(first + count) stalls: \(use.residentKiB) KiB, \(use.descriptors) descriptors, \(use.threads) threads, "
        + "report after \(use.reportTime), \(watchdog.status.problems.count) problems"
    )
    return use
  }

  /// Runs healthy work: a hundred threads and a hundred tasks.
  private func serve() {
    for _ in 0..<100 {
      let thread = workload_thread_start({ _, _ in }, nil)
      workload_thread_stop(thread)
    }
    let tasks = DispatchGroup()
    for _ in 0..<100 {
      tasks.enter()
      Task.detached {
        await watchdog.withSection("request", threshold: .seconds(60)) { await Task.yield() }
        tasks.leave()
      }
    }
    tasks.wait()
  }

  /// Loads and unloads one of a few libraries.
  private func useLibrary(_ number: Int) throws {
    let names = ["libdw.so.1", "libelf.so.1", "libz.so.1", "libbz2.so.1.0", "liblzma.so.5"]
    guard let library = dlopen(names[number % names.count], RTLD_NOW | RTLD_LOCAL) else {
      throw ProofError(dlerror().map { String(cString: $0) } ?? "dlopen failed")
    }
    dlclose(library)
  }

  private func change(_ number: Int) throws {
    switch number % 4 {
    case 0: try watchdog.reconfigure { $0.sampling.interval = .milliseconds(number % 8 < 4 ? 60 : 50) }
    case 1: clock.stepWallClock(by: number % 8 < 4 ? .seconds(3600) : .seconds(-3600))
    case 2: try fill()
    default: empty()
    }
  }

  private func fill() throws {
    guard let directory else { return }
    let file = open("\(directory)/filler", O_WRONLY | O_CREAT, 0o600)
    guard file >= 0 else { throw ProofError("cannot write into \(directory): \(String(cString: strerror(errno)))") }
    defer { close(file) }
    let bytes = [UInt8](repeating: 1, count: 4096)
    // A small file system is full earlier.
    for _ in 0..<4096 where write(file, bytes, bytes.count) < bytes.count { break }
  }

  private func empty() {
    guard let directory else { return }
    let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
    for name in names where !name.hasSuffix(".run") { unlink("\(directory)/\(name)") }
  }

  /// Returns the value of the line `name` of /proc/self/status.
  private func status(_ name: String) -> Int {
    let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
    return line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) } ?? 0
  }
}

/// The culprit of every stall.
@inline(never)
func loadCatalogue(_ clock: SimulatedClock) {
  clock.block(for: .milliseconds(600))
  // Prevents a tail call.
  loads.add(1, ordering: .relaxed)
}

private let loads = Atomic(0)
