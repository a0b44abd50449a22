import CulpritStallRecord

/// A setting that an operator can give without touching the code: by an environment variable, or by a line of a file.
///
/// ``all`` is the one table of them; `docs/configuration.md` has the same, and a test compares the two.
struct Setting: Sendable {
  /// Its name in files. In the environment it is in capitals, behind `CULPRIT_`.
  let name: String
  /// Its name in ``Configuration``.
  let property: String
  /// Whether it can be changed while the watchdog runs.
  let isLive: Bool
  /// What a value looks like, to follow "it must be".
  let form: String
  /// Sets it to what `text` says. Returns whether `text` has the form.
  let set: @Sendable (inout Configuration, String) -> Bool
  /// Its value in a configuration, for people.
  let show: @Sendable (Configuration) -> String
  /// Makes it in the first configuration what it is in the second.
  let copy: @Sendable (inout Configuration, Configuration) -> Void

  /// Its name in the environment.
  var variable: String { "CULPRIT_" + name.uppercased() }

  /// All of them, in the order in which they are applied: what bounds others goes before them.
  static let all = [
    threshold,
    limit("hang_threshold", "hangThreshold", \.hangThreshold),
    duration("interval", "sampleInterval", \.sampleInterval),
    limit("terminate_after", "terminateAfter", \.terminateAfter),
    Setting(
      name: "directory",
      property: "directory",
      isLive: false,
      form: "a path, or \(standard)",
      set: { configuration, text in
        configuration.directory = text
        return !text.isEmpty
      },
      show: { $0.directory ?? "none" },
      copy: { $0.directory = $1.directory }
    ),
    number("directory_bytes", "directoryLimits.bytes", \.directoryLimits.bytes, "a number of bytes such as 268435456"),
    number("directory_files", "directoryLimits.files", \.directoryLimits.files, "a number such as 1000"),
    duration("directory_age", "directoryLimits.age", \.directoryLimits.age, isLive: false),
    yesOrNo("keep_recovered", "keepsRecoveredStalls", \.keepsRecoveredStalls),
    yesOrNo("note_crashes", "notesCrashes", \.notesCrashes),
    number("stack_bytes", "stackBytesMax", \.stackBytesMax, "a number of bytes such as 8388608"),
    number("symbol_memory", "symbolMemory", \.symbolMemory, "a number of bytes such as 67108864"),
    number("reports_per_minute", "reportsPerMinute", \.reportsPerMinute, "a number such as 60"),
    number("reports_per_culprit", "reportsPerCulprit", \.reportsPerCulprit, "a number such as 10"),
    number("activities_max", "activitiesMax", \.activitiesMax, "a number such as 1000"),
    duration("expiration_budget", "expirationBudget", \.expirationBudget, isLive: false),
    Setting(
      name: "while_debugged",
      property: "whileDebugged",
      isLive: false,
      form: "marked or ignored",
      set: { configuration, text in
        configuration.whileDebugged = text == "ignored" ? .ignored : .marked
        return text == "ignored" || text == "marked"
      },
      show: { $0.whileDebugged == .ignored ? "ignored" : "marked" },
      copy: { $0.whileDebugged = $1.whileDebugged }
    ),
    number("report_width", "reportWidth", \.reportWidth, "a number of characters such as 100"),
    list("own_modules", "ownModules", \.ownModules, "names of modules or packages, or paths, with commas between"),
    list("wrappers", "wrappers", \.wrappers, "names of functions such as Lock.lock(), with commas between"),
    limit("launch_budget", "launchBudget", \.launchBudget, isLive: false),
    limit("shutdown_budget", "shutdownBudget", \.shutdownBudget, isLive: false),
    yesOrNo("notice_sigterm", "noticesTermination", \.noticesTermination),
    yesOrNo("systemd", "notifiesSystemd", \.notifiesSystemd),
    yesOrNo("fetch_debug_information", "fetchesDebugInformation", \.fetchesDebugInformation),
    duration("fetch_patience", "debugInformationPatience", \.debugInformationPatience, isLive: false),
  ]

  /// How long work may take. An interval that nobody asked for follows a shorter threshold.
  private static let threshold = Setting(
    name: "threshold",
    property: "stallThreshold",
    isLive: true,
    form: Duration.textForm,
    set: { configuration, text in
      guard let duration = Duration(text: text) else { return false }
      configuration.stallThreshold = duration
      configuration.sampleInterval = min(configuration.sampleInterval, duration)
      return true
    },
    show: { "\($0.stallThreshold)" },
    copy: { $0.stallThreshold = $1.stallThreshold }
  )

  /// What switches a running watchdog off; in files only. ``Environment/disables`` is its counterpart in the environment.
  static let disable = Setting(
    name: "disable",
    property: "isEnabled",
    isLive: true,
    form: truthForm,
    set: { configuration, text in
      guard let isDisabled = truth(text) else { return false }
      configuration.isEnabled = !isDisabled
      return true
    },
    show: { $0.isEnabled ? "no" : "yes" },
    copy: { $0.isEnabled = $1.isEnabled }
  )

  /// What says that the directory is to be ``Configuration/standardDirectory``, in letters of any case.
  static let standard = "standard"

  static let truthForm = "yes or no"

  /// What `text` says, `nil` if neither yes nor no.
  static func truth(_ text: String) -> Bool? {
    switch text.lowercased() {
    case "1", "yes", "true", "on": true
    case "", "0", "no", "false", "off": false
    default: nil
    }
  }

  /// A setting that is one property of the configuration. `parse` gives the value that a text says, `nil` if it has not the
  /// form; `show` gives a value for people.
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
    plain(name, property, path, isLive: isLive, Duration.textForm, parse: { Duration(text: $0) }, show: { "\($0)" })
  }

  /// A duration, or none.
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
      show: { $0.map { "\($0)" } ?? "none" }
    )
  }

  private static func yesOrNo(
    _ name: String,
    _ property: String,
    _ path: WritableKeyPath<Configuration, Bool> & Sendable
  ) -> Setting {
    plain(name, property, path, truthForm, parse: { truth($0) }, show: { $0 ? "yes" : "no" })
  }

  /// What is between commas. An empty text is an empty list.
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
      parse: { text in
        text.split(separator: ",").map { String($0.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed()) }
          .filter { !$0.isEmpty }
      },
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
  /// What ``init(text:)`` reads.
  static let textForm = "a duration such as 2s, 500ms, 1m or 250us"

  /// The duration that `text` says: a number, with a fraction or without, and a unit (d, h, m, s, ms, us).
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
