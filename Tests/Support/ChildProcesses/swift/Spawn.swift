import CSpawning
import Glibc

/// Starts programs, and waits for them.
///
/// What a child inherits by chance is settled here: no signal is blocked and none is ignored, whatever the thread that starts it
/// blocks (one of Dispatch blocks most) and whatever its process ignores; and it has no descriptors but those it is given.
package enum Spawn {
  /// A pipe that no child inherits.
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
  ///   - program: Its file.
  ///   - words: Its arguments, the first of which is its own name.
  ///   - environment: Its environment, a `NAME=value` each; that of this process when there is none.
  ///   - directory: Where it starts; where this process is when there is none.
  ///   - input: Its standard input; nothing to be read when there is none.
  ///   - output: Its standard output; that of this process when there is none.
  ///   - errors: Its standard error; likewise.
  ///   - isAlone: Whether it is in a process group of its own, and so hears nothing of what ends this process's.
  /// - Returns: Its process id.
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

  /// A file without a name, which no child inherits.
  ///
  /// - Throws: ``SpawnError``.
  package static func file() throws(SpawnError) -> Int32 {
    let file = spawning_file()
    guard file >= 0 else { throw SpawnError("memfd_create", errno) }
    return file
  }

  /// Waits for the end of `process`. Returns its exit status, or the negative number of the signal that ended it; `nil` when
  /// somebody else has waited for it.
  package static func end(_ process: pid_t) -> Int32? {
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 { guard errno == EINTR else { return nil } }
    return status & 0x7f == 0 ? status >> 8 & 0xff : -(status & 0x7f)
  }

  /// Writes `bytes` to a pipe. Returns whether its reader took them all.
  ///
  /// A reader that has gone costs no signal: SIGPIPE is the calling thread's own, which blocks it meanwhile and takes it away.
  /// To ignore it would be for the whole process, and for every program that anybody in it starts.
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
      // SAFETY: the kernel reads no more than there is.
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

  /// Everything that comes from `descriptor` until its end.
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

/// Why a program could not be started.
package struct SpawnError: Error, CustomStringConvertible {
  /// The reason.
  package let description: String

  /// Creates an error with a reason.
  package init(_ description: String) { self.description = description }

  /// Creates an error for the call `what`, which failed with the errno value `error`.
  package init(_ what: String, _ error: Int32) { self.init("\(what): \(String(cString: strerror(error)))") }
}
