import CulpritStallRecord
import Glibc

/// A command's standard output and standard error, past the C library's buffers: what is printed is out.
package struct CommandOutput: Sendable {
  /// The command's name, before each message.
  package var command: String

  private let around: @Sendable (_ descriptor: Int32, _ write: () -> Void) -> Void

  /// The output of `command`.
  ///
  /// - Parameters:
  ///   - command: Its name.
  ///   - around: Called with the descriptor that is written to and what does it; for what else is on the screen.
  package init(
    command: String,
    around: @escaping @Sendable (_ descriptor: Int32, _ write: () -> Void) -> Void = { _, write in write() }
  ) {
    self.command = command
    self.around = around
  }

  /// Writes `text` to standard output. Ends the program when it cannot be written: with status 0 when the reader has had
  /// enough (a closed pipe), otherwise with a sentence and status 1.
  package func print(_ text: String) { print(bytes: Array(text.utf8)) }

  /// Writes `bytes` to standard output, like ``print(_:)``.
  package func print(bytes: [UInt8]) {
    if let error = writeAll(bytes, to: STDOUT_FILENO) {
      if error == EPIPE { exit(0) }
      self.error("cannot write to standard output: \(String(cString: strerror(error)))")
      exit(1)
    }
  }

  /// Writes `message`, a line, after the command's name to standard error. What it has of files and arguments does nothing to the
  /// terminal.
  package func error(_ message: String) {
    _ = writeAll(Array("\(command): \(printable(message))\n".utf8), to: STDERR_FILENO)
  }

  /// Writes `error` as a usage error and ends the program with status 2.
  ///
  /// - Parameters:
  ///   - error: What is wrong.
  ///   - part: The command of the command that was called, whose help tells more.
  package func usage(_ error: UsageError, of part: String? = nil) -> Never {
    self.error("\(error)")
    let words = [command, part, "--help"].compactMap { $0 }.joined(separator: " ")
    _ = writeAll(Array("Try \"\(words)\".\n".utf8), to: STDERR_FILENO)
    exit(2)
  }

  private func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Int32? {
    var error: Int32?
    around(descriptor) { error = Self.writeAll(bytes, to: descriptor) }
    return error
  }

  private static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Int32? {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return errno }
      rest = rest.dropFirst(count)
    }
    return nil
  }
}
