/// Finds the valid records of a file. At most one piece of the file is in memory.
struct RecordScanner {
  struct Record {
    var offset: Int
    var kind: UInt16
    var tag: UInt16
    var payload: ArraySlice<UInt8>
  }

  /// Maximum number of bytes checksummed in a search for a valid record after damage: in a malicious file, every byte
  /// could look like the start of a long record.
  private static let searchBytesMax = 64 << 20

  var problems: [StallFileProblem] = []
  private var window: [UInt8]
  private var start = 0
  private var more: (() -> [UInt8])?
  private var offset = StallFileFormat.headerBytes
  private var searched = 0
  private var tag: UInt16?

  init(bytes: [UInt8]) { window = bytes }

  init(_ more: @escaping () -> [UInt8]) {
    window = []
    self.more = more
  }

  /// Returns the file header's bytes, or fewer in a shorter file. Must be called before reading records.
  mutating func header() -> ArraySlice<UInt8> {
    window[..<left(of: StallFileFormat.headerBytes, at: 0)]
  }

  /// Returns the next valid record. Adds skipped bytes to ``problems`` once.
  mutating func next() -> Record? {
    guard left(of: 1, at: offset) > 0 else { return nil }
    switch record(at: offset) {
    case .whole(let record):
      offset = end(of: record)
      tag = tag ?? record.tag
      return record
    case .damaged(let what):
      let begin = offset
      guard let record = search(from: begin + 1) else {
        offset = end()
        problems.append(StallFileProblem(offset: begin, text: "\(what); the last \(offset - begin) bytes are lost"))
        return nil
      }
      problems.append(StallFileProblem(offset: begin, text: "\(what); \(record.offset - begin) bytes are lost"))
      offset = end(of: record)
      tag = tag ?? record.tag
      return record
    }
  }

  private enum Attempt {
    case whole(Record)
    case damaged(String)
  }

  private func end(of record: Record) -> Int {
    record.offset + StallFileFormat.recordHeadBytes + record.payload.count + StallFileFormat.recordTailBytes
  }

  private mutating func end() -> Int {
    var end = start + window.count
    window = []
    while let piece = more?(), !piece.isEmpty { end += piece.count }
    (start, more) = (end, nil)
    return end
  }

  /// Reads until `count` bytes are available at `offset`. Returns the number of available bytes, which is usually
  /// larger, or smaller at the end of the file. Can discard bytes before `offset`.
  private mutating func left(of count: Int, at offset: Int) -> Int {
    while start + window.count - offset < count, let piece = more?() {
      guard !piece.isEmpty else {
        more = nil
        break
      }
      let passed = min(offset - start, window.count)
      if passed >= window.count / 2 {
        window.removeSubrange(..<passed)
        start += passed
      }
      window += piece
    }
    return max(0, start + window.count - offset)
  }

  private mutating func record(at offset: Int) -> Attempt {
    let overhead = StallFileFormat.recordHeadBytes + StallFileFormat.recordTailBytes
    var left = left(of: overhead, at: offset)
    guard left >= overhead else { return .damaged("the file ends inside a record (\(left) bytes of it are there)") }
    var head = ByteReader(window[(offset - start)...])
    let length = Int((try? head.number(UInt32.self)) ?? 0)
    let kind: UInt16 = (try? head.number()) ?? 0
    let tag: UInt16 = (try? head.number()) ?? 0
    guard length <= StallFileFormat.payloadBytesMax else {
      return .damaged(
        "a record claims to have \(length) bytes, more than the \(StallFileFormat.payloadBytesMax) allowed"
      )
    }
    left = self.left(of: overhead + length, at: offset)
    guard left >= overhead + length else {
      return .damaged("the file ends inside a record (\(left) of its \(overhead + length) bytes are there)")
    }
    let begin = offset - start
    let payloadBegin = begin + StallFileFormat.recordHeadBytes
    let payloadEnd = payloadBegin + length
    var tail = ByteReader(window[payloadEnd...])
    let found: UInt32 = (try? tail.number()) ?? 0
    let expected = CRC32.checksum(window[begin..<payloadEnd])
    guard found == expected else {
      return .damaged(
        "a record's checksum is \(hexadecimal(found)), but its content gives \(hexadecimal(expected))"
      )
    }
    if let own = self.tag, tag != own {
      return .damaged("a record belongs to another file (number \(tag), not \(own))")
    }
    return .whole(Record(offset: offset, kind: kind, tag: tag, payload: window[payloadBegin..<payloadEnd]))
  }

  private mutating func search(from begin: Int) -> Record? {
    var candidate = begin
    while searched < Self.searchBytesMax, left(of: StallFileFormat.recordHeadBytes, at: candidate) > 0 {
      var head = ByteReader(window[(candidate - start)...])
      let length = Int((try? head.number(UInt32.self)) ?? .max)
      let kind: UInt16 = (try? head.number()) ?? 0
      if kind != 0, length <= StallFileFormat.payloadBytesMax, length <= left(of: length, at: candidate) {
        searched += StallFileFormat.recordHeadBytes + length
        if case .whole(let record) = record(at: candidate) { return record }
      }
      candidate += 1
    }
    return nil
  }
}
