import Judges
import Glibc

/// Measures the cost of a watchdog in an idle service: the example service with and without one, with equal options.
func benchIdle(_ figures: Figures) throws {
  let directory = CommandLine.arguments.first.map { String($0[..<($0.lastIndex(of: "/") ?? $0.startIndex)]) } ?? "."
  let watched = try Service(directory + "/example-service", ["--threshold=4000"])
  defer { watched.stop() }
  let unwatched = try Service(directory + "/example-service-unwatched", ["--threshold=4000"])
  defer { unwatched.stop() }
  // Long enough that start-up is over and one tick more or less does not matter.
  sleep(2)
  let before = watched.watchdogWakeups()
  let seconds: UInt32 = 20
  sleep(seconds)
  let wakeups = Double(watched.watchdogWakeups() - before) / Double(seconds)
  let (with, without) = (watched.residentMiB(), unwatched.residentMiB())
  figures.print("idle.wakeups", wakeups, "per second", in: 0.5...5)
  figures.print("idle.rss_watched", with, "MiB")
  figures.print("idle.rss_unwatched", without, "MiB")
  figures.print("idle.rss_delta", with - without, "MiB", in: -1...4)
}

/// A running service to measure.
private final class Service {
  private let id: pid_t

  init(_ path: String, _ arguments: [String]) throws {
    var pipes: [Int32] = [0, 0]
    guard pipe(&pipes) == 0 else { throw ServiceError(description: "cannot make a pipe") }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO)
    posix_spawn_file_actions_addclose(&actions, pipes[0])
    defer { posix_spawn_file_actions_destroy(&actions) }
    var words: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
    defer { words.forEach { free($0) } }
    var spawned: pid_t = 0
    let error = posix_spawn(&spawned, path, &actions, nil, &words, environ)
    close(pipes[1])
    defer { close(pipes[0]) }
    guard error == 0 else {
      throw ServiceError(description: "cannot start \(path): \(String(cString: strerror(error)))")
    }
    id = spawned
    // The service prints "listening on …" once it is up.
    var byte: UInt8 = 0
    while read(pipes[0], &byte, 1) == 1, byte != UInt8(ascii: "\n") {}
    guard byte == UInt8(ascii: "\n") else { throw ServiceError(description: "\(path) ended before it was up") }
  }

  func stop() {
    kill(id, SIGTERM)
    var status: Int32 = 0
    waitpid(id, &status, 0)
  }

  /// Resident memory, the kernel's exact count.
  func residentMiB() -> Double { Double(number("Rss:", in: readFile("/proc/\(id)/smaps_rollup"))) / 1024 }

  /// The number of voluntary context switches of the watchdog's threads so far: each is a wakeup.
  func watchdogWakeups() -> Int {
    var wakeups = 0
    for thread in threads() where readFile("/proc/\(id)/task/\(thread)/comm").hasPrefix("culprit-") {
      wakeups += number("voluntary_ctxt_switches:", in: readFile("/proc/\(id)/task/\(thread)/status"))
    }
    return wakeups
  }

  private func threads() -> [String] {
    guard let directory = opendir("/proc/\(id)/task") else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if !name.hasPrefix(".") { names.append(name) }
    }
    return names
  }

  private func number(_ label: String, in text: String) -> Int {
    let line = text.split(separator: "\n").first { $0.hasPrefix(label) }
    return line.flatMap { Int($0.dropFirst(label.count).filter(\.isNumber)) } ?? 0
  }
}

private struct ServiceError: Error, CustomStringConvertible {
  var description: String
}
