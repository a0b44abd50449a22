import Culprit

/// A watchdog for sections of tasks, and its reports in order.
struct TaskReports {
  let watchdog: Watchdog
  private var reports: AsyncStream<StallReport>.Iterator

  /// Starts the watchdog and waits until it has found the location of task data.
  init() async throws {
    var configuration = Watchdog.Configuration(threshold: .seconds(3600))
    (configuration.reporting.perMinute, configuration.reporting.perCulprit) = (.max, .max)
    watchdog = try Watchdog(configuration)
    let (stream, add) = AsyncStream.makeStream(of: StallReport.self)
    watchdog.onStall { add.yield($0) }
    reports = stream.makeAsyncIterator()
    // During the first section in a task, Culprit finds the location of task data.
    watchdog.beginSection("first", threshold: .seconds(10)).end()
    try await Task.sleep(for: .milliseconds(500))
  }

  mutating func next() async -> StallReport? { await reports.next() }
}
