import CulpritStallRecord

/// A setting that operators can change by an environment variable or a line of a file. A test compares ``all`` with the
/// table in `docs/configuration.md`.
struct Setting: Sendable {
  /// The name in files, and in capitals after `CULPRIT_` the environment variable.
  let name: String
  /// The name in ``Watchdog/Configuration``.
  let property: String
  /// Whether the setting can be changed while the watchdog runs.
  let isLive: Bool
  /// A continuation of "it must be".
  let form: String
  /// Sets the value. Returns whether the text has the correct form.
  let set: @Sendable (inout Configuration, String) -> Bool
  /// The value as text for people.
  let show: @Sendable (Configuration) -> String
  let copy: @Sendable (inout Configuration, Configuration) -> Void

  var variable: String { "CULPRIT_" + name.uppercased() }

  /// In the order of application: a setting that bounds others precedes them.
  static let all = [
    threshold,
    limit("hang_threshold", "sampling.hangThreshold", \.sampling.hangThreshold),
    interval,
    limit("terminate_after", "lifecycle.terminateAfter", \.lifecycle.terminateAfter),
    plain(
      "directory",
      "storage.directory",
      \.storage.directory,
      "a path, or \(standard)",
      parse: { text in text.isEmpty ? nil : .some(text) },
      show: { $0 ?? "none" }
    ),
    number("directory_bytes", "storage.bytesMax", \.storage.bytesMax, "a number of bytes such as 268435456"),
    number("directory_files", "storage.filesMax", \.storage.filesMax, "a number such as 1000"),
    duration("directory_age", "storage.ageMax", \.storage.ageMax, isLive: false),
    yesOrNo("keep_recovered", "storage.keepsRecoveredStalls", \.storage.keepsRecoveredStalls),
    yesOrNo("note_crashes", "storage.notesCrashes", \.storage.notesCrashes),
    number("stack_bytes", "sampling.stackBytesMax", \.sampling.stackBytesMax, "a number of bytes such as 8388608"),
    number("cpu_budget", "sampling.cpuBudget", \.sampling.cpuBudget, "a percentage of one CPU such as 5"),
    number(
      "symbol_memory",
      "reporting.symbolBytesMax",
      \.reporting.symbolBytesMax,
      "a number of bytes such as 67108864"
    ),
    number("reports_per_minute", "reporting.perMinute", \.reporting.perMinute, "a number such as 60"),
    number("reports_per_culprit", "reporting.perCulprit", \.reporting.perCulprit, "a number such as 10"),
    number("activities_max", "activities.countMax", \.activities.countMax, "a number such as 1000"),
    duration(
      "expiration_threshold",
      "activities.expirationThreshold",
      \.activities.expirationThreshold,
      isLive: false
    ),
    plain(
      "while_debugged",
      "sampling.whileDebugged",
      \.sampling.whileDebugged,
      "marked or ignored",
      parse: { ["marked": .marked, "ignored": .ignored][$0] },
      show: { $0 == .ignored ? "ignored" : "marked" }
    ),
    number("report_width", "reporting.width", \.reporting.width, "a number of characters such as 100"),
    list(
      "own_modules",
      "reporting.ownModules",
      \.reporting.ownModules,
      "names of modules or packages, or paths, separated by commas"
    ),
    list(
      "wrappers",
      "reporting.wrappers",
      \.reporting.wrappers,
      "names of functions such as Lock.lock(), separated by commas"
    ),
    limit("launch_threshold", "lifecycle.launchThreshold", \.lifecycle.launchThreshold, isLive: false),
    limit("shutdown_threshold", "lifecycle.shutdownThreshold", \.lifecycle.shutdownThreshold, isLive: false),
    yesOrNo("notice_sigterm", "lifecycle.noticesTermination", \.lifecycle.noticesTermination),
    yesOrNo("systemd", "lifecycle.notifiesSystemd", \.lifecycle.notifiesSystemd),
    yesOrNo("control", "control.isEnabled", \.control.isEnabled),
    yesOrNo("fetch_debug_information", "reporting.fetchesDebugInformation", \.reporting.fetchesDebugInformation),
    duration("fetch_patience", "reporting.fetchPatience", \.reporting.fetchPatience, isLive: false),
    plain(
      "metrics_file",
      "metrics.file",
      \.metrics.file,
      "a path that ends in .prom, or none",
      parse: { text in text == "none" ? .some(nil) : .some(text) },
      show: { $0 ?? "none" }
    ),
    duration("metrics_interval", "metrics.interval", \.metrics.interval, isLive: false),
    plain(
      "metrics_labels",
      "metrics.labels",
      \.metrics.labels,
      "labels such as service=shop, worker=3, or none",
      parse: labels,
      show: { labels in
        labels.isEmpty
          ? "none" : labels.ordered { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: ", ")
      }
    ),
  ]

  /// Shortens a longer interval set in code to the threshold.
  private static let threshold = Setting(
    name: "threshold",
    property: "sampling.threshold",
    isLive: true,
    form: Duration.textForm,
    set: { configuration, text in
      guard let duration = Duration(text: text) else { return false }
      configuration.sampling.threshold = duration
      configuration.sampling.interval = configuration.sampling.interval.map { min($0, duration) }
      return true
    },
    show: { $0.sampling.threshold.text },
    copy: { $0.sampling.threshold = $1.sampling.threshold }
  )

  private static let interval = Setting(
    name: "interval",
    property: "sampling.interval",
    isLive: true,
    form: Duration.textForm,
    set: { configuration, text in
      configuration.sampling.interval = Duration(text: text)
      return configuration.sampling.interval != nil
    },
    show: { $0.sampleInterval.text },
    copy: { $0.sampling.interval = $1.sampling.interval }
  )

