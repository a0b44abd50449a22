import CCulpritLinux

extension Watchdog.Configuration {
  /// The directory for such files by the conventions of systemd and the XDG base directory specification, for
  /// ``Storage/directory``:
  ///
  ///     configuration.storage.directory = Watchdog.Configuration.standardDirectory
  ///
  /// The first of these whose variable is set: `$STATE_DIRECTORY/culprit` (systemd.exec(5), StateDirectory=; of several
  /// the first), `$RUNTIME_DIRECTORY/culprit` (which does not outlive a stop of the service unless
  /// RuntimeDirectoryPreserve= says so), `$XDG_STATE_HOME/culprit/NAME`, `$HOME/.local/state/culprit/NAME`, where NAME
  /// is that of the executable. `nil` when none is set, and in a program with more privileges than the user who started
  /// it.
  public static var standardDirectory: String? {
    // SAFETY: the string is copied at once; who changes the environment meanwhile breaks every reader (setenv(3)).
    standardDirectory(executable: ProcessMap.executablePath()) { clinux_environment($0).map { String(cString: $0) } }
  }

  /// The variables that say where it is, the first that counts first.
  static let standardDirectoryVariables = ["STATE_DIRECTORY", "RUNTIME_DIRECTORY", "XDG_STATE_HOME", "HOME"]

  /// The same for this executable and these variables. A path that is not absolute is none, as the specification has
  /// it.
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
