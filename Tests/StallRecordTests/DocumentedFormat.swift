import Testing

/// Reads files according to docs/internals/stall-format.md, without code of the reader.
struct DocumentedFormat {
  private let bytes: [UInt8]
  private var place = 0
  private var lines: [String] = []
  private(set) var kinds: Set<Int> = []

  private struct TooShort: Error {}

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  mutating func text() throws -> String {
    lines.append("header " + (0..<8).map { String(UnicodeScalar(bytes[$0])) }.joined().replacing("\n", with: "\\n"))
    place = 8
    try number(2, "major")
    try number(2, "minor")
    #expect(try number(4) == zlibChecksum(0..<12))
    while place < bytes.count { try record() }
    return lines.joined(separator: "\n") + "\n"
  }

  /// CRC-32, bit by bit.
  private func zlibChecksum(_ range: Range<Int>) -> UInt64 {
    var value: UInt32 = 0xffff_ffff
    for byte in bytes[range] {
      for bit in 0..<8 {
        let isOdd = (value & 1) != UInt32(byte >> bit & 1)
        value >>= 1
        if isOdd { value ^= 0xedb8_8320 }
      }
    }
    return UInt64(~value)
  }

  @discardableResult private mutating func number(_ width: Int, _ name: String? = nil) throws -> UInt64 {
    guard place + width <= bytes.count else { throw TooShort() }
    var value: UInt64 = 0
    for index in 0..<width { value += UInt64(bytes[place + index]) << (8 * index) }
    place += width
    if let name { lines.append("\(name) \(value)") }
    return value
  }

  private mutating func text(_ name: String) throws {
    let length = Int(try number(2))
    guard place + length <= bytes.count else { throw TooShort() }
    lines.append("\(name) \"\(String(decoding: bytes[place..<place + length], as: UTF8.self))\"")
    place += length
  }

  private mutating func texts(_ name: String) throws { for _ in 0..<(try number(2)) { try text(name) } }

  /// A number whose highest value means "none".
  private mutating func optional(_ width: Int, _ name: String) throws {
    let value = try number(width)
    lines.append(value == UInt64.max >> (64 - 8 * width) ? "\(name) none" : "\(name) \(value)")
  }

  private mutating func call() throws { lines.append("call \(Int32(truncatingIfNeeded: try number(4)))") }

  private mutating func record() throws {
    let begin = place
    let length = Int(try number(4))
    let kind = Int(try number(2))
    kinds.insert(kind)
    lines.append("record \(kind)")
    #expect(try number(2) == 0)
    try content(kind)
    #expect(place == begin + 8 + length, "record of kind \(kind)")
    let expected = zlibChecksum(begin..<place)
    #expect(try number(4) == expected)
  }

  private mutating func content(_ kind: Int) throws {
    switch kind {
    case 1: try process()
    case 2: try module()
    case 3:
      try number(4, "id")
      try text("name")
    case 4: try stack()
    case 5:
      try number(8, "stall")
      try number(1, "kind")
      try text("name")
      try number(4, "thread")
      try number(8, "threshold")
      try number(8, "began")
    case 6:
      try number(8, "stall")
      try sample()
    case 7:
      for name in ["stall", "duration", "gap", "lost"] { try number(8, name) }
      for name in ["outside", "signal", "without"] { try number(4, name) }
      for name in ["longest", "handler", "unwind"] { try number(8, name) }
    case 8:
      try number(8, "stall")
      try number(4, "thread")
      try capture()
    case 9:
      try number(8, "stall")
      try number(4, "left out")
    case 10: try name()
    case 11:
      try number(8, "stall")
      try number(1, "kind")
      try number(8, "time")
      try text("title")
      try text("text")
    case 12:
      for name in ["stall", "age", "gap", "lost"] { try number(8, name) }
      try number(1, "ended")
    case 14:
      try number(8, "stall")
      try number(8, "lock")
      try number(1, "held")
      try sample()
    default: Issue.record("unknown record kind \(kind)")
    }
  }

  private mutating func process() throws {
    try number(4, "id")
    for name in ["executable", "architecture", "version"] { try text(name) }
    try number(8, "since")
    try texts("own")
    try texts("passed over")
    try text("host")
  }

  private mutating func module() throws {
    try text("path")
    let length = Int(try number(2))
    let digits = bytes[place..<place + length].map { String($0, radix: 16) }.joined()
    lines.append("build-id \(digits.isEmpty ? "-" : digits)")
    place += length
    for _ in 0..<(try number(2)) { for name in ["from", "to", "offset"] { try number(8, name) } }
    try optional(8, "moved by")
  }

  private mutating func stack() throws {
    try number(4, "number")
    try number(1, "end")
    let count = try number(2)
    for _ in 0..<count {
      try number(1, "return")
      try number(8, "address")
    }
    try optional(2, "joined from")
    try optional(2, "left out behind")
    try number(4, "left out")
    for _ in 0..<count { try number(8, "function") }
  }

  private mutating func capture() throws {
    try optional(4, "stack")
    try number(1, "outcome")
    try optional(8, "processor")
    try number(8, "handler")
    try number(8, "unwind")
    try number(1, "doing")
    try call()
  }

  private mutating func sample() throws {
    try number(8, "age")
    try capture()
    try number(4, "progress")
    try text("label")
    try optional(8, "ready")
    try number(4, "thread")
    try number(1, "in the way")
    try number(4, "waiting")
    let known = try number(1, "descriptor")
    if known & 1 != 0 {
      try number(4, "number")
      try text("target")
      let length = Int(try number(2))
      lines.append("address \(bytes[place..<place + length].map { String($0) }.joined(separator: " "))")
      place += length
      try optional(4, "unread")
      try optional(4, "unsent")
    }
    if try number(1, "waits for") != 0 {
      try number(8, "lock")
      try number(4, "holder")
      try number(4, "waiter")
      try number(1, "flags")
    }
    try evidence()
  }

  private mutating func evidence() throws {
    let parts = try number(1, "evidence")
    if parts & 1 != 0 { for _ in 0..<6 { try number(8, "argument") } }
    if parts & 2 != 0 { for _ in 0..<(try number(1)) { try number(4, "word") } }
    if parts & 4 != 0 { try text("kernel") }
    if parts & 8 != 0 { try number(8, "timeslices") }
    if parts & 16 != 0 { for _ in 0..<10 { try number(8, "count") } }
    guard parts & 32 != 0 else { return }
    for name in ["throttled", "memory", "disk"] { try optional(8, name) }
    for name in ["runnableThreads", "cpuCount"] { try number(4, name) }
    guard parts & 64 != 0 else { return }
    for name in ["refaulted", "limit"] { try optional(8, name) }
  }

  private mutating func name() throws {
    try number(8, "address")
    let count = try number(1)
    for _ in 0..<count {
      try number(1, "flags")
      for name in ["readers", "full", "symbol", "module", "path"] { try text(name) }
      try number(8, "address")
      try number(8, "first")
      try text("file")
      try number(4, "line")
      try number(4, "column")
      try number(1, "reason")
      try text("told")
      try text("told")
    }
    for _ in 0..<count {
      let code = try number(1)
      lines.append("from \(code)")
      for name in code == 2 || code == 3 ? ["directory", "source"] : [] { try text(name) }
      if code == 3 { try text("module") }
    }
    for _ in 0..<count { try text("written") }
    for _ in 0..<count where try number(8, "meant") != 0 {
      for name in ["readers", "full", "symbol", "module", "written"] { try text(name) }
    }
  }
}
