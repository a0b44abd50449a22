import ChildProcesses
import Glibc

/// Commands of a shell, as root has them on its path.
package enum Shell {
  static func words(_ command: String, in namespace: pid_t? = nil) -> [String] {
    let shell = ["/bin/sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; \(command)"]
    return namespace.map { entering($0) + shell } ?? shell
  }

  /// The words in front of a program that is to run in the mount namespace of the process `namespace`, as the process that
  /// is started.
  static func entering(_ namespace: pid_t) -> [String] {
    ["/usr/bin/nsenter", "--mount=/proc/\(namespace)/ns/mnt", "--"]
  }

  @discardableResult
  package static func run(_ command: String, in namespace: pid_t? = nil) throws(FaultyDiskError) -> String {
    let words = words(command + " 2>&1", in: namespace)
    let process = try ServiceProcess(words[0], words)
    let said = process.rest()
    let status = process.end()
    guard status == 0 else { throw FaultyDiskError("\(command): status \(status): \(said)") }
    return said
  }

  /// Starts `command` in a process group and a mount namespace of its own, and waits until it has written a line. Returns its
  /// process and the other end of its standard input.
  static func start(_ command: String) throws(FaultyDiskError) -> (process: pid_t, input: Int32) {
    let (input, output) = (try spawning(Spawn.pipe), try spawning(Spawn.pipe))
    let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
    defer { for descriptor in [input.reading, output.reading, nowhere] { close(descriptor) } }
    // Whoever unshares this process's namespace meanwhile gets no copy of what is mounted there, which would keep it alive.
    let words = ["/usr/bin/unshare", "--mount", "--propagation=private"] + words(command)
    // Whoever reads what this process says would wait for the end of this one, too.
    let process = try spawning { () throws(SpawnError) in
      defer { close(output.writing) }
      return try Spawn.process(
        words[0],
        words,
        input: input.reading,
        output: output.writing,
        errors: nowhere,
        isAlone: true
      )
    }
    var byte: UInt8 = 0
    guard read(output.reading, &byte, 1) == 1 else {
      close(input.writing)
      throw FaultyDiskError("unshare --mount: status \(Spawn.end(process) ?? -1)")
    }
    return (process, input.writing)
  }
}

/// What `body` returns; that it could not be started is said of the disk or the service.
func spawning<Result>(_ body: () throws(SpawnError) -> Result) throws(FaultyDiskError) -> Result {
  do { return try body() } catch { throw FaultyDiskError(error.description) }
}
