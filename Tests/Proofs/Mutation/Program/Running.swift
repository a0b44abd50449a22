import Foundation
import Glibc

/// The reason why tests cannot be judged.
struct MutationError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// Writes a line without buffering, so that progress is visible.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

/// Runs a program from the search path. Returns its status and standard output, with standard error if `withErrors`.
func run(_ arguments: [String], in directory: String, withErrors: Bool = false) throws -> (status: Int32, output: Data)
{
  let process = Process()
  process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
  process.arguments = arguments
  process.currentDirectoryURL = URL(fileURLWithPath: directory)
  let pipe = Pipe()
  process.standardInput = FileHandle.nullDevice
  process.standardOutput = pipe
  process.standardError = withErrors ? pipe : FileHandle.nullDevice
  try process.run()
  let output = pipe.fileHandleForReading.readDataToEndOfFile()
  process.waitUntilExit()
  return (process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus, output)
}

/// The file with the number of the active fault. The processes of the mutated package map it.
struct FaultSwitch {
  private let file: UnsafeMutableRawPointer
  private static let bytes = 4 + 4096

  /// Creates the file at `path`, with no active fault.
  init(path: String) throws {
    try Data(count: Self.bytes).write(to: URL(fileURLWithPath: path))
    let descriptor = open(path, O_RDWR)
    defer { close(descriptor) }
    // SAFETY: the mapping has the size of the file, is shared with its other readers, and is never unmapped.
    guard descriptor >= 0,
      let mapped = mmap(nil, Self.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), mapped != MAP_FAILED
    else { throw MutationError("\(path) cannot be mapped: \(String(cString: strerror(errno)))") }
    file = mapped
  }

  /// Activates the fault `number` only.
  func set(_ number: Int) {
    // SAFETY: the first four bytes of the mapping, which is aligned to a page.
    file.storeBytes(of: Int32(number), as: Int32.self)
  }

  /// Returns the faults that have been reached since the last call.
  func takeReached() -> Set<Int> {
    var reached: Set<Int> = []
    for number in 0..<Self.bytes - 4 {
      // SAFETY: a byte within the mapping.
      if file.load(fromByteOffset: 4 + number, as: UInt8.self) != 0 { reached.insert(number) }
      file.storeBytes(of: 0, toByteOffset: 4 + number, as: UInt8.self)
    }
    return reached
  }
}

/// A test's results without a fault.
struct TestCase: Codable {
  /// The test's identifier in Swift Testing.
  var name: String
  /// The time of the test alone, in seconds, including the start of its process.
  var seconds: Double
  /// The faults that the test reaches.
  var reached: Set<Int>
  var passed: Bool

  var target: Substring { name.prefix { $0 != "." } }
}

/// The tests of the mutated package.
struct TestRunner {
  let package: String
  let faults: FaultSwitch

  private func program() throws -> String {
    let folder = package + "/.build/debug"
    let files = try FileManager.default.contentsOfDirectory(atPath: folder)
    guard let tests = files.first(where: { $0.hasSuffix("PackageTests.xctest") }) else {
      throw MutationError("there is no program with tests in \(folder)")
    }
    return "\(folder)/\(tests)"
  }

  /// Returns the names of all tests.
  func list() throws -> [String] {
    let (status, output) = try run([try program(), "--testing-library", "swift-testing", "--list-tests"], in: package)
    let names = String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
    // Listing fails if there are no tests.
    if names.isEmpty {
      throw MutationError("\(package) has no tests of Swift Testing (listing them: status \(status))")
    }
    guard status == 0 else { throw MutationError("the tests cannot be listed: status \(status)") }
    return names
  }

  /// The result of a run of tests.
  struct Outcome {
    var passed: Bool
    /// The first failure: a test, or the whole process.
    var failure: String
    var seconds: Double
  }

