import Programs

/// The CPU time, the number and the open stall files of Culprit's threads.
struct CPUUse {
  /// The CPU time so far in seconds, by the names of the threads.
  var times: [String: Double] = [:]
  var threads = 0
  var handlerThreads = 0
  var stallFiles = 0

  /// Reads the times of all threads whose names begin with `culprit-`.
  init() {
    for thread in threadDirectories(named: "culprit-") {
      let name = readFile("\(thread)/comm").split(separator: "\n").first.map(String.init) ?? ""
      times[name, default: 0] += Double(cpuTime(of: [thread])) / 1e9
      threads += 1
      if name == "culprit-handler" { handlerThreads += 1 }
      guard name == "culprit-disk" else { continue }
      stallFiles = entries(of: "\(thread)/fd").count { linkTarget(of: "\(thread)/fd/\($0)").hasSuffix(".stall") }
    }
  }

  static func - (later: Self, earlier: Self) -> Self {
    var difference = later
    for (name, time) in earlier.times { difference.times[name, default: 0] -= time }
    return difference
  }
}
