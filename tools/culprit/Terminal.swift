import Glibc

/// What the terminal is like that standard output is.
enum Terminal {
  /// Whether standard output is one.
  static var isOutput: Bool { isatty(STDOUT_FILENO) == 1 }

  /// The width of the terminal that standard output is, but at least 40, or `nil` when it is none.
  static var width: Int? { width(of: STDOUT_FILENO).map { min(max($0, 40), 1000) } }

  /// The columns of the terminal that `descriptor` is, or `nil` when it is none, or does not tell.
  static func width(of descriptor: Int32) -> Int? {
    var size = winsize()
    guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return Int(size.ws_col)
  }

  /// Whether TERM tells of one that can move its cursor and has colours.
  static var isCapable: Bool { environment("TERM").map { $0 != "dumb" && !$0.isEmpty } ?? false }

  /// Whether colours are wanted, by `--color=WHEN`; left to itself on a terminal that has them, unless NO_COLOR is set
  /// (https://no-color.org).
  static func hasColor(_ when: String?) -> Bool {
    switch when {
    case "always": true
    case "never": false
    default: isOutput && isCapable && (environment("NO_COLOR") ?? "").isEmpty
    }
  }

  /// Whether the locale's characters are those of ASCII only: what POSIX looks at for LC_CTYPE names no UTF-8.
  static var isASCII: Bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap(environment).first { !$0.isEmpty } ?? "C"
    let name = locale.lowercased()
    return !name.contains("utf-8") && !name.contains("utf8")
  }

  /// The value of the variable called `name`.
  static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
