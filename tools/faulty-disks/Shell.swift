import Glibc

/// Commands of a shell, as root has them on its path.
enum Shell {
  private static func words(_ command: String) -> [String] {
    ["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; \(command)"]
  }

  /// Runs `command` and returns what it says.
  @discardableResult
  static func run(_ command: String) throws(FaultyDiskError) -> String {
    let process = try ServiceProcess("/bin/sh", words(command + " 2>&1"))
    let said = process.rest()
    let status = process.end()
    guard status == 0 else { throw FaultyDiskError("\(command): status \(status): \(said)") }
    return said
  }

  /// Starts `command` in a process group of its own. Returns its process and the other end of its standard input.
  static func start(_ command: String) throws(FaultyDiskError) -> (process: pid_t, input: Int32) {
    let pipe = try Spawn.pipe()
    defer { close(pipe.reading) }
    let process = try Spawn.process("/bin/sh", words(command), input: pipe.reading, output: nil, isAlone: true)
    return (process, pipe.writing)
  }

  /// Waits for the end of `process`. Returns its exit status, or the negative number of the signal that ended it.
  static func end(_ process: pid_t) -> Int32 {
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 {
      // Somebody else has waited for it.
      guard errno == EINTR else { return -1 }
    }
    return status & 0x7f == 0 ? status >> 8 & 0xff : -(status & 0x7f)
  }
}

/// Starts programs.
enum Spawn {
  /// A pipe that is not passed on.
  static func pipe() throws(FaultyDiskError) -> (reading: Int32, writing: Int32) {
    var ends: [Int32] = [0, 0]
    guard Glibc.pipe(&ends) == 0 else { throw FaultyDiskError("pipe", errno) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (ends[0], ends[1])
  }

  /// Starts `program` as `words` with these ends of pipes, and no signal blocked. One that is alone is in a process group of its
  /// own, and hears nothing of what ends this process's. Returns its id.
  static func process(
    _ program: String,
    _ words: [String],
    input: Int32,
    output: Int32?,
    isAlone: Bool = false
  ) throws(FaultyDiskError) -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)
    if let output { posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) }
    if isAlone {
      // Whoever reads what this process says would wait for the end of the guard, too.
      for stream in [STDOUT_FILENO, STDERR_FILENO] {
        posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0)
      }
    }
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // The starter may be a thread of Dispatch, which blocks most signals.
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK) | (isAlone ? Int16(POSIX_SPAWN_SETPGROUP) : 0))
    var strings: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    defer { for string in strings { free(string) } }
    var process: pid_t = 0
    let error = posix_spawn(&process, program, &actions, &attributes, &strings, environ)
    guard error == 0 else { throw FaultyDiskError(program, error) }
    return process
  }
}
