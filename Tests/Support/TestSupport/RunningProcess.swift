import ChildProcesses
import Foundation

/// A program that has been started, what it gets to read, and what it says.
package final class RunningProcess {
  package let id: pid_t
  private var input: Int32
  private let output: Int32
  /// What it wrote to its standard error goes into a file, so that neither stream waits for the other to be read.
  private let errorFile: Int32
  private var ended: (status: Int32, hasExited: Bool)?

  /// Starts the program at `path`.
  ///
  /// - Parameters:
  ///   - path: The program's file.
  ///   - arguments: What is passed to it.
  ///   - environment: What is added to its environment.
  ///   - directory: Where it starts; where this process is when there is none.
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
    // Programs print in UTF-8, whatever the locale of the tests is.
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

  /// Gives it `data` to read. Returns whether it was there to read all of it.
  @discardableResult
  package func write(_ data: Data) -> Bool { Spawn.write(data, to: input) }

  /// Lets it come to the end of what there is to read.
  package func closeInput() {
    guard input >= 0 else { return }
    close(input)
    input = -1
  }

  /// What it says next; empty when it says nothing more.
  package func next() -> String {
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = read(output, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      return String(decoding: chunk.prefix(max(0, count)), as: UTF8.self)
    }
  }

  /// Everything that it says until its end.
  package func rest() -> String { String(decoding: Spawn.readAll(output), as: UTF8.self) }

  /// Everything that it wrote to its standard error so far.
  package var errors: String {
    guard errorFile >= 0 else { return "" }
    // The place where the program goes on writing is its own and this process's.
    var bytes = [UInt8](repeating: 0, count: Int(max(0, lseek(errorFile, 0, SEEK_END))))
    let count = pread(errorFile, &bytes, bytes.count, 0)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
  }

  /// Waits until it has ended. Returns its exit status, or the number of the signal that ended it.
  @discardableResult
  package func end() -> (status: Int32, hasExited: Bool) {
    if let ended { return ended }
    let status = Spawn.end(id) ?? -1
    let found = status < 0 ? (-status, false) : (status, true)
    ended = found
    return found
  }
}
