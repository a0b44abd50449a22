import Culprit
import Glibc
import Synchronization
import TestWorkloads

/// Writes `text` to standard output, past the C library's buffer and its lock.
func say(_ text: String) {
  let bytes = Array(text.utf8)
  _ = write(STDOUT_FILENO, bytes, bytes.count)
}

/// A watchdog, and what it reports.
final class Stage: Sendable {
  let watchdog: Watchdog
  private let reports = Mutex<[StallReport]>([])

  /// A watchdog that saves stalls in `directory`.
  init(directory: String, threshold: Duration, interval: Duration) throws {
    watchdog = try Watchdog(Watchdog.Configuration(threshold: threshold, interval: interval, directory: directory))
    watchdog.onStall { [weak self] report in self?.reports.withLock { $0.append(report) } }
  }

  func hasReport(of kind: StallReport.Source.Kind) -> Bool {
    reports.withLock { $0.contains { $0.source.kind == kind } }
  }

  /// Stops the watchdog and prints what it reported.
  func close() {
    watchdog.stop(patience: .seconds(60))
    let status = watchdog.status
    say("problems=\(status.problems)\ndropped=\(status.reportsDropped)\n")
    say("limitations=\(status.limitations.map(\.code))\n")
    for report in reports.withLock({ $0 }) { say(report.description) }
  }

  /// Runs `body` as one turn of a loop called `name`, on the calling thread.
  func turn<Result>(_ name: String, _ body: () throws -> Result) throws -> Result {
    let loop = try watchdog.watchLoop(named: name)
    say("turn=\(name) \(workload_now_ns())\n")
    loop.begin()
    defer { loop.end() }
    return try body()
  }

  /// Runs `body` as a turn of the loop "main", while another thread contends by `operation`.
  func turn(against operation: @escaping @convention(c) (UnsafeMutableRawPointer?) -> Void, _ body: () -> Void) throws {
    let contender = workload_thread_start(
      { operation, _ in
        // SAFETY: the pointer is the function that was passed in, made a pointer below.
        workload_contend(unsafeBitCast(operation, to: (@convention(c) (UnsafeMutableRawPointer?) -> Void).self), nil)
      },
      unsafeBitCast(operation, to: UnsafeMutableRawPointer.self)
    )
    try turn("main", body)
    workload_thread_stop(contender)
    say("contended=\(workload_was_contended())\n")
  }
}