  /// Runs the tests `names` in one process, for at most `seconds`. Calls `isSlow` once after half a minute. Kills all
  /// processes that the tests have started.
  func test(_ names: [String], seconds: Double, isSlow: () -> Void = {}) throws -> Outcome {
    let pattern = names.map { "^" + NSRegularExpression.escapedPattern(for: $0) + "(/|$)" }.joined(separator: "|")
    let start = ContinuousClock.now
    // A file, because a process that inherits a pipe can keep it open.
    let path = package + ".output"
    let arguments = ["env", "-C", package, try program(), "--testing-library", "swift-testing", "--filter", pattern]
    let process = try spawn(arguments, output: path)
    var isMarkedSlow = false
    var isLate = false
    var waited: Int32 = 0
    while waitpid(process, &waited, WNOHANG) == 0 {
      let passed = (ContinuousClock.now - start) / .seconds(1)
      if passed > 30, !isMarkedSlow {
        isMarkedSlow = true
        isSlow()
      }
      if passed > seconds, !isLate {
        isLate = true
        Descendants.kill(waitedFor: process)
      }
      usleep(5000)
    }
    Descendants.kill()
    let status = waited & 0x7f == 0 ? waited >> 8 & 0xff : -(waited & 0x7f)
    let text = String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
    let failure = Self.failed(in: text) ?? (isLate ? "does not end" : "ends with \(status)")
    let taken = (ContinuousClock.now - start) / .seconds(1)
    return Outcome(passed: status == 0 && !isLate && text.contains("Test run with "), failure: failure, seconds: taken)
  }

  /// Starts a program with standard output and errors in the file `output`. Does not use Foundation, which also waits
  /// for the program's children.
  private func spawn(_ arguments: [String], output: String) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    posix_spawn_file_actions_adddup2(&actions, 1, 2)
    var words = arguments.map { strdup($0) } + [nil]
    defer { words.forEach { free($0) } }
    var process = pid_t()
    let error = posix_spawnp(&process, arguments[0], &actions, nil, &words, environ)
    guard error == 0 else { throw MutationError("\(arguments[0]): \(String(cString: strerror(error)))") }
    return process
  }

  /// Returns the first failed test in `text`: "✘ Test name() recorded an issue at …", "✘ Test name() failed after …".
  /// The sign can be coloured.
  private static func failed(in text: String) -> String? {
    guard let line = text.split(separator: "\n").first(where: { $0.contains("✘") && $0.contains(" Test ") }),
      let begin = line.range(of: " Test ")
    else { return nil }
    let rest = line[begin.upperBound...]
    let ends = [" recorded an issue", " failed after"].compactMap { rest.range(of: $0)?.lowerBound }
    return String(rest[..<(ends.min() ?? rest.endIndex)])
  }
}

/// The descendants of this process, including those whose parents have ended.
enum Descendants {
  /// Makes orphaned descendants children of this process (PR_SET_CHILD_SUBREAPER of prctl(2)). Kills all descendants
  /// when this process is interrupted.
  static func adopt() {
    // Glibc's module does not declare prctl.
    typealias Control = @convention(c) (Int32, UInt, UInt, UInt, UInt) -> Int32
    let becomesSubreaper: Int32 = 36
    // SAFETY: the symbol is prctl(2), which takes an option and up to four numbers.
    if let control = dlsym(nil, "prctl") { _ = unsafeBitCast(control, to: Control.self)(becomesSubreaper, 1, 0, 0, 0) }
    // A handler, because started programs inherit blocked and ignored signals.
    guard pipe(&Self.interruptions) == 0 else { return }
    for signal in [SIGINT, SIGTERM, SIGHUP] {
      Glibc.signal(signal) { signal in
        var byte = UInt8(truncatingIfNeeded: signal)
        _ = write(Descendants.interruptions[1], &byte, 1)
      }
    }
    Thread.detachNewThread {
      var signal: UInt8 = 0
      while read(interruptions[0], &signal, 1) != 1 {}
      kill()
      _exit(128 + Int32(signal))
    }
  }

  // SAFETY: written once, before the handlers are installed.
  nonisolated(unsafe) private static var interruptions: [Int32] = [-1, -1]

  /// Kills all descendants and reaps them, except `waitedFor`, which the caller reaps.
  static func kill(waitedFor: pid_t = 0) {
    // Repeats, because a process can fork until it has ended.
    for _ in 0..<1000 {
      let found = all()
      for process in found {
        _ = Glibc.kill(process, SIGKILL)
        if process != waitedFor { waitpid(process, nil, WNOHANG) }
      }
      if found.allSatisfy({ $0 == waitedFor }) { return }
      usleep(1000)
    }
  }

  /// Returns the ids of all descendants.
  private static func all() -> [pid_t] {
    let entries = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
    var children: [pid_t: [pid_t]] = [:]
    for id in entries.compactMap({ pid_t($0) }) {
      // "7 (name) S 1 …", where the name can contain any characters.
      guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
        let parent = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ").dropFirst(2).first
      else { continue }
      children[pid_t(parent) ?? 0, default: []].append(id)
    }
    var found: [pid_t] = []
    var rest = children[getpid()] ?? []
    while let next = rest.popLast() {
      found.append(next)
      rest += children[next] ?? []
    }
    return found
  }
}
