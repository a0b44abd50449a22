import CulpritStallRecord

/// The content of a `.run` file, which a service run writes about itself.
///
/// Each line consists of a word, a value and a checksum, so the complete lines of a truncated or damaged file remain
/// valid. The checksum, " #" and eight hexadecimal digits, is the CRC-32 of the file's number, also as eight digits, and
/// the preceding part of the line. The first line contains the number; its own checksum uses 0. Unknown words are
/// ignored.
package struct RunRecord: Hashable, Sendable {
  /// Distinguishes the file's lines from lines of other files.
  package var number = UInt32.random(in: 1 ... .max)
  package var identity: ProcessIdentity
  package var executable: String
  /// The start of the run, also recorded in its `.stall` files.
  package var since: WallTime
  /// The counts at the start of the run, nearest group first.
  package var memoryKills: [MemoryKills]
  package var crash: Crash?
  /// The time at which SIGTERM, without a handler of the service, ended the run.
  package var terminated: WallTime?
  /// The time of an orderly end.
  package var ended: WallTime?
  /// The name of the reported verdict.
  package var told: String?
  package var hangs: [NotedHang] = []
  /// The modules at the start of the run; empty if they were not written.
  package var modules: [Module] = []

  package struct Crash: Hashable, Sendable {
    package var signal: Int32
    /// The sending process; 0 for a fault.
    package var sender: Int32
  }

  package init(identity: ProcessIdentity, executable: String, since: WallTime, memoryKills: [MemoryKills]) {
    self.identity = identity
    self.executable = executable
    self.since = since
    self.memoryKills = memoryKills
  }

  private static let firstLine = "culprit-run 1"

  package var text: String {
    var lines = [
      "process \(identity.process)", "start \(identity.start)", "boot \(identity.boot)",
      "namespace \(identity.namespace)", "since \(since.nanosecondsSince1970)", "executable \(Self.line(executable))",
    ]
    lines += memoryKills.map { "memory \($0.count) \($0.inode) \(Self.line($0.path))" }
    return Self.checked("\(Self.firstLine) \(Self.digits(number))", 0) + lines.map { checked($0) }.joined()
  }

  package func end(at time: WallTime) -> String { checked("ended \(time.nanosecondsSince1970)") }

  package func told(_ verdict: RunVerdict) -> String { checked("told \(verdict.name)") }

  func checked(_ line: String) -> String { Self.checked(line, number) }

  private static func checked(_ line: String, _ number: UInt32) -> String {
    "\(line) #\(digits(CRC32.checksum(Array((digits(number) + line).utf8)[...])))\n"
  }

  private static func digits(_ number: UInt32) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }

  /// Returns `nil` for a wrong checksum in the file `number`.
  private static func content(_ line: Substring, _ number: UInt32) -> Substring? {
    guard let mark = line.lastIndex(of: "#"), mark > line.startIndex else { return nil }
    let content = line[..<line.index(before: mark)]
    return checked(String(content), number).dropLast() == line ? content : nil
  }

  /// Returns `nil` if the content does not identify a run.
  package init?(text: String) {
    guard let end = text.lastIndex(of: "\n") else { return nil }
    let lines = text[..<end].split(separator: "\n")
    guard let first = lines.first.flatMap({ Self.content($0, 0) }), first.hasPrefix(Self.firstLine + " "),
      let number = UInt32(first.dropFirst(Self.firstLine.count + 1), radix: 16)
    else { return nil }
    self.init(
      identity: ProcessIdentity(process: 0, start: 0, boot: "", namespace: 0),
      executable: "",
      since: WallTime(nanosecondsSince1970: 0),
      memoryKills: []
    )
    self.number = number
    var words: Set<Substring> = []
    for line in lines.dropFirst().compactMap({ Self.content($0, number) }) {
      let word = line.prefix { $0 != " " }
      read(word, line.dropFirst(word.count + 1))
      words.insert(word)
    }
    // These fields together identify a run.
    guard words.isSuperset(of: ["process", "start", "boot", "namespace", "since"]), identity.process > 0 else {
      return nil
    }
  }

  private mutating func read(_ word: Substring, _ value: Substring) {
    switch word {
    case "process": identity.process = Int32(value) ?? 0
    case "start": identity.start = UInt64(value) ?? 0
    case "boot": identity.boot = String(value)
    case "namespace": identity.namespace = UInt64(value) ?? 0
    case "since": since = WallTime(nanosecondsSince1970: UInt64(value) ?? 0)
    case "executable": executable = String(value)
    case "memory":
      let parts = value.split(separator: " ", maxSplits: 2)
      guard parts.count == 3, let count = UInt64(parts[0]), let inode = UInt64(parts[1]) else { return }
      memoryKills.append(MemoryKills(path: String(parts[2]), inode: inode, count: count))
    case "signal":
      let parts = value.split(separator: " ").compactMap { Int32($0) }
      guard parts.count == 2, crash == nil else { return }
      crash = Crash(signal: parts[0], sender: parts[1])
    case "survived": if Int32(value) == crash?.signal { crash = nil }
    case "terminated": terminated = UInt64(value).map { WallTime(nanosecondsSince1970: $0) }
    case "ended": ended = UInt64(value).map { WallTime(nanosecondsSince1970: $0) }
    case "told": told = String(value)
    case "module": Self.module(value).map { modules.append($0) }
    case "hang":
      guard let hang = NotedHang(value) else { return }
      hangs.removeAll { $0.slot == hang.slot && $0.item == hang.item }
      if hangs.count < Self.hangsMax { hangs.append(hang) }
    case "stack":
      let parts = value.split(separator: " ")[...]
      if let index = hangs.firstIndex(where: { $0.isMeant(by: parts) }) { hangs[index].add(stack: parts.dropFirst(2)) }
    case "over": hangs.removeAll { $0.isMeant(by: value.split(separator: " ")) }
    default: break
    }
  }

  /// `NOTED_MAX` of hang_notes.c.
  private static let hangsMax = 32

  /// Replaces control characters, including line feeds.
  static func line(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 32 ? "?" : $0 }))
  }
}

extension WallTime {
  /// The time in file names. The names sort by time.
  package var fileNamePart: String { description.filter { $0 != "-" && $0 != ":" } }
}
