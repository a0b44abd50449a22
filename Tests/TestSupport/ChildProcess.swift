import Foundation

/// What a program said and how it ended.
public struct ChildProcess: Sendable {
  /// Everything it wrote to its standard output.
  public var output: String
  /// Everything it wrote to its standard error; empty unless that was asked for.
  public var errors = ""
  /// Its exit status, or the number of the signal that ended it.
  public var status: Int32
  /// Whether it ended by itself.
  public var hasExited: Bool

  /// Runs the program at `path` to its end.
  ///
  /// - Parameters:
  ///   - path: The program's file.
  ///   - arguments: What is passed to it.
  ///   - environment: What is added to its environment. Its standard error is kept when this is given.
  ///   - meanwhile: Called with its process id once it has been started.
  /// - Throws: What `meanwhile` throws, or why the program could not be started.
  public init(
    _ path: String,
    _ arguments: [String],
    environment: [String: String]? = nil,
    meanwhile: (pid_t) throws -> Void = { _ in }
  ) throws {
    let process = Process()
    let pipe = Pipe()
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = arguments
    process.standardOutput = pipe
    // A file, so that neither stream waits for the other to be read.
    let said = NSTemporaryDirectory() + "culprit-errors-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: said) }
    if let environment {
      process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
      _ = FileManager.default.createFile(atPath: said, contents: nil)
      process.standardError = FileHandle(forWritingAtPath: said)
    }
    try process.run()
    defer { process.waitUntilExit() }
    try meanwhile(process.processIdentifier)
    output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    status = process.terminationStatus
    if environment != nil { errors = try String(contentsOfFile: said, encoding: .utf8) }
    hasExited = process.terminationReason == .exit
  }

  /// The value of the line `name=value` of its output.
  public func fact(_ name: String) -> String? {
    output.split(separator: "\n").first { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
  }

  /// The values of all such lines.
  public func facts(_ name: String) -> [String] {
    output.split(separator: "\n").filter { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
  }

  /// The path of a program of this package, which is built beside the tests.
  public static func built(_ name: String) -> String { buildDirectory + "/" + name }

  /// Where this test's own program is. Not by its mappings, which sanitizers change.
  private static let buildDirectory: String = {
    let path = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    return String(path.prefix(upTo: path.lastIndex(of: "/") ?? path.endIndex))
  }()
}
