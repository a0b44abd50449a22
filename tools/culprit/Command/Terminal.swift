import Glibc

enum Terminal {
  static var isOutput: Bool { isatty(STDOUT_FILENO) == 1 }

  static var width: Int? { width(of: STDOUT_FILENO).map { min(max($0, 40), 1000) } }

  /// Returns the number of columns; `nil` unless `descriptor` is a terminal of known size.
  static func width(of descriptor: Int32) -> Int? {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Int(size.ws_col)
  }

  /// Whether TERM supports cursor movement and colors.
  static var isCapable: Bool { environment("TERM").map { $0 != "dumb" && !$0.isEmpty } ?? false }

  /// Whether to use colors for `--color=WHEN`. By default, capable terminals have colors unless NO_COLOR is set
  /// (https://no-color.org).
  static func hasColor(_ when: String?) -> Bool {
    switch when {
    case "always": true
    case "never": false
    default: isOutput && isCapable && (environment("NO_COLOR") ?? "").isEmpty
    }
  }

  /// Whether the character set is not UTF-8, by the variable that POSIX evaluates for LC_CTYPE.
  static var isASCII: Bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap(environment).first { !$0.isEmpty } ?? "C"
    let name = locale.lowercased()
    return !name.contains("utf-8") && !name.contains("utf8")
  }

  static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
