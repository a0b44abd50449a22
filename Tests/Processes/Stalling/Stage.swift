import Culprit
import Glibc
import Programs
import Synchronization
import TestWorkloads

final class Stage: Sendable {
  let watchdog: Watchdog
  private let reports = Mutex<[StallReport]>([])

  init(directory: String, threshold: Duration, interval: Duration) throws {
    watchdog = try Watchdog(Watchdog.Configuration(threshold: threshold, interval: interval, directory: directory))
    watchdog.onStall { [weak self] report in self?.reports.withLock { $0.append(report) } }
  }

  func hasReport(of kind: StallReport.Source.Kind) -> Bool {
    reports.withLock { $0.contains { $0.source.kind == kind } }
  }

  func close() {
    watchdog.stop(patience: .seconds(60))
    let status = watchdog.status
    say("problems=\(status.problems)\ndropped=\(status.reportsDropped)")
    say("limitations=\(status.limitations.map(\.code))")
    for report in reports.withLock({ $0 }) { say(report.description) }
  }

  func turn<Result>(_ name: String, _ body: () throws -> Result) throws -> Result {
    let loop = try watchdog.watchLoop(named: name)
    say("turn=\(name) \(workload_now_ns())")
    loop.begin()
    defer { loop.end() }
    return try body()
  }

  /// Runs `body` as a turn of the loop "main", while another thread contends through `operation`.
  func turn(against operation: @escaping @convention(c) (UnsafeMutableRawPointer?) -> Void, _ body: () -> Void) throws {
    let contender = workload_thread_start(
      { operation, _ in
        // SAFETY: the pointer was made from a function of this type below.
        workload_contend(unsafeBitCast(operation, to: (@convention(c) (UnsafeMutableRawPointer?) -> Void).self), nil)
      },
      unsafeBitCast(operation, to: UnsafeMutableRawPointer.self)
    )
    try turn("main", body)
    workload_thread_stop(contender)
    say("contended=\(workload_was_contended())")
  }
}
