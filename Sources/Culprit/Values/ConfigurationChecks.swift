typealias Configuration = Watchdog.Configuration

extension Watchdog.Configuration {
  /// Shorter values would be near the resolution of the clock that stamps work items, 4 ms on most kernels.
  static let shortestTime = Duration.milliseconds(10)

  /// Each write wakes a thread.
  static let shortestMetricsInterval = Duration.seconds(15)

  var sampleInterval: Duration { sampling.interval ?? min(.seconds(1), sampling.threshold) }

  var hangDelay: Duration {
    (sampling.hangThreshold ?? max(.seconds(8), sampling.threshold * 2)) - sampling.threshold
  }

  /// Checks every value that can be checked without system calls.
  func validate() throws(WatchdogError) {
    let (shortest, longest) = (Self.shortestTime, WatchLimits.longestTime)
    let threshold = sampling.threshold
    try check("sampling.threshold", threshold, from: shortest, to: longest)
    try check("sampling.hangThreshold", sampling.hangThreshold, from: threshold, to: longest, "the threshold of ")
    if let interval = sampling.interval, interval < shortest || interval > threshold {
      throw .invalidConfiguration(
        "sampling.interval is \(interval.text); it must be from \(shortest.text) to the threshold of \(threshold.text)",
        setting: "sampling.interval"
      )
    }
    try check("sampling.stackBytesMax", sampling.stackBytesMax, in: 4 << 10...8 << 20, " bytes")
    try check("sampling.cpuBudget", sampling.cpuBudget, in: 1...100, " percent")
    try check("reporting.perMinute", reporting.perMinute, in: 1...Int.max, "")
    try check("reporting.perCulprit", reporting.perCulprit, in: 1...Int.max, "")
    try check("reporting.width", reporting.width, in: 40...Int.max, " characters")
    try check("reporting.symbolBytesMax", reporting.symbolBytesMax, in: 1 << 20...Int.max, " bytes")
    try check("reporting.fetchPatience", reporting.fetchPatience, from: .zero, to: longest)
    try check("storage.bytesMax", storage.bytesMax, in: 0...Int.max, " bytes")
    try check("storage.filesMax", storage.filesMax, in: 0...Int.max, " files")
    guard storage.ageMax >= .zero else {
      throw .invalidConfiguration(
        "storage.ageMax is \(storage.ageMax.text); it must be at least 0",
        setting: "storage.ageMax"
      )
    }
    if let directory = storage.directory, directory.isEmpty || directory.utf8.contains(0) {
      throw .invalidConfiguration(
        "storage.directory is \"\(directory)\"; it must be a path",
        setting: "storage.directory"
      )
    }
    if let directory = storage.directory, directory == "~" || directory.hasPrefix("~/") {
      throw .invalidConfiguration(
        "storage.directory is \(quoted(directory)); ~ is not expanded: use the whole path, or ./~ "
          + "for a directory of that name",
        setting: "storage.directory"
      )
    }
    try check("lifecycle.launchThreshold", lifecycle.launchThreshold, from: shortest, to: longest)
    try check("lifecycle.shutdownThreshold", lifecycle.shutdownThreshold, from: shortest, to: longest)
    try check(
      "lifecycle.terminateAfter",
      lifecycle.terminateAfter,
      from: threshold,
      to: longest,
      "the threshold of "
    )
    try check("activities.countMax", activities.countMax, in: 1...Int.max, "")
    try check("activities.expirationThreshold", activities.expirationThreshold, from: shortest, to: longest)
    try validateMetrics()
  }

  private func check(
    _ name: String,
    _ value: Duration?,
    from least: Duration,
    to most: Duration,
    _ why: String = ""
  ) throws(WatchdogError) {
    guard let value, value < least || value > most else { return }
    let range = "\(why)\(least.text) to \(most.text)"
    throw .invalidConfiguration("\(name) is \(value.text); it must be from \(range)", setting: name)
  }

  private func check(_ name: String, _ value: Int, in range: ClosedRange<Int>, _ unit: String) throws(WatchdogError) {
    guard !range.contains(value) else { return }
    let expected =
      range.upperBound == .max
      ? "at least \(range.lowerBound)" : "from \(range.lowerBound) to \(range.upperBound)"
    throw .invalidConfiguration("\(name) is \(value); it must be \(expected)\(unit)", setting: name)
  }

  private func validateMetrics() throws(WatchdogError) {
    if let file = metrics.file {
      func refuse(_ why: String) -> WatchdogError {
        .invalidConfiguration("metrics.file is \(quoted(file)); \(why)", setting: "metrics.file")
      }
      if !file.hasSuffix(".prom") || file.hasSuffix("/.prom") || file == ".prom" || file.utf8.contains(0) {
        throw refuse("it must be a path that ends in .prom, which node_exporter requires")
      }
      if file.hasPrefix("~/") {
        throw refuse("~ is not expanded: use the whole path")
      }
    }
    let (shortest, longest) = (Self.shortestMetricsInterval, WatchLimits.longestTime)
    try check("metrics.interval", metrics.interval, from: shortest, to: longest)
    if let name = metrics.labels.keys.sorted().first(where: { !PrometheusText.isLabel($0) }) {
      let own = PrometheusText.ownLabels.sorted().joined(separator: ", ")
      throw .invalidConfiguration(
        "metrics.labels has \(quoted(name)); a label consists of letters, digits and underscores, without a leading digit or two "
          + "underscores; reserved: \(own)",
        setting: "metrics.labels"
      )
    }
  }

  /// Applies `change`. Throws if a changed setting is fixed while the watchdog runs.
  func changed(_ change: (inout Configuration) -> Void) throws(WatchdogError) -> Configuration {
    var changed = self
    change(&changed)
    try changed.validate()
    for setting in Setting.all where !setting.isLive && setting.show(changed) != setting.show(self) {
      throw .fixedWhileRunning(setting.property)
    }
    return changed
  }

  static func check(_ threshold: Duration?, ofSource name: String) throws(WatchdogError) {
    guard let threshold, threshold < shortestTime || threshold > WatchLimits.longestTime else { return }
    let range = "from \(shortestTime.text) to \(WatchLimits.longestTime.text)"
    throw .invalidConfiguration(
      "the threshold of \(quoted(name)) is \(threshold.text); it must be \(range)",
      setting: name
    )
  }

  static func check(_ threshold: Duration?, ofActivity name: String) throws(WatchdogError) {
    guard let threshold, threshold <= .zero else { return }
    throw .invalidConfiguration(
      "the threshold of the activity \(quoted(name)) is \(threshold.text); it must be longer than 0",
      setting: name
    )
  }
}

/// The ages at which the monitor acts on a work item.
struct WatchLimits: Equatable {
  var suspicion: Duration
  var threshold: Duration
  var earlyInterval: Duration
  var interval: Duration

  /// Longer than any uptime; the sum of two such times fits into 64 bits.
  static let longestTime = Duration.seconds(1 << 31)

  init(threshold: Duration, interval: Duration) {
    let threshold = min(threshold, Self.longestTime)
    self.threshold = threshold
    self.interval = min(interval, threshold)
    suspicion = threshold / 8
    earlyInterval = threshold / 20
  }
}
