import Foundation
import Programs
import Testing

/// The output and exit status of a program.
package struct ChildProcess: Sendable {
  package var output: String
  /// Standard error; empty unless it was kept.
  package var errors: String
  package var status: Int32
  /// Whether the process exited, and was not killed by a signal.
  package var hasExited: Bool

  /// Runs the program at `path` to its end.
  ///
  /// - Parameters:
  ///   - path: The path of the executable.
  ///   - arguments: The program's arguments.
  ///   - environment: Variables added to its environment. If given, standard error is kept.
  ///   - directory: The working directory; `nil` inherits this process's.
  ///   - input: Standard input, passed by a pipe.
  ///   - keepsErrors: Whether its standard error is kept.
  ///   - meanwhile: Called with the process id after the program has been started.
  /// - Throws: ``SpawnError`` if the program cannot be started, or the error that `meanwhile` throws.
  package init(
    _ path: String,
    _ arguments: [String],
    environment: [String: String]? = nil,
    directory: String? = nil,
    input: Data = Data(),
    keepsErrors: Bool = false,
    meanwhile: (pid_t) throws -> Void = { _ in }
  ) throws {
    let process = try RunningProcess(
      path,
      arguments,
      environment: environment,
      directory: directory,
      keepsErrors: keepsErrors || environment != nil
    )
    defer { process.end() }
    process.write(input)
    process.closeInput()
    try meanwhile(process.id)
    output = process.rest()
    (status, hasExited) = process.end()
    errors = process.errors
  }

  package init(_ words: [String]) throws { try self.init(words[0], Array(words.dropFirst())) }

  /// Returns the value of the output line `name=value`.
  package func fact(_ name: String) -> String? {
    output.split(separator: "\n").first { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
  }

  package func facts(_ name: String) -> [String] {
    output.split(separator: "\n").filter { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
  }

  /// Returns the path of a program of this package. Records an issue if it is not built.
  package static func built(_ name: String) -> String {
    let path = programDirectory + "/" + name
    if !FileManager.default.fileExists(atPath: path) {
      Issue.record("\(name) is not built: run tools/test, or build with BUILD_CULPRIT_WITH=tests")
    }
    return path
  }

  /// Copies a program by cp(1). If this process wrote the copy, a child could inherit the open file, and a file open
  /// for writing cannot be executed.
  package static func copyProgram(_ from: String, to: String) throws {
    let copy = try ChildProcess("/bin/cp", [from, to], keepsErrors: true)
    try #require(copy.hasExited && copy.status == 0, "\(copy)")
  }
}

/// Whether `process` has no thread and no open descriptor left. kill(2) cannot show this: it also succeeds for an
/// unreaped child.
package func isOver(_ process: pid_t) -> Bool {
  guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return true }
  let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []
  return status.contains(") Z ") && tasks.count <= 1
}
