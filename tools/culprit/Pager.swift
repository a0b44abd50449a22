import Glibc
import Synchronization

/// The program that shows what is written to standard output, screen by screen.
enum Pager {
  /// Where it runs; 0: there is none.
  private static let process = Mutex<pid_t>(0)

  /// Has a pager show what is written to standard output from now on, where that is a terminal. Where it cannot be started, nothing
  /// changes.
  ///
  /// - Parameter command: What is run by a shell; `nil` for that of PAGER, else less, which shows what fits the screen without being
  ///   asked anything.
  static func start(_ command: String? = nil) {
    let command = command ?? Terminal.environment("PAGER") ?? "less"
    guard Terminal.isOutput, !command.isEmpty, command != "cat", exists(command) else { return }
    setenv("LESS", "FRX", 0)
    setenv("LV", "-c", 0)
    Interruption.withoutInterruption { _ in
      let started = spawn(["sh", "-c", command])
      process.withLock { if started > 0 { $0 = started } }
    }
  }

  /// Starts `words` with what is written to standard output from now on. Returns the process, or 0.
  private static func spawn(_ words: [String]) -> pid_t {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { return 0 }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { for end in ends { close(end) } }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // It is to end with the reader's wish, by SIGPIPE if it is a pipeline, and hears what this program waits for.
    var defaults = sigset_t()
    sigemptyset(&defaults)
    sigaddset(&defaults, SIGPIPE)
    posix_spawnattr_setsigdefault(&attributes, &defaults)
    var mask = Interruption.maskOfChildren
    posix_spawnattr_setsigmask(&attributes, &mask)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    defer { arguments.forEach { free($0) } }
    var started: pid_t = 0
    guard posix_spawn(&started, "/bin/sh", &actions, &attributes, &arguments, environ) == 0 else { return 0 }
    dup2(ends[1], STDOUT_FILENO)
    return started
  }

  /// Lets the pager have its end, and waits until the reader has had enough.
  static func end() {
    let running = process.withLock { $0 }
    guard running > 0 else { return }
    // Another thread may still write: to nobody.
    let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
    if nowhere >= 0 { dup2(nowhere, STDOUT_FILENO) } else { close(STDOUT_FILENO) }
    var status: Int32 = 0
    while waitpid(running, &status, 0) < 0, errno == EINTR {}
  }

  /// Whether the program of `command` can be run; what a shell has to look into is taken for good.
  static func exists(_ command: String) -> Bool {
    let name = String(command.prefix { $0 != " " })
    guard name.allSatisfy({ $0.isLetter || $0.isNumber || "/-_.+".contains($0) }) else { return true }
    if name.contains("/") { return access(name, X_OK) == 0 }
    let path = Terminal.environment("PATH") ?? "/usr/bin:/bin"
    return path.split(separator: ":").contains { access("\($0)/\(name)", X_OK) == 0 }
  }
}
