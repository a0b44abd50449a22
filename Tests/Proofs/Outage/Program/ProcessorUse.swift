import Glibc
import Judges

/// The processor time of Culprit's threads so far, in seconds.
struct ProcessorUse {
  /// By the names of the threads.
  var times: [String: Double] = [:]

  /// Reads the times of all threads whose names begin with `culprit-`.
  init() {
    guard let directory = opendir("/proc/self/task") else { return }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      let id = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      let name = readFile("/proc/self/task/\(id)/comm").split(separator: "\n").first.map(String.init) ?? ""
      // The first number is the time on a processor in nanoseconds (proc_pid_schedstat(5)).
      let time = readFile("/proc/self/task/\(id)/schedstat").split(separator: " ").first.flatMap { Double($0) }
      guard name.hasPrefix("culprit-"), let time else { continue }
      times[name, default: 0] += time / 1e9
    }
  }

  static func - (later: Self, earlier: Self) -> Self {
    var difference = later
    for (name, time) in earlier.times { difference.times[name, default: 0] -= time }
    return difference
  }
}
