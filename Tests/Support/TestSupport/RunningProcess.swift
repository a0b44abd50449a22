import ChildProcesses
import Foundation

/// A running program, its standard input and its output.
package final class RunningProcess {
  package let id: pid_t
  private var input: Int32
  private let output: Int32
  /// A file, because reading one pipe could block while the other is full.
  private let errorFile: Int32
  private var ended: (status: Int32, hasExited: Bool)?

  /// Starts the program at `path`.
  ///
  /// - Parameters:
  ///   - path: The path of the executable.
  ///   - arguments: The program's arguments.
  ///   - environment: Variables added to its environment.
  ///   - directory: The working directory; `nil` inherits this process's.
  ///   - keepsErrors: Whether its standard error is kept.
  /// - Throws: ``SpawnError``.
  package init(
    _ path: String,
    _ arguments: [String],
    environment: [String: String]? = nil,
    directory: String? = nil,
    keepsErrors: Bool = false
  ) throws {
    // A task without the trait runs on the shared pool.
    guard OwnThread.isCurrent || withUnsafeCurrentTask(body: { $0 == nil }) else {
      throw SpawnError("\(path): a test that starts a program needs the trait .ownThread")
    }
    let (toIt, fromIt) = (try Spawn.pipe(), try Spawn.pipe())
    (input, output) = (toIt.writing, fromIt.reading)
    errorFile = keepsErrors ? try Spawn.file() : -1
    defer { for descriptor in [toIt.reading, fromIt.writing] { close(descriptor) } }
    // Programs print in UTF-8, independent of the locale of the tests.
    let variables = ProcessInfo.processInfo.environment.merging(["LC_ALL": "C.UTF-8"]) { $1 }
      .merging(environment ?? [:]) { $1 }.map { "\($0)=\($1)" }
    id = try Spawn.process(
      path,
      [path] + arguments,
      environment: variables,
      directory: directory,
      input: toIt.reading,
      output: fromIt.writing,
      errors: keepsErrors ? errorFile : nil
    )
  }

  deinit {
    closeInput()
    close(output)
    if errorFile >= 0 { close(errorFile) }
  }

  /// Writes `data` to standard input. Returns whether all was written.
  @discardableResult
  package func write(_ data: Data) -> Bool { Spawn.write(data, to: input) }

  package func closeInput() {
    guard input >= 0 else { return }
    close(input)
    input = -1
  }

  /// Returns the next output, which ends with a whole character; empty at end of file.
  package func next() -> String {
    var bytes = read(atMost: 4096)
    for _ in 0..<3 where String(validating: bytes, as: UTF8.self) == nil { bytes += read(atMost: 1) }
    return String(decoding: bytes, as: UTF8.self)
  }

  private func read(atMost count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    while true {
      let count = Glibc.read(output, &bytes, count)
      if count < 0, errno == EINTR { continue }
      return Array(bytes.prefix(max(0, count)))
    }
  }

  package func rest() -> String { String(decoding: Spawn.readAll(output), as: UTF8.self) }

  package var errors: String {
    guard errorFile >= 0 else { return "" }
    // The program and this process share the file offset.
    var bytes = [UInt8](repeating: 0, count: Int(max(0, lseek(errorFile, 0, SEEK_END))))
    let count = pread(errorFile, &bytes, bytes.count, 0)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
  }

  @discardableResult
  package func end() -> (status: Int32, hasExited: Bool) {
    if let ended { return ended }
    let status = Spawn.end(id) ?? -1
    let found = status < 0 ? (-status, false) : (status, true)
    ended = found
    return found
  }
}
