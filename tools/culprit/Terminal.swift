import CulpritOptions
import CulpritReports
import Glibc

/// What of a report's style depends on where it is written to.
enum Terminal {
  /// Whether standard output is one.
  static var isOutput: Bool { isatty(STDOUT_FILENO) == 1 }

  /// The width of the terminal that standard output is, or `nil` when it is none.
  static var width: Int? {
    var size = winsize()
    guard isOutput, ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col >= 40 else { return nil }
    return min(Int(size.ws_col), 1000)
  }

  /// Whether colours are wanted, by `--color=WHEN`; left to itself on a terminal that has them, unless NO_COLOR is set
  /// (https://no-color.org).
  ///
  /// - Throws: ``UsageError`` for another WHEN.
  static func hasColor(_ when: String?) throws(UsageError) -> Bool {
    switch when {
    case "always": return true
    case "never": return false
    case nil, "auto":
      let isDumb = environment("TERM").map { $0 == "dumb" } ?? true
      return isOutput && !isDumb && (environment("NO_COLOR") ?? "").isEmpty
    case let other?: throw UsageError("--color takes auto, always or never, not \"\(other)\"")
    }
  }

  /// Whether the locale's characters are those of ASCII only: what POSIX looks at for LC_CTYPE names no UTF-8.
  static var isASCII: Bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap(environment).first { !$0.isEmpty } ?? "C"
    let name = locale.lowercased()
    return !name.contains("utf-8") && !name.contains("utf8")
  }

  private static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

  // MARK: - A pager

  /// Where the pager runs; 0: there is none.
  // SAFETY: it is used by the main thread alone, which also runs what atexit(3) was given.
  nonisolated(unsafe) private static var pager: pid_t = 0

  /// Has a pager show what is written to standard output from now on, where that is a terminal: that of PAGER, else less, which shows
  /// what fits the screen without being asked anything. The end of the command waits for it. Where it cannot be started, nothing
  /// changes.
  static func startPager() {
    let command = environment("PAGER") ?? "less"
    guard isOutput, pager == 0, !command.isEmpty, command != "cat", exists(command) else { return }
    setenv("LESS", "FRX", 0)
    setenv("LV", "-c", 0)
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { return }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO)
    // It is to end with the reader's wish, and by SIGPIPE if it is a pipeline.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var defaults = sigset_t()
    sigemptyset(&defaults)
    sigaddset(&defaults, SIGPIPE)
    posix_spawnattr_setsigdefault(&attributes, &defaults)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
    let shell = ["sh", "-c", command]
    var words: [UnsafeMutablePointer<CChar>?] = shell.map { strdup($0) } + [nil]
    defer { words.forEach { free($0) } }
    let error = posix_spawn(&pager, "/bin/sh", &actions, &attributes, &words, environ)
    close(ends[0])
    if error == 0 {
      dup2(ends[1], STDOUT_FILENO)
      // The keys that interrupt are the pager's.
      signal(SIGINT, SIG_IGN)
      atexit { Terminal.waitForPager() }
    } else {
      pager = 0
    }
    close(ends[1])
  }

  /// Lets the pager have its end, and waits until the reader has had enough.
  private static func waitForPager() {
    guard pager > 0 else { return }
    close(STDOUT_FILENO)
    var status: Int32 = 0
    while waitpid(pager, &status, 0) < 0, errno == EINTR {}
  }

  /// Whether the program of `command` can be run; what a shell has to look into is taken for good.
  static func exists(_ command: String) -> Bool {
    let name = String(command.prefix { $0 != " " })
    guard name.allSatisfy({ $0.isLetter || $0.isNumber || "/-_.+".contains($0) }) else { return true }
    if name.contains("/") { return access(name, X_OK) == 0 }
    let path = environment("PATH") ?? "/usr/bin:/bin"
    return path.split(separator: ":").contains { access("\($0)/\(name)", X_OK) == 0 }
  }
}
