import CCulpritLinux
import CulpritBlackBox
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
    The process must have been started with CULPRIT_CONTROL=yes by the same user; root can query every process.
    For a process in a container, PID is its process ID in the PID namespace of the command. The process symbolizes its
    stacks itself. If it is too busy for that, or its allocator is locked, culprit report PID prints the stalls that the
    watchdog recorded in the stall directory.
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
  let socket = try ControlSocket(of: id)
  // A dump takes at most ten seconds.
  let patience: UInt64 = 20
  guard let answer = try socket.ask(isJSON ? "dump json" : "dump text \(text.style.width)", within: patience) else {
    throw InputError(description: "\(socket.silence(patience)); try: culprit report \(id)")
  }
  if isJSON { output.print(bytes: answer) } else { text.print(String(decoding: answer, as: UTF8.self)) }
  return true
}

/// Returns the process if the operand is a number without a file of this name.
func process(namedBy operands: [String]) -> Int32? {
  guard operands.count == 1, let id = Int32(operands[0]), id > 0, access(operands[0], F_OK) != 0 else { return nil }
  return id
}

/// Returns paths of unnamed files with the stalls under way in process `id`. If the process does not answer, returns
/// the stalls without an end that its watchdog recorded in the stall directory.
func stallsUnderWay(in id: Int32) throws(InputError) -> [String] {
  let socket = try ControlSocket(of: id)
  let patience: UInt64 = 10
  var (paths, stalls): ([String], [[UInt8]]) = ([], [])
  if var rest = try socket.ask("stalls", within: patience)?[...] {
    while !rest.isEmpty {
      let digits = rest.prefix { $0 != UInt8(ascii: "\n") }
      rest = rest.dropFirst(digits.count + 1)
      guard let count = Int(String(decoding: digits, as: UTF8.self)), count > 0, count <= rest.count else {
        throw InputError(socket.name, "the answer is incomplete")
      }
      stalls.append(Array(rest.prefix(count)))
      rest = rest.dropFirst(count)
    }
  } else {
    (paths, stalls) = socket.recordedStalls
    if paths.isEmpty, stalls.isEmpty { throw InputError(description: socket.silence(patience)) }
    output.error("\(socket.silence(patience)); its watchdog recorded:")
  }
  for bytes in stalls {
    let descriptor = OverflowFile.open()
    guard descriptor >= 0 else { throw InputError("a temporary file", errno) }
    // A short write to a regular file means that the disk is full.
    guard pwrite(descriptor, bytes, bytes.count, 0) == bytes.count else { throw InputError("a temporary file", errno) }
    paths.append("/proc/self/fd/\(descriptor)")
  }
  return paths
}

private struct ControlSocket: ~Copyable {
  /// The process's name in messages.
  let name: String
  private let descriptor: Int32
  private let path: String

  private static let answerBytesMax = 256 << 20

  deinit { close(descriptor) }

  /// The message about a missing answer.
  func silence(_ seconds: UInt64) -> String {
    "\(name): no answer within \(seconds) s; it is stopped or busy, or a thread holds the lock of its allocator"
  }

