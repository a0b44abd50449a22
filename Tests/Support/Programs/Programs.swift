import Dispatch
import Glibc

/// Prints a line at once.
package func say(_ text: String) {
  let bytes = Array((text + "\n").utf8)
  _ = write(STDOUT_FILENO, bytes, bytes.count)
}

/// Unblocks all signals: a Dispatch thread that starts this process blocks most. SIGALRM ends a hanging process, with a
/// limit that allows for a busy machine.
package func beginProgram() {
  var none = sigset_t()
  sigemptyset(&none)
  pthread_sigmask(SIG_SETMASK, &none, nil)
  alarm(100)
}

/// Starts a thread that runs `body`.
@discardableResult
package func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t {
  final class Box {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  var thread = pthread_t()
  let error = pthread_create(
    &thread,
    nil,
    { box in
      // SAFETY: retained below, consumed exactly once.
      if let box { Unmanaged<Box>.fromOpaque(box).takeRetainedValue().body() }
      return nil
    },
    Unmanaged.passRetained(Box(body)).toOpaque()
  )
  precondition(error == 0, "cannot start a thread: error \(error)")
  return thread
}

/// Runs `work` on `queue`. Returns when `work` has begun.
package func occupy(_ queue: DispatchQueue, _ work: @escaping @Sendable () -> Void) {
  let hasBegun = DispatchSemaphore(value: 0)
  queue.async {
    hasBegun.signal()
    work()
  }
  hasBegun.wait()
}

/// The names in `directory`, without "." and "..".
package func entries(of directory: String) -> [String] {
  guard let listing = opendir(directory) else { return [] }
  defer { closedir(listing) }
  var names: [String] = []
  while let entry = readdir(listing) {
    let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    if name != ".", name != ".." { names.append(name) }
  }
  return names
}

/// The content of a file; empty if it cannot be read.
package func readBytes(_ path: String) -> [UInt8] {
  let descriptor = open(path, O_RDONLY | O_CLOEXEC)
  guard descriptor >= 0 else { return [] }
  defer { close(descriptor) }
  var bytes: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 64 << 10)
  while true {
    let count = read(descriptor, &chunk, chunk.count)
    guard count > 0 else { return bytes }
    bytes += chunk[..<count]
  }
}

/// The text of a file; empty if it cannot be read.
package func readFile(_ path: String) -> String { String(decoding: readBytes(path), as: UTF8.self) }

/// The target of a symbolic link; empty if it cannot be read.
package func linkTarget(of path: String) -> String {
  var target = [CChar](repeating: 0, count: 4096)
  let length = readlink(path, &target, target.count)
  return String(decoding: target.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// The directory of this program.
package let programDirectory = String(
  linkTarget(of: "/proc/self/exe").reversed().drop { $0 != "/" }.dropFirst().reversed()
)

/// Creates a directory in /tmp with a name that begins with `prefix`. Returns its path.
package func temporaryDirectory(_ prefix: String) -> String {
  var template = Array("/tmp/\(prefix)-XXXXXX".utf8CString)
  guard mkdtemp(&template) != nil else { preconditionFailure("no directory can be made in /tmp: error \(errno)") }
  return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// The directories in /proc of the threads of `process` whose names begin with `prefix`.
package func threadDirectories(named prefix: String, of process: String = "self") -> [String] {
  entries(of: "/proc/\(process)/task").map { "/proc/\(process)/task/\($0)" }
    .filter { readFile("\($0)/comm").hasPrefix(prefix) }
}

/// The CPU time of the threads `directories` in nanoseconds (proc(5), `schedstat`).
package func cpuTime(of directories: [String]) -> UInt64 {
  directories.reduce(0) { $0 + (readFile("\($1)/schedstat").split(separator: " ").first.flatMap { UInt64($0) } ?? 0) }
}
