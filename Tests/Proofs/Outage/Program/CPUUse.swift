import Glibc
import Judges

/// The CPU time and the files of Culprit's threads.
struct CPUUse {
  /// The CPU time so far in seconds, by the names of the threads.
  var times: [String: Double] = [:]
  var threads = 0
  var stallFiles = 0

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
      threads += 1
      if name == "culprit-disk" { stallFiles = Self.stallFiles(id) }
    }
  }

  private static func stallFiles(_ id: String) -> Int {
    guard let directory = opendir("/proc/self/task/\(id)/fd") else { return 0 }
    defer { closedir(directory) }
    var count = 0
    while let entry = readdir(directory) {
      let number = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      var path = [UInt8](repeating: 0, count: 4096)
      let length = path.withUnsafeMutableBytes { bytes in
        bytes.withMemoryRebound(to: CChar.self) {
          $0.baseAddress.map { readlink("/proc/self/task/\(id)/fd/\(number)", $0, bytes.count) } ?? 0
        }
      }
      if String(decoding: path.prefix(max(0, length)), as: UTF8.self).hasSuffix(".stall") { count += 1 }
    }
    return count
  }

  static func - (later: Self, earlier: Self) -> Self {
    var difference = later
    for (name, time) in earlier.times { difference.times[name, default: 0] -= time }
    return difference
  }
}
