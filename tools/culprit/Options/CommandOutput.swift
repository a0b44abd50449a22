import CulpritStallRecord
import Glibc

/// Unbuffered standard output and standard error.
package struct CommandOutput: Sendable {
  package var command: String

  private let around: @Sendable (_ descriptor: Int32, _ write: () -> Void) -> Void

  /// Creates the output of `command`. `around` gets a descriptor and a closure that writes to the descriptor. `around`
  /// can hide other terminal output during the call of the closure.
  package init(
    command: String,
    around: @escaping @Sendable (_ descriptor: Int32, _ write: () -> Void) -> Void = { _, write in write() }
  ) {
    self.command = command
    self.around = around
  }

  /// Writes to standard output. Ends the program if this fails: with status 0 for a pipe without reader, otherwise with
  /// a message and status 1.
  package func print(_ text: String) { print(bytes: Array(text.utf8)) }

  package func print(bytes: [UInt8]) {
    let error = send(bytes, to: STDOUT_FILENO)
    guard error != 0 else { return }
    if error == EPIPE { exit(0) }
    self.error("cannot write to standard output: \(String(cString: strerror(error)))")
    exit(1)
  }

  /// Writes the command's name and `message` to standard error. Escapes control characters.
  package func error(_ message: String) {
    _ = send(Array("\(command): \(printable(message))\n".utf8), to: STDERR_FILENO)
  }

  /// Writes a usage error and a reference to the help of the subcommand `part`. Ends the program with status 2.
  package func usage(_ error: UsageError, of part: String? = nil) -> Never {
    self.error("\(error)")
    let words = [command, part, "--help"].compactMap { $0 }.joined(separator: " ")
    _ = send(Array("Try \"\(words)\".\n".utf8), to: STDERR_FILENO)
    exit(2)
  }

  private func send(_ bytes: [UInt8], to descriptor: Int32) -> Int32 {
    var error: Int32 = 0
    around(descriptor) { error = writeAll(bytes, to: descriptor) }
    return error
  }
}

/// Writes all bytes. Returns 0 or an error number.
package func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Int32 {
  var rest = bytes[...]
  while !rest.isEmpty {
    let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { return errno }
  }
  return 0
}
