import CCulpritUnwind
import Foundation
import Testing

/// A recorded stack with all memory that its unwinding reads. `Tests/Fixtures/README.md` describes the format.
struct RecordedStack: Sendable, CustomTestStringConvertible {
  struct Frame: Equatable, Sendable {
    var address: UInt64
    var isReturnAddress: Bool
  }

  /// The result of an unwinding: the number of frames and the reason for the end.
  struct Outcome: Equatable, Sendable {
    var count: Int
    var end: String
  }

  struct Piece: Sendable {
    var address: UInt64
    var bytes: [UInt8]
  }

  struct Module: Sendable {
    var start: UInt64
    var end: UInt64
    var header: UInt64
  }

  enum Failure: Error {
    case line(String, file: String)
    case incomplete(String)
  }

  var name = ""
  var kind = ""
  var architecture = ""
  /// The name of the earlier stack of the same work.
  var after: String?
  var registers: [Int: UInt64] = [:]
  var stackStart: UInt64 = 0
  var stackEnd: UInt64 = 0
  var isTruncated = false
  var bytes: [UInt8] = []
  var ownLow: UInt64 = 0
  var ownEnd: UInt64 = 0
  var ownStart: UInt64 = 0
  var ownBytes: [UInt8] = []
  var modules: [Module] = []
  var memory: [Piece] = []
  /// The actual calls, innermost first.
  var frames: [Frame] = []
  /// The expected result, with fewer frames if the recording ends early.
  var found = Outcome(count: 0, end: "")

  var testDescription: String { "\(architecture)/\(name)" }

  static let ends = [
    "outermost", "copy", "frame-limit", "no-unwind-info", "no-module", "unreadable", "no-progress", "failed",
    "not-captured", "no-register",
  ]

  static let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .appendingPathComponent("Fixtures")

  /// An empty stack, without a recording.
  init(kind: String, architecture: String) {
    self.kind = kind
    self.architecture = architecture
  }

  init(architecture: String, name: String) throws {
    let file = Self.directory.appendingPathComponent(architecture).appendingPathComponent(name + ".stack")
    self.name = name
    for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
      guard take(line.split(separator: " ")) else { throw Failure.line(String(line.prefix(80)), file: name) }
    }
    guard self.architecture == architecture, !bytes.isEmpty, !frames.isEmpty else { throw Failure.incomplete(name) }
    memory.sort { $0.address < $1.address }
  }

  private mutating func take(_ words: [Substring]) -> Bool {
    let numbers = words.dropFirst().map { UInt64($0, radix: 16) }
    func all(_ count: Int) -> [UInt64]? {
      numbers.count >= count && !numbers.prefix(count).contains(nil) ? numbers.prefix(count).compactMap { $0 } : nil
    }
    switch words[0] {
    case "stack": return words.dropFirst().first == "1"
    case "kind": kind = words.dropFirst().joined(separator: " ")
    case "architecture": architecture = String(words[1])
    case "after": after = String(words[1])
    case "register":
      guard let number = Int(words[1]), let value = numbers[1] else { return false }
      registers[number] = value
    case "copied":
      guard let values = all(3) else { return false }
      (stackStart, stackEnd, isTruncated) = (values[0], values[2], words[4] == "truncated")
      bytes = [UInt8](repeating: 0, count: Int(values[1]))
    case "own":
      guard let values = all(4) else { return false }
      (ownLow, ownEnd, ownStart) = (values[0], values[1], values[2])
      ownBytes = [UInt8](repeating: 0, count: Int(values[3]))
    case "module":
      guard let values = all(3) else { return false }
      modules.append(Module(start: values[0], end: values[1], header: values[2]))
    case "frame":
      guard let address = numbers[0] else { return false }
      frames.append(Frame(address: address, isReturnAddress: words[2] == "return"))
    case "end": return Self.ends.contains(String(words[1]))
    case "found":
      guard let count = Int(words[1]), Self.ends.contains(String(words[2])) else { return false }
      found = Outcome(count: count, end: String(words[2]))
    case "bytes", "own-bytes", "memory":
      guard let address = numbers[0], let data = Data(base64Encoded: String(words[2])) else { return false }
      if words[0] == "memory" {
        memory.append(Piece(address: address, bytes: [UInt8](data)))
      } else if words[0] == "bytes" {
        bytes.replaceSubrange(Int(address - stackStart)..<Int(address - stackStart) + data.count, with: data)
      } else {
        ownBytes.replaceSubrange(Int(address - ownStart)..<Int(address - ownStart) + data.count, with: data)
      }
    default: return false
    }
    return true
  }

  /// The word of the copied stack at `address`; 0 outside of the copy.
  subscript(address: UInt64) -> UInt64 {
    get { (0..<8).reduce(0) { $0 | UInt64(byte(address + UInt64($1)) ?? 0) << UInt64(8 * $1) } }
    set {
      for index in 0..<8 where byte(address + UInt64(index)) != nil {
        bytes[Int(address - stackStart) + index] = UInt8(truncatingIfNeeded: newValue >> UInt64(8 * index))
      }
    }
  }

  private func byte(_ address: UInt64) -> UInt8? {
    address >= stackStart && address - stackStart < UInt64(bytes.count) ? bytes[Int(address - stackStart)] : nil
  }

  static func all(_ architecture: String) throws -> [RecordedStack] {
    try FileManager.default.contentsOfDirectory(atPath: directory.appendingPathComponent(architecture).path)
      .filter { $0.hasSuffix(".stack") }.sorted()
      .map { try RecordedStack(architecture: architecture, name: String($0.dropLast(6))) }
  }

  /// The stacks of both architectures, as test arguments.
  static let everything: [RecordedStack] = ["x86_64", "aarch64"].flatMap { (try? all($0)) ?? [] }
}
