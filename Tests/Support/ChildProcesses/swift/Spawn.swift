import CSpawning
import Glibc

/// Starts programs and waits for them.
///
/// Children start with no signal blocked or ignored, even from threads of Dispatch, which block most signals. They
/// inherit only the descriptors that are passed to them.
package enum Spawn {
  /// Creates a pipe that no child inherits.
  ///
  /// - Throws: ``SpawnError``.
  package static func pipe() throws(SpawnError) -> (reading: Int32, writing: Int32) {
    var ends: [Int32] = [0, 0]
    let error = spawning_pipe(&ends)
    guard error == 0 else { throw SpawnError("pipe", error) }
    return (ends[0], ends[1])
  }

  /// Starts `program`.
  ///
  /// - Parameters:
  ///   - program: The path of the executable.
  ///   - words: The arguments, beginning with the program's name.
  ///   - environment: The environment as `NAME=value` strings; `nil` inherits this process's.
  ///   - directory: The working directory; `nil` inherits this process's.
  ///   - input: Standard input; `nil` for /dev/null.
  ///   - output: Standard output; `nil` inherits this process's.
  ///   - errors: Standard error; `nil` inherits this process's.
  ///   - isAlone: Whether the program gets a separate process group, which signals to this process's group do not reach.
  /// - Returns: The process id.
  /// - Throws: ``SpawnError``.
  package static func process(
    _ program: String,
    _ words: [String],
    environment: [String]? = nil,
    directory: String? = nil,
    input: Int32? = nil,
    output: Int32? = nil,
    errors: Int32? = nil,
    isAlone: Bool = false
  ) throws(SpawnError) -> pid_t {
    let strings = (words + (environment ?? []) + [program, directory ?? ""]).map { strdup($0) }
    defer { for string in strings { free(string) } }
    let (file, place) = (strings[strings.count - 2], strings[strings.count - 1])
    var arguments = strings[..<words.count] + [nil]
    var variables = strings[words.count..<strings.count - 2] + [nil]
    var process: pid_t = 0
    // SAFETY: the strings and both lists end with a null, and outlive the call.
    let error = arguments.withUnsafeMutableBufferPointer { arguments in
      variables.withUnsafeMutableBufferPointer { variables in
        var how = spawning(
          program: file,
          words: arguments.baseAddress,
          environment: environment == nil ? nil : variables.baseAddress,
          directory: directory == nil ? nil : place,
          input: input ?? -1,
          output: output ?? -1,
          errors: errors ?? -1,
          is_alone: isAlone
        )
        return spawning_start(&how, &process)
      }
    }
    guard error == 0 else { throw SpawnError(program, error) }
    return process
  }

  /// Runs `program` to its end. Returns its standard output, and the status from ``end(_:)``.
  ///
  /// - Throws: ``SpawnError``.
  package static func output(
    of program: String,
    _ arguments: [String],
    environment: [String]? = nil
  ) throws(SpawnError) -> (text: String, status: Int32) {
    let pipe = try pipe()
    defer { close(pipe.reading) }
    let id: pid_t
    do {
      defer { close(pipe.writing) }
      id = try process(program, [program] + arguments, environment: environment, output: pipe.writing)
    }
    let text = String(decoding: readAll(pipe.reading), as: UTF8.self)
    return (text, end(id) ?? -1)
  }

  /// Creates a file without a name that no child inherits.
  ///
  /// - Throws: ``SpawnError``.
  package static func file() throws(SpawnError) -> Int32 {
    let file = spawning_file()
    guard file >= 0 else { throw SpawnError("memfd_create", errno) }
    return file
  }

  /// Waits for the end of `process`. Returns its exit status, or the negative number of the signal that ended it; `nil`
  /// if the process was already reaped.
  package static func end(_ process: pid_t) -> Int32? {
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 { guard errno == EINTR else { return nil } }
    return status & 0x7f == 0 ? status >> 8 & 0xff : -(status & 0x7f)
  }

  /// Writes `bytes` to a pipe. Returns whether all were written.
  ///
  /// A closed reader raises no SIGPIPE: the calling thread blocks the signal while it writes, then discards it.
  /// Ignoring SIGPIPE would affect the whole process and the programs that it starts.
  @discardableResult
  package static func write(_ bytes: some Collection<UInt8>, to descriptor: Int32) -> Bool {
    var broken = sigset_t()
    sigemptyset(&broken)
    sigaddset(&broken, SIGPIPE)
    var before = sigset_t()
    pthread_sigmask(SIG_BLOCK, &broken, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    var rest = Array(bytes)[...]
    while !rest.isEmpty {
      // SAFETY: the kernel reads at most `count` bytes, all in the buffer.
      let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        var none = timespec()
        if sigismember(&before, SIGPIPE) == 0 { while sigtimedwait(&broken, nil, &none) > 0 {} }
        return false
      }
      rest = rest.dropFirst(count)
    }
    return true
  }

  /// Reads from `descriptor` until end of file.
  package static func readAll(_ descriptor: Int32) -> [UInt8] {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while true {
      let count = read(descriptor, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return bytes }
      bytes += chunk[..<count]
    }
  }
}

/// A failed operation on a program or a disk.
package struct SpawnError: Error, CustomStringConvertible {
  /// The reason.
  package let description: String

  /// Creates an error with a reason.
  package init(_ description: String) { self.description = description }

  /// Creates an error for the call `what`, which failed with the errno value `error`.
  package init(_ what: String, _ error: Int32) { self.init("\(what): \(String(cString: strerror(error)))") }
}
