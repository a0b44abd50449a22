import CCulpritLinux
import CulpritStallRecord

/// The settings in the environment and in the configuration file. The environment overrides the code, and the file
/// overrides the environment.
struct Environment: Sendable {
  private let variables: [String: String]
  /// The path of the configuration file, if set.
  let file: String?

  static let prefix = "CULPRIT_"
  private static let enabledVariable = "CULPRIT_ENABLED"
  private static let fileVariable = "CULPRIT_CONFIGURATION"
  private static let runtimeVariable = "XDG_RUNTIME_DIR"

  /// sd_notify(3), sd_watchdog_enabled(3).
  private static let systemdVariables = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]

  /// Ignores unrelated variables.
  init(_ variables: [String: String]) {
    let others = Self.systemdVariables + Configuration.standardDirectoryVariables + [Self.runtimeVariable]
    self.variables = variables.filter { $0.key.hasPrefix(Self.prefix) || others.contains($0.key) }
    file = self.variables[Self.fileVariable].flatMap { $0.isEmpty ? nil : $0 }
  }

  /// The environment of this process. Empty in a program with more privileges than the invoking user
  /// (secure_getenv(3)): this user could otherwise make the program write files in any directory.
  static var ofProcess: Environment {
    var variables: [String: String] = [:]
    var index: Int32 = 0
    while let entry = clinux_environment_entry(index) {
      // SAFETY: the string is copied immediately. A concurrent change of the environment breaks every reader
      // (setenv(3)).
      let text = String(cString: entry)
      index += 1
      guard let equals = text.utf8.firstIndex(of: UInt8(ascii: "=")) else { continue }
      let name = String(text[..<equals])
      // As in getenv(3), the first of several values counts.
      if variables[name] == nil { variables[name] = String(text[text.utf8.index(after: equals)...]) }
    }
    return Environment(variables)
  }

  /// The variables that Culprit reads, and those set with its prefix.
  static let knownVariables = (Setting.all + [Setting.enabled]).map(\.variable) + [fileVariable]
  var names: [String] { variables.keys.filter { $0.hasPrefix(Self.prefix) } }

  var notifySocket: String? { variables["NOTIFY_SOCKET"] }
  var watchdogMicroseconds: String? { variables["WATCHDOG_USEC"] }
  var watchdogProcess: String? { variables["WATCHDOG_PID"] }

  /// `nil` without an absolute path, as the XDG base directory specification requires.
  var runtimeDirectory: String? { variables[Self.runtimeVariable].flatMap { $0.hasPrefix("/") ? $0 : nil } }

  /// Whether the environment disables the watchdog, and the problem with the variable's value.
  var switchesOff: (Bool, problem: String?) {
    guard let text = variables[Self.enabledVariable] else { return (false, nil) }
    guard let isEnabled = Setting.truth(text) else {
      let form = "it must be \(Setting.truthForm); the watchdog is started"
      return (false, "\(Self.enabledVariable) is \(quoted(text)); \(form)")
    }
    return (!isEnabled, nil)
  }

  /// Applies the environment and the file's `content` to `base`, which is valid. Keeps the fixed settings of `running`.
  /// Returns a valid configuration, and one sentence for each invalid value.
  func applied(
    to base: Configuration,
    content: ConfigurationFile.Content?,
    running: Configuration? = nil
  ) -> (configuration: Configuration, problems: [String]) {
    var configuration = base
    var problems = unknownNames
    var fileName: String { printable(file ?? "", limit: sentencePartMax) }
    for setting in Setting.all {
      guard let text = variables[setting.variable] else { continue }
      if let problem = apply(setting, text, &configuration) { problems.append("\(setting.variable) \(problem)") }
    }
    switch content {
    case .none: break
    case .unreadable(let why): problems.append("the configuration file \(fileName) cannot be read: \(why)")
    case .lines(let lines, let malformed):
      problems += malformed.map { "\(fileName), line \($0): a line must be name = value" }
      let known = Setting.all + [Setting.enabled]
      for line in lines where !known.contains(where: { $0.name == line.name }) {
        let names = known.map(\.name).joined(separator: ", ")
        let sentence = "unknown setting \(quoted(line.name)); available: \(names)"
        problems.append("\(fileName), line \(line.number): \(sentence)")
      }
      for setting in known {
        guard let line = lines.last(where: { $0.name == setting.name }) else { continue }
        if let problem = apply(setting, line.value, &configuration) {
          problems.append("\(fileName), line \(line.number): \(setting.name) \(problem)")
        }
      }
    }
    if let running {
      for setting in Setting.all where !setting.isLive && setting.show(configuration) != setting.show(running) {
        problems.append("\(setting.name) cannot be changed while the watchdog runs; it stays \(setting.show(running))")
        setting.copy(&configuration, running)
      }
    }
    return (configuration, problems)
  }

  /// Applies `text` if it is valid. Otherwise returns the problem as a continuation of the setting's name.
  private func apply(_ setting: Setting, _ text: String, _ configuration: inout Configuration) -> String? {
    var changed = configuration
    let stays = "it stays \(setting.show(configuration))"
    var value = text
    if setting.property == "storage.directory", text.lowercased() == Setting.standard {
      guard let directory = Configuration.standardDirectory(executable: ProcessMap.executablePath(), { variables[$0] })
      else {
        let names = Configuration.standardDirectoryVariables.joined(separator: ", ")
        return "is \(quoted(text)), and there is none: not one of \(names) has an absolute path; \(stays)"
      }
      value = directory
    }
    guard setting.set(&changed, value) else { return "is \(quoted(text)); it must be \(setting.form); \(stays)" }
    do {
      try changed.validate()
    } catch {
      return "is \(quoted(text)): \(error); \(stays)"
    }
    configuration = changed
    return nil
  }
}
