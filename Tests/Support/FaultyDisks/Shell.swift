import ChildProcesses
import Glibc

/// Runs shell commands with root's search path.
package enum Shell {
  static func words(_ command: String, in namespace: pid_t? = nil) -> [String] {
    let shell = ["/bin/sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; \(command)"]
    return namespace.map { entering($0) + shell } ?? shell
  }

  /// A command prefix that runs a program in the mount namespace of the process `namespace`, without an extra process.
  static func entering(_ namespace: pid_t) -> [String] {
    ["/usr/bin/nsenter", "--mount=/proc/\(namespace)/ns/mnt", "--"]
  }

  @discardableResult
  package static func run(_ command: String, in namespace: pid_t? = nil) throws(SpawnError) -> String {
    let words = words(command + " 2>&1", in: namespace)
    let process = try ServiceProcess(words[0], words)
    let text = process.rest()
    let status = process.end()
    guard status == 0 else { throw SpawnError("\(command): status \(status): \(text)") }
    return text
  }

  /// Starts `command` in a new process group and mount namespace, and waits for its first line of output. Returns its
  /// process id and the writing end of its standard input.
  static func start(_ command: String) throws(SpawnError) -> (process: pid_t, input: Int32) {
    let (input, output) = (try Spawn.pipe(), try Spawn.pipe())
    let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
    defer { for descriptor in [input.reading, output.reading, nowhere] { close(descriptor) } }
    // A private namespace, because a process that unshares this process's namespace would keep the mount alive.
    let words = ["/usr/bin/unshare", "--mount", "--propagation=private"] + words(command)
    // Standard error goes to /dev/null: a reader of this process's stderr would otherwise wait for the guard, too.
    let process: pid_t
    do {
      defer { close(output.writing) }
      process = try Spawn.process(
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
      throw SpawnError("unshare --mount: status \(Spawn.end(process) ?? -1)")
    }
    return (process, input.writing)
  }
}