  /// Sends `request`. Returns the answer, or `nil` if none arrives within `seconds`.
  ///
  /// - Throws: ``InputError`` with the reason if the process refuses the request or ends.
  func ask(_ request: String, within seconds: UInt64) throws(InputError) -> [UInt8]? {
    let deadline = clinux_clock_ns() &+ seconds &* 1_000_000_000
    let line = Array("\(request)\n".utf8)
    var error = Int64(clinux_socket_send(descriptor, line, line.count, deadline))
    var answer: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 256 << 10)
    while error == 0 {
      let count = clinux_socket_receive(descriptor, &piece, piece.count, deadline)
      if count <= 0 {
        error = count
        break
      }
      answer += piece[..<Int(count)]
      if answer.count > Self.answerBytesMax { throw InputError(name, "the answer is too long") }
    }
    if error == -Int64(ETIMEDOUT) { return nil }
    guard error == 0 else { throw InputError(name, Int32(truncatingIfNeeded: -error)) }
    guard let status = answer.first else { throw InputError(name, "the connection ended without an answer") }
    guard status == UInt8(ascii: "+") else {
      throw InputError(name, printable(String(decoding: answer.dropFirst(), as: UTF8.self)))
    }
    return Array(answer.dropFirst())
  }

  /// The paths of the files of stalls without an end, and contents of files for stalls that the watchdog only noted,
  /// because the recorder could not record them.
  var recordedStalls: (paths: [String], noted: [[UInt8]]) {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    // The process ID in the process's own PID namespace.
    guard let own = parts.last?.split(separator: "-").dropFirst().first else { return ([], []) }
    let box = BlackBoxDirectory(path: parts.dropLast().joined(separator: "/"))
    let records = ((try? box.names(["-\(own).run"])) ?? [])
      .compactMap { name -> RunRecord? in
        guard let file = box.open(name, O_RDONLY) else { return nil }
        defer { close(file) }
        return box.recordAndState(file).flatMap { $0.isRunning ? $0.record : nil }
      }
    var (paths, noted): ([String], [[UInt8]]) = ([], [])
    for record in records {
      let open = box.stalls(of: record).saved.filter(\.isOpen).map(\.name)
      let stalls = open.compactMap { box.stall($0) }.flatMap(\.recording.stalls)
      paths += open.map { "\(box.path)/\($0)" }
      for (hang, file) in zip(record.hangs, record.filesOfNotedHangs) where !stalls.contains(where: hang.isNote(of:)) {
        noted.append(file.bytes)
      }
    }
    return (paths, noted)
  }

  /// Connects to the socket of process `id`, found in its network namespace.
  init(of id: Int32) throws(InputError) {
    name = "process \(id)"
    guard let status = content("/proc/\(id)/status") else { throw InputError(name, "it does not exist") }
    // The effective user is the second number.
    let users = status.split(separator: "\n").first { $0.hasPrefix("Uid:") }?.split(whereSeparator: \.isWhitespace)
    let user = users.flatMap { $0.count > 2 ? UInt32($0[2]) : nil }
    guard geteuid() == 0 || user == geteuid() else {
      throw InputError(name, "it belongs to another user\(user.map { " (\($0))" } ?? "")")
    }
    // The last number is the process ID in the process's own PID namespace. Sockets of other processes are skipped: a
    // connection would occupy a slot in the queue of a stuck process.
    let numbers = status.split(separator: "\n").first { $0.hasPrefix("NSpid:") }?.split(whereSeparator: \.isWhitespace)
    let prefix = "culprit-\(numbers?.last.map(String.init) ?? "\(id)")-"
    var refusal: Int32?
    for line in (content("/proc/\(id)/net/unix") ?? "").split(separator: "\n") {
      guard let start = line.firstIndex(of: "/"), line.hasSuffix(".control") else { continue }
      let listed = String(line[start...])
      guard listed.split(separator: "/").last?.hasPrefix(prefix) ?? false else { continue }
      // The process can be in another mount namespace.
      for path in ["/proc/\(id)/root\(listed)", listed] {
        let socket = clinux_socket_connect(path)
        var (peer, peersUser): (Int32, UInt32) = (0, 0)
        if socket >= 0, clinux_socket_peer(socket, &peer, &peersUser), peer == id {
          (descriptor, self.path) = (socket, path)
          return
        }
        if socket >= 0 { close(socket) } else { refusal = -socket }
      }
    }
    guard hasWatchdog(id) else { throw InputError(name, "it does not use Culprit") }
    let reason = refusal.map { "; \(String(cString: strerror($0)))" } ?? ""
    throw InputError(name, "its control socket is off, or was not found: start it with CULPRIT_CONTROL=yes\(reason)")
  }
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
