import Glibc
import Judges
import Programs

/// A finished run of Culprit or of a peer program.
struct PeerRun {
  /// The wall time.
  var seconds: Double
  /// The CPU time.
  var processorSeconds: Double
  /// The peak of resident memory.
  var peakBytes: Double
  var output: String

  /// Runs `command` (a path and its arguments) with the file `input` as its standard input.
  ///
  /// Keeps the output only if `keepsOutput`, which takes memory.
  ///
  /// - Throws: ``ProofError`` if the command cannot be started, or if it fails and `mayFail` is not set.
  init(_ command: [String], input: String = "/dev/null", mayFail: Bool = false, keepsOutput: Bool = true) throws {
    let path = keepsOutput ? "/tmp/culprit-bench-output-\(getpid())" : "/dev/null"
    let use = "/tmp/culprit-bench-use-\(getpid())"
    defer {
      if keepsOutput { unlink(path) }
      unlink(use)
    }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input, O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 3, use, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    // The launcher is small because a program's peak of memory is at least its parent's.
    let launcher = programDirectory + "/bench-launcher"
    var arguments = ([launcher] + command).map { strdup($0) } + [nil]
    defer { arguments.forEach { free($0) } }
    var child: pid_t = 0
    let status = posix_spawn(&child, launcher, &actions, nil, &arguments, environ)
    guard status == 0 else {
      throw ProofError("cannot run \(launcher): \(String(cString: strerror(status)))")
    }
    var ending: Int32 = 0
    while waitpid(child, &ending, 0) < 0, errno == EINTR {}
    // Nanoseconds of wall time, microseconds of CPU time, KiB, and the exit status.
    let numbers = readFile(use).split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
    let isMissing = numbers.last == Double(127 << 8)
    guard ending == 0, numbers.count == 4, !isMissing else {
      throw ProofError("\(launcher) could not run \(command[0])")
    }
    seconds = numbers[0] / 1e9
    processorSeconds = numbers[1] / 1e6
    peakBytes = numbers[2] * 1024
    output = keepsOutput ? readFile(path) : ""
    guard numbers[3] == 0 || mayFail else {
      throw ProofError("\(command.joined(separator: " ")) failed")
    }
  }

  /// Returns medians of `count` runs of each of `commands`. Runs alternate, so other work affects all commands alike.
  static func medians(
    _ count: Int,
    _ commands: [[String]],
    input: String
  ) throws -> [(processorSeconds: Double, peakBytes: Double)] {
    let rounds = try (0..<count)
      .map { _ in try commands.map { try PeerRun($0, input: input, mayFail: true, keepsOutput: false) } }
    return commands.indices.map { place in
      (median(rounds.map { $0[place].processorSeconds }), median(rounds.map { $0[place].peakBytes }))
    }
  }
}
