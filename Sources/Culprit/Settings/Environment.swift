import CCulpritLinux
import CulpritStallRecord

/// What the environment and the file that it names say about the watchdog's configuration.
///
/// The environment beats the code, and the file beats the environment. A value that makes no sense is left out, and a
/// sentence says so.
struct Environment: Sendable {
  /// The variables that begin with `CULPRIT_`, systemd's, and those that say where the standard directory is.
  private let variables: [String: String]
  /// The path of the file, if there is one.
  let file: String?

  static let prefix = "CULPRIT_"
  private static let enabledVariable = "CULPRIT_ENABLED"
  private static let fileVariable = "CULPRIT_CONFIGURATION"

  /// What systemd says to a service: sd_notify(3), sd_watchdog_enabled(3).
  private static let systemdVariables = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]

  /// The environment with these variables, of which only those of Culprit's matter.
  init(_ variables: [String: String]) {
    let others = Self.systemdVariables + Configuration.standardDirectoryVariables
    self.variables = variables.filter { $0.key.hasPrefix(Self.prefix) || others.contains($0.key) }
    file = self.variables[Self.fileVariable].flatMap { $0.isEmpty ? nil : $0 }
  }

  /// The environment of this process. Empty in a program that has more privileges than who started it (set-user-ID and
  /// the like, secure_getenv(3)): with a directory of his choice he could have files written that he may not write.
  static var ofProcess: Environment {
    var variables: [String: String] = [:]
    var index: Int32 = 0
    while let entry = clinux_environment_entry(index) {
      // SAFETY: the string is copied at once; who changes the environment meanwhile breaks every reader (setenv(3)).
      let text = String(cString: entry)
      index += 1
      guard let equals = text.utf8.firstIndex(of: UInt8(ascii: "=")) else { continue }
      let name = String(text[..<equals])
      // Of two with the same name getenv(3) finds the first.
      if variables[name] == nil { variables[name] = String(text[text.utf8.index(after: equals)...]) }
    }
    return Environment(variables)
  }

  /// The names behind the prefix that mean something, and those that are there.
  static let knownVariables = (Setting.all + [Setting.enabled]).map(\.variable) + [fileVariable]
  var names: [String] { variables.keys.filter { $0.hasPrefix(Self.prefix) } }

  /// Where systemd listens, after how long without a ping it takes the service for dead, and which process that is about.
  var notifySocket: String? { variables["NOTIFY_SOCKET"] }
  var watchdogMicroseconds: String? { variables["WATCHDOG_USEC"] }
  var watchdogProcess: String? { variables["WATCHDOG_PID"] }

  /// Whether the watchdog is not to start at all, and what is wrong with the variable that says so.
  var switchesOff: (Bool, problem: String?) {
    guard let text = variables[Self.enabledVariable] else { return (false, nil) }
    guard let isEnabled = Setting.truth(text) else {
      let form = "it must be \(Setting.truthForm); the watchdog is started"
      return (false, "\(Self.enabledVariable) is \(quoted(text)); \(form)")
    }
    return (!isEnabled, nil)
  }

  /// `base` with what the environment and `content`, the file's, say.
  ///
  /// - Parameters:
  ///   - base: The configuration in the code, which makes sense.
  ///   - content: The file's content, or why it could not be read; `nil` when there is no file.
  ///   - running: The configuration of the watchdog that runs, whose fixed settings stay; `nil` at start.
  /// - Returns: A configuration that makes sense, and a sentence for each value that does not.
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
        let sentence = "there is no setting \(quoted(line.name)); there are \(names)"
        problems.append("\(fileName), line \(line.number): \(sentence)")
      }
      for setting in known {
        // The last line of a name counts.
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

  /// Sets `setting` to what `text` says, if that makes sense. Returns what is wrong otherwise, to follow the name.
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
      return "is \(quoted(text)), so that \(error); \(stays)"
    }
    configuration = changed
    return nil
  }
}
