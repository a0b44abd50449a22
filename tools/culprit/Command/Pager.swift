import Glibc
import Synchronization

enum Pager {
  private static let process = Mutex<pid_t>(0)

  /// Starts a pager for further output to a terminal, if possible. `command` is a shell command. The default is PAGER,
  /// or without it, `less`, which exits at once if the text fits the screen.
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

  /// Starts `words` as a pager of standard output. Returns 0 on failure.
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
    // SIGPIPE must end the commands of a pipeline when the user quits. The child must also receive the signals blocked
    // by this program.
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

  /// Closes the pager's input and waits for the user to quit.
  static func end() {
    let running = process.withLock { $0 }
    guard running > 0 else { return }
    // Output of other threads is discarded from now on.
    let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
    if nowhere >= 0 { dup2(nowhere, STDOUT_FILENO) } else { close(STDOUT_FILENO) }
    var status: Int32 = 0
    while waitpid(running, &status, 0) < 0, errno == EINTR {}
  }

  /// Whether the program of `command` exists. Commands that need a shell are assumed to exist.
  static func exists(_ command: String) -> Bool {
    let name = String(command.prefix { $0 != " " })
    guard name.allSatisfy({ $0.isLetter || $0.isNumber || "/-_.+".contains($0) }) else { return true }
    if name.contains("/") { return access(name, X_OK) == 0 }
    let path = Terminal.environment("PATH") ?? "/usr/bin:/bin"
    return path.split(separator: ":").contains { access("\($0)/\(name)", X_OK) == 0 }
  }
}
