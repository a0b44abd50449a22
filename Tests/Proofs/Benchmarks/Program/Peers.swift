import Judges
import Glibc

/// A program that does the same as ours, run to its end.
struct PeerRun {
  /// How long it took, and the most memory that it had at a time.
  var seconds: Double
  var peakBytes: Double
  var output: String

  /// Why a program could not be run.
  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  /// Runs `command` (a path and its arguments) with the file `input` as its standard input.
  ///
  /// Its output is kept only where `keepsOutput` is set, which takes memory.
  ///
  /// - Throws: ``Failure`` when it cannot be started, or ends with another status than 0 and `mayFail` is not set.
  init(
    _ command: [String],
    input: String = "/dev/null",
    mayFail: Bool = false,
    keepsOutput: Bool = true
  ) throws {
    let path = keepsOutput ? "/tmp/culprit-bench-output-\(getpid())" : "/dev/null"
    defer { if keepsOutput { unlink(path) } }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input, O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0)
    var arguments = command.map { strdup($0) } + [nil]
    defer { arguments.forEach { free($0) } }
    var child: pid_t = 0
    let began = Self.now
    let status = posix_spawnp(&child, command[0], &actions, nil, &arguments, environ)
    guard status == 0 else {
      throw Failure(description: "cannot run \(command[0]): \(String(cString: strerror(status)))")
    }
    var ending: Int32 = 0
    var usage = rusage()
    while wait4(child, &ending, 0, &usage) < 0, errno == EINTR {}
    seconds = Self.now - began
    peakBytes = Double(usage.ru_maxrss) * 1024
    output = keepsOutput ? readFile(path) : ""
    guard ending == 0 || mayFail else {
      throw Failure(description: "\(command.joined(separator: " ")) did not end well")
    }
  }

  /// The middles of the times and of the peaks of `count` runs of each of `commands`, which take turns: what else happens
  /// on the machine meanwhile is the same for all.
  ///
  /// Until a child has its own program, it has the memory of this one: this must be asked before much is in it.
  static func medians(
    _ count: Int,
    _ commands: [[String]],
    input: String
  ) throws -> [(seconds: Double, peakBytes: Double)] {
    let rounds = try (0..<count)
      .map { _ in try commands.map { try PeerRun($0, input: input, mayFail: true, keepsOutput: false) } }
    return commands.indices.map { place in
      (median(rounds.map { $0[place].seconds }), median(rounds.map { $0[place].peakBytes }))
    }
  }

  private static var now: Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
