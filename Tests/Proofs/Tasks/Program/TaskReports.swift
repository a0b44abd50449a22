import Culprit

/// A watchdog for sections of tasks alone, and its reports, one after the other.
struct TaskReports {
  let watchdog: Watchdog
  private var reports: AsyncStream<StallReport>.Iterator

  /// Starts it, and waits until it knows where tasks are kept.
  init() async throws {
    var configuration = Watchdog.Configuration(threshold: .seconds(3600))
    (configuration.reporting.perMinute, configuration.reporting.perCulprit) = (.max, .max)
    watchdog = try Watchdog(configuration)
    let (told, add) = AsyncStream.makeStream(of: StallReport.self)
    watchdog.onStall { add.yield($0) }
    reports = told.makeAsyncIterator()
    // The first section in a task has it found out.
    watchdog.beginSection("first", threshold: .seconds(10)).end()
    try await Task.sleep(for: .milliseconds(500))
  }

  mutating func next() async -> StallReport? { await reports.next() }
}
