import CulpritStallRecord

/// What a run of a service wrote about itself: a `.run` file.
///
/// Lines of a word and a value, each with a checksum and a line feed: a file that was cut off or damaged has what its whole lines
/// say. The checksum is " #" and eight hexadecimal digits, the CRC-32 of the file's number (eight digits, too) and what is before it
/// in the line: lines of another file are none of this one. The first line has the number; for its own checksum it is 0. A line with
/// a word that is not known is a newer version's, and left out.
package struct RunRecord: Hashable, Sendable {
  /// Tells the file's lines from those of other files.
  package var number = UInt32.random(in: 1 ... .max)
  /// Who it is.
  package var identity: ProcessIdentity
  /// The path of its executable.
  package var executable: String
  /// When its watchdog was started: what the process records of its `.stall` files say, too.
  package var since: WallTime
  /// How many processes had been killed for want of memory by then, the nearest group first.
  package var memoryKills: [MemoryKills]
  /// The fatal signal that it noted, if it did.
  package var crash: Crash?
  /// When SIGTERM ended it, for which the service had no handler, if it did.
  package var terminated: WallTime?
  /// When it ended in an orderly way, if it did.
  package var ended: WallTime?
  /// What was told of it, once it has been.
  package var told: String?
  /// The stalls without an end that its recorder had not recorded.
  package var hangs: [NotedHang] = []
  /// The modules at its start; empty if they were not written.
  package var modules: [Module] = []

  /// A fatal signal.
  package struct Crash: Hashable, Sendable {
    /// Its number.
    package var signal: Int32
    /// The process that sent it; 0 when it came from a fault.
    package var sender: Int32

    /// The signal `signal`, sent by `sender`.
    package init(signal: Int32, sender: Int32) {
      self.signal = signal
      self.sender = sender
    }
  }

  /// A run that goes on.
  package init(identity: ProcessIdentity, executable: String, since: WallTime, memoryKills: [MemoryKills]) {
    self.identity = identity
    self.executable = executable
    self.since = since
    self.memoryKills = memoryKills
  }

  private static let firstLine = "culprit-run 1"

  /// The file of a run that goes on.
  package var text: String {
    var lines = [
      "process \(identity.process)", "start \(identity.start)", "boot \(identity.boot)",
      "namespace \(identity.namespace)", "since \(since.nanosecondsSince1970)", "executable \(Self.line(executable))",
    ]
    lines += memoryKills.map { "memory \($0.count) \($0.inode) \(Self.line($0.path))" }
    return Self.checked("\(Self.firstLine) \(Self.digits(number))", 0) + lines.map { checked($0) }.joined()
  }

  /// The line that is added when it ends in an orderly way.
  package func end(at time: WallTime) -> String { checked("ended \(time.nanosecondsSince1970)") }

  /// The line that is added when it has been told how it ended.
  package func told(_ verdict: RunVerdict) -> String { checked("told \(verdict.name)") }

  /// `line` with its checksum and a line feed.
  func checked(_ line: String) -> String { Self.checked(line, number) }

  private static func checked(_ line: String, _ number: UInt32) -> String {
    "\(line) #\(digits(CRC32.checksum(Array((digits(number) + line).utf8)[...])))\n"
  }

  /// `number` in eight hexadecimal digits.
  private static func digits(_ number: UInt32) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }

  /// `line` without its checksum; `nil` when that is not right for the file `number`.
  private static func content(_ line: Substring, _ number: UInt32) -> Substring? {
    guard let mark = line.lastIndex(of: "#"), mark > line.startIndex else { return nil }
    let content = line[..<line.index(before: mark)]
    return checked(String(content), number).dropLast() == line ? content : nil
  }

  /// The run that the content `text` of a file describes; `nil` when it describes none.
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
    // Without one of these it could be taken for another run.
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

  /// As many as are noted at a time (`NOTED_MAX` of hang_notes.c).
  private static let hangsMax = 32

  /// `text` without what would end a line.
  static func line(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 32 ? "?" : $0 }))
  }
}

extension WallTime {
  /// The time as names of files have it: they sort by it.
  package var fileNamePart: String { description.filter { $0 != "-" && $0 != ":" } }
}
