import ChildProcesses
import Glibc
import Programs

/// A running service that a test controls by lines on its standard input and output.
package final class ServiceProcess {
  package let process: pid_t
  private let input: Int32
  private let output: Int32
  private var isOver = false
  /// Output that has been read from the pipe but not returned yet.
  private var unread: [UInt8] = []

  /// Starts `program`.
  ///
  /// - Parameters:
  ///   - program: The path of the executable.
  ///   - words: The arguments, beginning with the program's name.
  /// - Throws: ``SpawnError``.
  package init(_ program: String, _ words: [String]) throws(SpawnError) {
    let (toIt, fromIt) = (try Spawn.pipe(), try Spawn.pipe())
    (input, output) = (toIt.writing, fromIt.reading)
    defer { for descriptor in [toIt.reading, fromIt.writing] { close(descriptor) } }
    process = try Spawn.process(program, words, input: toIt.reading, output: fromIt.writing)
  }

  /// Starts `program` from the directory of the running executable.
  ///
  /// - Parameters:
  ///   - program: The name of the executable.
  ///   - arguments: The arguments after the program's name.
  ///   - disk: The file system whose mount namespace the program joins, if any.
  /// - Throws: ``SpawnError``.
  package convenience init(
    besideThis program: String,
    _ arguments: [String],
    on disk: FaultyDisk? = nil
  ) throws(SpawnError) {
    let file = programDirectory + "/" + program
    let words = disk?.inside([file] + arguments) ?? [file] + arguments
    try self.init(words[0], words)
  }

  deinit {
    close(input)
    close(output)
  }

  /// Sends `line` to its standard input, if that is still open.
  package func send(_ line: String) {
    Spawn.write((line + "\n").utf8, to: input)
  }

  /// The next line of output; `nil` at end of file, or after `milliseconds` without output (-1: no limit).
  package func line(within milliseconds: Int32 = -1) -> String? {
    while true {
      if let end = unread.firstIndex(of: 10) {
        defer { unread.removeFirst(end + 1) }
        return String(decoding: unread[..<end], as: UTF8.self)
      }
      guard !isOver, read(within: milliseconds) else { return nil }
    }
  }

  /// The value of the next line `name=value`. Skips other lines before it. `nil` as for ``line(within:)``.
  package func fact(_ name: String, within milliseconds: Int32 = -1) -> String? {
    while let line = line(within: milliseconds) {
      if line.hasPrefix(name + "=") { return String(line.dropFirst(name.count + 1)) }
    }
    return nil
  }

  /// Waits for end of file and returns the remaining output.
  package func rest() -> String {
    while !isOver { _ = read(within: -1) }
    defer { unread = [] }
    return String(decoding: unread, as: UTF8.self)
  }

  private func read(within milliseconds: Int32) -> Bool {
    var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
    let found = poll(&entry, 1, milliseconds)
    if found < 0, errno == EINTR { return true }
    guard found > 0 else { return false }
    var chunk = [UInt8](repeating: 0, count: 4096)
    let count = Glibc.read(output, &chunk, chunk.count)
    guard count > 0 else {
      isOver = true
      return false
    }
    unread += chunk[..<count]
    return true
  }

  /// Waits for the end of the process. Returns the exit status, or the negative number of the signal that ended it.
  @discardableResult
  package func end() -> Int32 { Spawn.end(process) ?? -1 }

  /// I/O of the threads whose names begin with `prefix` but not with `exception` (/proc/PID/task/TID/io): bytes and
  /// calls of write(2) and similar functions, and bytes of dirtied pages, which will reach the disk.
  package func written(
    byThreads prefix: String,
    except exception: String? = nil
  ) -> (bytes: Int, calls: Int, dirtied: Int) {
    let excluded = exception.map { "\($0)*) ;; " } ?? ""
    let text = try? Shell.run(
      "cd /proc/\(process)/task && for task in *; do case $(cat $task/comm) in "
        + "\(excluded)\(prefix)*) cat $task/io;; esac; done"
    )
    func sum(_ name: String) -> Int {
      (text ?? "").split(separator: "\n").filter { $0.hasPrefix(name + ": ") }
        .reduce(0) { $0 + (Int($1.dropFirst(name.count + 2)) ?? 0) }
    }
    return (sum("wchar"), sum("syscw"), sum("write_bytes"))
  }

  /// Whether the main thread has ended. Other threads might still wait in the kernel for a disk, and cannot be killed.
  package var hasLeft: Bool {
    guard let text = try? Shell.run("cat /proc/\(process)/stat") else { return true }
    return text.split(separator: ")").last?.hasPrefix(" Z") ?? true
  }
}
