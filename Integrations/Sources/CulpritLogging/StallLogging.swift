import Culprit
import Logging
import Synchronization

extension Watchdog {
  /// Starts a watchdog with the default configuration, except for the given values, and logs its reports.
  ///
  ///     let watchdog = try Watchdog(directory: "/var/lib/shop/stalls", logger: logger)
  ///
  /// - Parameters:
  ///   - threshold: The age at which a work item is a stall; default: 4 s.
  ///   - directory: The directory for saved stalls; default (`nil`): nothing is saved.
  ///   - logger: The logger, as for ``log(to:)``.
  /// - Throws: The errors of ``init(_:)``.
  public convenience init(
    threshold: Duration = .seconds(4),
    directory: String? = nil,
    logger: Logger
  ) throws(WatchdogError) {
    try self.init(Configuration(threshold: threshold, directory: directory), logger: logger)
  }

  /// Starts a watchdog, or joins a running one, and logs its reports.
  ///
  /// - Parameters:
  ///   - configuration: The configuration.
  ///   - logger: The logger, as for ``log(to:)``.
  /// - Throws: The errors of ``init(_:)``.
  public convenience init(_ configuration: Configuration, logger: Logger) throws(WatchdogError) {
    try self.init(configuration)
    log(to: logger)
  }

  /// Sends all output of the watchdog to `logger`, instead of standard error.
  ///
  /// Each of these events is a line with metadata at the level `warning`: a stall, a hang in progress, a leaked
  /// activity, an earlier run that did not end in order, each of its fatal hangs, a limitation, and a problem. The full
  /// text of a report follows at the level `debug`. Reports that were pending at an orderly end are logged in full.
  /// Limitations and problems are logged now, and new ones with the next report.
  ///
  /// - Parameter logger: The logger. Threads of the watchdog call its handler, which might block.
  public func log(to logger: Logger) {
    let log = StallLog(logger)
    onStall { [weak self] report in
      log.add(report)
      if let self { log.addState(of: self) }
    }
    onHang { log.add($0) }
    onLeakedActivity { log.add($0) }
    onPreviousRun { log.add($0) }
    log.addState(of: self)
  }
}

/// Writes a watchdog's events to a logger.
private final class StallLog: Sendable {
  private let logger: Logger
  /// The limitations and problems logged so far.
  private let logged = Mutex<Set<String>>([])

  init(_ logger: Logger) { self.logger = logger }

  func add(_ report: StallReport) {
    logger.warning("\(report.headline)", metadata: metadata(of: report))
    logger.debug("\(report)")
  }

  private func metadata(of report: StallReport) -> Logger.Metadata { report.metadata.mapValues { .string($0) } }

  func add(_ hang: StallEvent) {
    if let report = hang.report() { return add(report) }
    logger.warning(
      "\(hang)",
      metadata: [
        "culprit.source.kind": "\(hang.source.kind)", "culprit.source.name": "\(hang.source.name)",
        "culprit.stall.hang": "true",
      ]
    )
  }

  func add(_ activity: Watchdog.LeakedActivity) {
    logger.warning(
      "activity \"\(activity.name)\" has not ended after \(activity.age)",
      metadata: ["culprit.activity.name": "\(activity.name)", "culprit.activity.reason": "\(activity.reason)"]
    )
    logger.debug("\(activity)")
  }

  func add(_ run: Watchdog.PreviousRun) {
    let isOrderly = [.cleanExit, .terminated].contains(run.ending)
    let line = run.description.prefix { $0 != "\n" }
    let reports = run.description.dropFirst(line.count + 1)
    logger.log(
      level: isOrderly && reports.isEmpty ? .notice : .warning,
      "\(line)",
      metadata: [
        "culprit.run.ending": "\(run.ending.rawValue)", "process.pid": "\(run.processID)",
        "process.executable.path": "\(run.executable)",
      ]
    )
    for hang in run.hangs { logger.warning("\(hang.report.headline)", metadata: metadata(of: hang.report)) }
    // The log is the only output of reports that were pending at an orderly end.
    if !reports.isEmpty { logger.log(level: run.hangs.isEmpty ? .warning : .debug, "\(reports)") }
  }

  /// Logs new limitations and problems.
  func addState(of watchdog: Watchdog) {
    let status = watchdog.status
    for limitation in status.limitations where isNew(limitation.description) {
      logger.warning("culprit: \(limitation)", metadata: ["culprit.limitation": "\(limitation.code.rawValue)"])
    }
    for problem in status.problems where isNew(problem) {
      logger.warning("culprit: \(problem)", metadata: ["culprit.problem": "\(problem)"])
    }
  }

  private func isNew(_ sentence: String) -> Bool { logged.withLock { $0.insert(sentence).inserted } }
}
