import CCulpritLinux

extension Watchdog.Configuration {
  /// The standard directory for ``Storage/directory``, by the conventions of systemd and XDG: the first of these whose
  /// variable is set to an absolute path.
  ///
  /// - `$STATE_DIRECTORY/culprit` (systemd.exec(5); the first of several directories);
  /// - `$RUNTIME_DIRECTORY/culprit`, which is removed when the service stops unless RuntimeDirectoryPreserve= is set;
  /// - `$XDG_STATE_HOME/culprit/NAME`, with the name of the executable;
  /// - `$HOME/.local/state/culprit/NAME`.
  ///
  /// `nil` if no variable is set, and in a program with more privileges than the invoking user.
  public static var standardDirectory: String? {
    // SAFETY: the string is copied immediately. A concurrent change of the environment breaks every reader (setenv(3)).
    standardDirectory(executable: ProcessMap.executablePath()) { clinux_environment($0).map { String(cString: $0) } }
  }

  /// In order of precedence.
  static let standardDirectoryVariables = ["STATE_DIRECTORY", "RUNTIME_DIRECTORY", "XDG_STATE_HOME", "HOME"]

  /// Ignores relative paths, as the XDG base directory specification requires.
  static func standardDirectory(executable: String, _ variable: (String) -> String?) -> String? {
    func path(_ name: String) -> String? {
      let first = variable(name)?.split(separator: ":").first.map(String.init) ?? ""
      return first.hasPrefix("/") ? first : nil
    }
    for name in ["STATE_DIRECTORY", "RUNTIME_DIRECTORY"] { if let path = path(name) { return path + "/culprit" } }
    let name = executable.split(separator: "/").last.map(String.init) ?? "unknown"
    if let path = path("XDG_STATE_HOME") { return "\(path)/culprit/\(name)" }
    return path("HOME").map { "\($0)/.local/state/culprit/\(name)" }
  }
}
