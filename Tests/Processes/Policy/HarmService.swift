import Culprit
import Glibc
import Programs
import Synchronization
import TestWorkloads

final class BusyThreads: Sendable {
  private let stop = Atomic<Bool>(false)
  private let running = Atomic<Int>(0)
  private let ready = Atomic<Int>(0)

  init(_ watchdog: Watchdog, count: Int = 4) throws {
    for number in 0..<count {
      let loop = try watchdog.watchLoop(named: "busy \(number)")
      running.add(1, ordering: .relaxed)
      startThread { [self] in
        var rounds = 0
        while !stop.load(ordering: .relaxed) {
          loop.withTurn(label: "turn") {
            watchdog.withSection("inner", threshold: .seconds(5)) {}
            let timer = watchdog.beginSection("timed", threshold: .seconds(5)) { _ in }
            timer.label("timed")
            timer.withExemption {}
            timer.end()
            watchdog.withActivity("working", threshold: .seconds(5)) {}
          }
          _ = watchdog.configuration
          for _ in 0..<50 { watchdog.withSection("short", threshold: .seconds(5)) {} }
          rounds += 1
          if rounds == 20 { ready.add(1, ordering: .relaxed) }
        }
        loop.stop()
        running.subtract(1, ordering: .releasing)
      }
    }
    // The Swift runtime holds a lock while it looks up a type for the first time. A child forked meanwhile can hang, so
    // each thread first runs all of its code.
    _ = waitUntil { ready.load(ordering: .relaxed) == count }
  }

  func end() {
    stop.store(true, ordering: .relaxed)
    while running.load(ordering: .acquiring) > 0 { usleep(1000) }
  }
}

@inline(never)
func stall(_ time: Duration) {
  let end = ContinuousClock.now + time
  while ContinuousClock.now < end { usleep(5000) }
}

func waitUntil(_ isSo: () -> Bool) -> Bool {
  for _ in 0..<4000 where !isSo() { usleep(5000) }
  return isSo()
}

struct Ends {
  private(set) var exited = 0
  private(set) var others: [String] = []

  mutating func wait(for child: pid_t) {
    var status: Int32 = 0
    while waitpid(child, &status, 0) < 0, errno == EINTR {}
    switch status & 127 {
    case 0 where status >> 8 == 0: exited += 1
    case 0: others.append("status \(status >> 8)")
    case let signal: others.append("signal \(signal)")
    }
  }

  func print() {
    say("exited=\(exited)")
    say("otherwise=\(others)")
  }
}

/// The open descriptors of this process, with their targets.
func descriptors() -> [Int32: String] {
  let targets = entries(of: "/proc/self/fd").compactMap { name in
    Int32(name).map { ($0, linkTarget(of: "/proc/self/fd/\(name)")) }
  }
  // Excludes the descriptor of the listing, which is closed.
  return Dictionary(uniqueKeysWithValues: targets.filter { !$0.1.isEmpty })
}

func threads(named name: String) -> [Int32] { allThreads().filter { $0.name == name }.map(\.id) }

func allThreads() -> [(id: Int32, name: String)] {
  entries(of: "/proc/self/task").compactMap { number in
    guard let id = Int32(number), let name = line("/proc/self/task/\(number)/comm") else { return nil }
    return (id, name)
  }
}

private func line(_ path: String) -> String? { readFile(path).split(separator: "\n").first.map(String.init) }

/// Stops `watchdog`. If this takes 20 s, prints the state of all threads and ends the process.
func stopOrReport(_ watchdog: Watchdog) {
  guard !watchdog.stop(patience: .seconds(20)) else { return }
  for thread in allThreads() {
    let task = "/proc/self/task/\(thread.id)"
    let state = ["wchan", "syscall", "stat"].map { line("\(task)/\($0)") ?? "" }
    say("unended=\(thread.name) \(state.joined(separator: " "))")
  }
  _exit(9)
}

/// Files under the numbers of closed descriptors. No other code must change their content.
struct OwnFiles {
  private let directory: String
  private let content = Array("content of the service's own\n".utf8)
  private var numbers: [Int32] = []

  /// Opens files until every number up to `last` is used.
  init(in directory: String, upTo last: Int32) {
    self.directory = directory
    var number: Int32 = -1
    while number < last {
      number = open("\(directory)/own-\(getpid())-\(numbers.count)", O_RDWR | O_CREAT | O_TRUNC, 0o600)
      guard number >= 0 else { break }
      _ = write(number, content, content.count)
      numbers.append(number)
    }
  }

  var count: Int { numbers.count }

  /// Lists closed, replaced and changed files.
  func harmed() -> [String] {
    numbers.enumerated().compactMap { index, number in
      let path = linkTarget(of: "/proc/self/fd/\(number)")
      guard path.hasSuffix("/own-\(getpid())-\(index)") else { return "\(number) is \"\(path)\"" }
      var found = [UInt8](repeating: 0, count: 200)
      let count = pread(number, &found, found.count, 0)
      guard count == content.count, Array(found.prefix(count)) == content else { return "\(number) was written to" }
      return nil
    }
  }
}
