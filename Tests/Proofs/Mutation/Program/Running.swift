import Foundation

/// Why there is nothing to be said of the tests.
struct MutationError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// Writes a line at once: who reads sees how far it is.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

/// Runs a program of the search path with its standard output, and its errors where `withErrors`, kept.
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

/// The file that the processes of the mutated package share, with the number of the fault that is on.
struct FaultSwitch {
  private let file: UnsafeMutableRawPointer
  private static let bytes = 4 + 4096

  /// Makes the file at `path`, with no fault on.
  init(path: String) throws {
    try Data(count: Self.bytes).write(to: URL(fileURLWithPath: path))
    let descriptor = open(path, O_RDWR)
    defer { close(descriptor) }
    // SAFETY: the mapping is of the size of the file, shared as its other readers' are, and never unmapped.
    guard descriptor >= 0,
      let mapped = mmap(nil, Self.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), mapped != MAP_FAILED
    else { throw MutationError("\(path) cannot be mapped: \(String(cString: strerror(errno)))") }
    file = mapped
  }

  /// Switches the fault `number` on, and others off.
  func set(_ number: Int) {
    // SAFETY: the first four bytes of the mapping, which is aligned to a page.
    file.storeBytes(of: Int32(number), as: Int32.self)
  }

  /// The faults that have been reached since this was asked before.
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

/// A test as it was without a fault.
struct TestCase: Codable {
  /// What the test library calls it.
  var name: String
  /// How long it took alone, in seconds, with the start of its process.
  var seconds: Double
  /// The faults that it comes to.
  var reached: Set<Int>
  /// Whether it passed.
  var passed: Bool

  /// The target that it is in.
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

  /// What tests there are.
  func list() throws -> [String] {
    let (status, output) = try run([try program(), "--testing-library", "swift-testing", "--list-tests"], in: package)
    guard status == 0 else { throw MutationError("the tests cannot be listed: status \(status)") }
    return String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
  }

  /// How a run of tests went.
  struct Outcome {
    /// Whether every one passed.
    var passed: Bool
    /// What failed first: a test, or the whole process.
    var failure: String
    var seconds: Double
  }

  /// Runs the tests `names` in one process, for `seconds` at most.
  func test(_ names: [String], seconds: Double) throws -> Outcome {
    let pattern = names.map { "^" + NSRegularExpression.escapedPattern(for: $0) + "(/|$)" }.joined(separator: "|")
    let start = ContinuousClock.now
    let limit = String(format: "%.0f", seconds.rounded(.up))
    let (status, output) = try run(
      ["timeout", "-k", "5", limit, try program(), "--testing-library", "swift-testing", "--filter", pattern],
      in: package,
      withErrors: true
    )
    let text = String(decoding: output, as: UTF8.self)
    // "✘ Test name() recorded an issue at …", "✘ Test name() failed after …"; there may be colours around the sign.
    let line = text.split(separator: "\n").first { $0.contains("✘") && $0.contains(" Test ") }
    let failed = line?.split(separator: " Test ").last?.split(separator: " ").first
    let ran = text.contains("Test run with ")
    let failure = failed.map(String.init) ?? (status == 124 || status == 137 ? "does not end" : "ends with \(status)")
    let taken = (ContinuousClock.now - start) / .seconds(1)
    return Outcome(passed: status == 0 && ran, failure: failure, seconds: taken)
  }
}