  /// Only for files; the environment has ``Environment/switchesOff``.
  static let enabled = yesOrNo("enabled", "isEnabled", \.isEnabled, isLive: true)

  /// Selects ``Watchdog/Configuration/standardDirectory``, compared without case.
  static let standard = "standard"

  static let truthForm = "yes or no"

  /// Returns `nil` if `text` is neither yes nor no.
  static func truth(_ text: String) -> Bool? {
    switch text.lowercased() {
    case "1", "yes", "true", "on": true
    case "0", "no", "false", "off": false
    default: nil
    }
  }

  /// Creates a setting for one property. `parse` returns `nil` if the form is wrong; `show` returns text for people.
  private static func plain<Value>(
    _ name: String,
    _ property: String,
    _ path: WritableKeyPath<Configuration, Value> & Sendable,
    isLive: Bool = false,
    _ form: String,
    parse: @escaping @Sendable (String) -> Value?,
    show: @escaping @Sendable (Value) -> String
  ) -> Setting {
    Setting(
      name: name,
      property: property,
      isLive: isLive,
      form: form,
      set: { configuration, text in
        guard let value = parse(text) else { return false }
        configuration[keyPath: path] = value
        return true
      },
      show: { show($0[keyPath: path]) },
      copy: { $0[keyPath: path] = $1[keyPath: path] }
    )
  }

  private static func duration(
    _ name: String,
    _ property: String,
    _ path: WritableKeyPath<Configuration, Duration> & Sendable,
    isLive: Bool = true
  ) -> Setting {
    plain(name, property, path, isLive: isLive, Duration.textForm, parse: { Duration(text: $0) }, show: { $0.text })
  }

  private static func limit(
    _ name: String,
    _ property: String,
    _ path: WritableKeyPath<Configuration, Duration?> & Sendable,
    isLive: Bool = true
  ) -> Setting {
    plain(
      name,
      property,
      path,
      isLive: isLive,
      Duration.textForm + ", or none",
      parse: { text in text == "none" ? .some(nil) : Duration(text: text).map { .some($0) } },
      show: { $0?.text ?? "none" }
    )
  }

  private static func yesOrNo(
    _ name: String,
    _ property: String,
    _ path: WritableKeyPath<Configuration, Bool> & Sendable,
    isLive: Bool = false
  ) -> Setting {
    plain(name, property, path, isLive: isLive, truthForm, parse: truth, show: { $0 ? "yes" : "no" })
  }

  /// Parses `name=value` separated by commas; `nil` if the form is wrong.
  private static func labels(_ text: String) -> [String: String]? {
    guard text != "none" else { return [:] }
    var labels: [String: String] = [:]
    for part in parts(text) {
      guard let equals = part.firstIndex(of: "=") else { return nil }
      let name = String(part[..<equals])
      guard !name.isEmpty, labels[name] == nil else { return nil }
      labels[name] = String(part[part.index(after: equals)...])
    }
    return labels
  }

  /// Drops empty parts.
  private static func parts(_ text: String) -> [String] {
    text.split(separator: ",").map { String($0.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()) }
      .filter { !$0.isEmpty }
  }

  private static func list(
    _ name: String,
    _ property: String,
    _ path: WritableKeyPath<Configuration, [String]> & Sendable,
    _ form: String
  ) -> Setting {
    plain(
      name,
      property,
      path,
      form,
      parse: parts,
      show: { $0.isEmpty ? "none" : $0.joined(separator: ", ") }
    )
  }

  private static func number(
    _ name: String,
    _ property: String,
    _ path: WritableKeyPath<Configuration, Int> & Sendable,
    _ form: String
  ) -> Setting {
    plain(name, property, path, form, parse: { Int($0) }, show: { "\($0)" })
  }
}

extension Duration {
  /// A whole number with a unit, as ``init(text:)`` accepts it; below a microsecond, the description.
  var text: String {
    let (seconds, attoseconds) = components
    guard attoseconds == 0 else {
      let (micro, milli) = (Int64(1_000_000_000_000), Int64(1_000_000_000_000_000))
      guard attoseconds % micro == 0, abs(seconds) < 1_000_000 else { return description }
      if attoseconds % milli == 0 { return "\(seconds * 1000 + attoseconds / milli)ms" }
      return "\(seconds * 1_000_000 + attoseconds / micro)us"
    }
    let units: [(name: String, seconds: Int64)] = [("d", 86_400), ("h", 3600), ("m", 60)]
    guard seconds != 0, let unit = units.first(where: { seconds % $0.seconds == 0 }) else { return "\(seconds)s" }
    return "\(seconds / unit.seconds)\(unit.name)"
  }

  static let textForm = "a duration such as 2s, 500ms, 1m or 250us"

  /// Parses a number, optionally with a fraction, and a unit: d, h, m, s, ms or us.
  init?(text: String) {
    let trimmed = text.drop { $0 == " " }
    let digits = trimmed.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    let unit = trimmed.dropFirst(digits.count).drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()
    let nanoseconds: Double
    switch String(unit) {
    case "d": nanoseconds = 86_400e9
    case "h": nanoseconds = 3_600e9
    case "m": nanoseconds = 60e9
    case "s": nanoseconds = 1e9
    case "ms": nanoseconds = 1e6
    case "us": nanoseconds = 1e3
    default: return nil
    }
    guard let number = Double(digits), number * nanoseconds < 1e18 else { return nil }
    self = .nanoseconds(Int64((number * nanoseconds).rounded()))
  }
}
