import CCulpritLinux
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import Glibc

let dumpTable = OptionTable(
  usage: ["culprit dump [OPTION]... PID"],
  summary:
    "Prints every thread of the process PID and the work that its watchdog observes: sections, jobs and activities, on their threads or grouped by the functions in which their tasks wait.",
  options: [
    CommandOption(
      "format",
      argument: "FORMAT",
      values: .words(["text", "json"]),
      help: "output format: text, or json on one line"
    )
  ] + TextOutput.options,
  operands: .anything,
  epilogue: """
    The process must have been started with CULPRIT_CONTROL=yes by the same user; root can ask every process. In a
    container, PID is the number that the command sees. The process itself finds the names, so that its allocator must
    not be locked.
    """,
  examples: """
    $ culprit dump 4242
    $ culprit dump --format=json $(pidof shop) | jq '.work[] | select(.activity.kind == "suspended")'
    """,
  exitStatus: "0 success; 1 the process did not answer; 2 wrong usage"
)

func runDump(_ parsed: OptionTable.Arguments) throws -> Bool {
  let isJSON = parsed.value("format") == "json"
  if isJSON { try parsed.refuse(TextOutput.styles, TextOutput.isNoJSON) }
  guard parsed.operands.count == 1, let id = Int32(parsed.operands[0]), id > 0 else {
    throw UsageError("dump takes one PID")
  }
  let text = try TextOutput(parsed, width: 100)
  let answer = try ask(id, isJSON ? "dump json" : "dump text \(text.style.width)")
  if isJSON { output.print(bytes: answer) } else { text.print(String(decoding: answer, as: UTF8.self)) }
  return true
}

/// Returns the process if the operand is a number and not a file.
func process(namedBy operands: [String]) -> Int32? {
  guard operands.count == 1, let id = Int32(operands[0]), id > 0, access(operands[0], F_OK) != 0 else { return nil }
  return id
}

/// Returns paths of unnamed files with the process's stalls under way.
func stallsUnderWay(in id: Int32) throws(InputError) -> [String] {
  var paths: [String] = []
  var rest = try ask(id, "stalls")[...]
  while !rest.isEmpty {
    let digits = rest.prefix { $0 != UInt8(ascii: "\n") }
    rest = rest.dropFirst(digits.count + 1)
    guard let count = Int(String(decoding: digits, as: UTF8.self)), count > 0, count <= rest.count else {
      throw InputError("process \(id)", "the answer is incomplete")
    }
    let descriptor = OverflowFile.open()
    guard descriptor >= 0 else { throw InputError("a temporary file", errno) }
    let bytes = Array(rest.prefix(count))
    // A short write to a regular file means a full disk.
    guard pwrite(descriptor, bytes, bytes.count, 0) == bytes.count else { throw InputError("a temporary file", errno) }
    paths.append("/proc/self/fd/\(descriptor)")
    rest = rest.dropFirst(count)
  }
  return paths
}

/// Longest time for an answer: captures take at most 10 s.
private let patience: UInt64 = 20_000_000_000
private let answerBytesMax = 256 << 20

/// Returns the answer of the process's watchdog.
///
/// - Throws: ``InputError`` with the reason if there is no answer.
private func ask(_ id: Int32, _ request: String) throws(InputError) -> [UInt8] {
  let socket = try connect(to: id)
  defer { close(socket) }
  let deadline = clinux_clock_ns() &+ patience
  let line = Array("\(request)\n".utf8)
  var error = Int64(clinux_socket_send(socket, line, line.count, deadline))
  var answer: [UInt8] = []
  var piece = [UInt8](repeating: 0, count: 256 << 10)
  while error == 0 {
    let count = clinux_socket_receive(socket, &piece, piece.count, deadline)
    if count <= 0 {
      error = count
      break
    }
    answer += piece[..<Int(count)]
    if answer.count > answerBytesMax { throw InputError("process \(id)", "the answer is too long") }
  }
  if error == -Int64(ETIMEDOUT) {
    throw InputError(
      "process \(id)",
      "no answer within \(patience / 1_000_000_000) s; a thread might hold the lock of its allocator"
    )
  }
  guard error == 0 else { throw InputError("process \(id)", Int32(truncatingIfNeeded: -error)) }
  guard let status = answer.first else {
    throw InputError("process \(id)", "the connection ended without an answer")
  }
  guard status == UInt8(ascii: "+") else {
    throw InputError("process \(id)", printable(String(decoding: answer.dropFirst(), as: UTF8.self)))
  }
  return Array(answer.dropFirst())
}

/// Connects to the control socket on which the process listens, among those in its network namespace.
private func connect(to id: Int32) throws(InputError) -> Int32 {
  let name = "process \(id)"
  guard let status = content("/proc/\(id)/status") else { throw InputError(name, "it does not exist") }
  // The effective user is the second number.
  let users = status.split(separator: "\n").first { $0.hasPrefix("Uid:") }?.split(whereSeparator: \.isWhitespace)
  let user = users.flatMap { $0.count > 2 ? UInt32($0[2]) : nil }
  guard geteuid() == 0 || user == geteuid() else {
    throw InputError(name, "it belongs to another user\(user.map { " (\($0))" } ?? "")")
  }
  var refusal: Int32?
  for line in (content("/proc/\(id)/net/unix") ?? "").split(separator: "\n") {
    guard let start = line.firstIndex(of: "/"), line.hasSuffix(".control") else { continue }
    let path = line[start...]
    guard path.split(separator: "/").last?.hasPrefix("culprit-") ?? false else { continue }
    // The process might be in another mount namespace.
    var socket = clinux_socket_connect("/proc/\(id)/root\(path)")
    if socket < 0 { socket = clinux_socket_connect(String(path)) }
    var (peer, peersUser): (Int32, UInt32) = (0, 0)
    if socket >= 0, clinux_socket_peer(socket, &peer, &peersUser), peer == id { return socket }
    if socket >= 0 { close(socket) } else { refusal = -socket }
  }
  guard hasWatchdog(id) else { throw InputError(name, "it does not use Culprit") }
  let reason = refusal.map { "; \(String(cString: strerror($0)))" } ?? ""
  throw InputError(name, "its control socket is off, or was not found: start it with CULPRIT_CONTROL=yes\(reason)")
}

private func hasWatchdog(_ id: Int32) -> Bool {
  guard let directory = opendir("/proc/\(id)/task") else { return false }
  defer { closedir(directory) }
  while let entry = readdir(directory) {
    // SAFETY: readdir returns a NUL-terminated name, which is copied immediately.
    let thread = withUnsafeBytes(of: &entry.pointee.d_name) {
      String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
    }
    if content("/proc/\(id)/task/\(thread)/comm") == "culprit-monitor\n" { return true }
  }
  return false
}

private func content(_ path: String) -> String? {
  let descriptor = open(path, O_RDONLY | O_CLOEXEC)
  guard descriptor >= 0 else { return nil }
  defer { close(descriptor) }
  var bytes: [UInt8] = []
  var piece = [UInt8](repeating: 0, count: 64 << 10)
  while true {
    let count = read(descriptor, &piece, piece.count)
    if count < 0, errno == EINTR { continue }
    guard count > 0 else { return count == 0 ? String(decoding: bytes, as: UTF8.self) : nil }
    bytes += piece[..<count]
  }
}
