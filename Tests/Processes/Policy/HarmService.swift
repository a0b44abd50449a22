import Culprit
import Glibc
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
    // The Swift runtime locks while it looks up a type for the first time, and a child forked then can hang. So each
    // thread first runs all of its code once.
    _ = waitUntil { ready.load(ordering: .relaxed) == count }
  }

  func end() {
    stop.store(true, ordering: .relaxed)
    while running.load(ordering: .acquiring) > 0 { usleep(1000) }
  }
}

@discardableResult
func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t {
  final class Box {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  var thread = pthread_t()
  pthread_create(
    &thread,
    nil,
    { box in
      // SAFETY: retained below, consumed exactly once.
      if let box { Unmanaged<Box>.fromOpaque(box).takeRetainedValue().body() }
      return nil
    },
    Unmanaged.passRetained(Box(body)).toOpaque()
  )
  return thread
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

  func tell() {
    say("exited=\(exited)")
    say("otherwise=\(others)")
  }
}

func descriptors() -> [Int32: String] {
  guard let listing = opendir("/proc/self/fd") else { return [:] }
  defer { closedir(listing) }
  let own = dirfd(listing)
  var found: [Int32: String] = [:]
  while let entry = readdir(listing) {
    let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    guard let number = Int32(name), number != own else { continue }
    var target = [UInt8](repeating: 0, count: 4096)
    let length = readlink("/proc/self/fd/\(number)", &target, target.count)
    found[number] = String(decoding: target.prefix(max(0, length)), as: UTF8.self)
  }
  return found
}

func threads(named name: String) -> [Int32] { allThreads().filter { $0.name == name }.map(\.id) }

func allThreads() -> [(id: Int32, name: String)] {
  guard let listing = opendir("/proc/self/task") else { return [] }
  defer { closedir(listing) }
  var found: [(Int32, String)] = []
  while let entry = readdir(listing) {
    let number = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    guard let id = Int32(number), let name = line("/proc/self/task/\(number)/comm") else { continue }
    found.append((id, name))
  }
  return found
}

func content(_ path: String) -> String {
  let file = open(path, O_RDONLY | O_CLOEXEC)
  guard file >= 0 else { return "" }
  defer { close(file) }
  var text = [UInt8](repeating: 0, count: 4096)
  let count = read(file, &text, text.count)
  return String(decoding: text.prefix(max(0, count)), as: UTF8.self)
}

private func line(_ path: String) -> String? { content(path).split(separator: "\n").first.map(String.init) }

/// Stops `watchdog`. If that hangs, prints the state of all threads and ends the process.
func stopOrTell(_ watchdog: Watchdog) {
  guard !watchdog.stop(patience: .seconds(20)) else { return }
  for thread in allThreads() {
    let task = "/proc/self/task/\(thread.id)"
    let state = ["wchan", "syscall", "stat"].map { line("\(task)/\($0)") ?? "" }
    say("unended=\(thread.name) \(state.joined(separator: " "))")
  }
  _exit(9)
}

/// Files opened under closed numbers. Only this service may change their content.
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
      var target = [UInt8](repeating: 0, count: 4096)
      let length = readlink("/proc/self/fd/\(number)", &target, target.count)
      let path = String(decoding: target.prefix(max(0, length)), as: UTF8.self)
      guard path.hasSuffix("/own-\(getpid())-\(index)") else { return "\(number) is \"\(path)\"" }
      var found = [UInt8](repeating: 0, count: 200)
      let count = pread(number, &found, found.count, 0)
      guard count == content.count, Array(found.prefix(count)) == content else { return "\(number) was written to" }
      return nil
    }
  }
}
