/// Finds the whole records of a file.
struct RecordScanner {
  struct Record {
    var offset: Int
    var kind: UInt16
    var tag: UInt16
    var payload: ArraySlice<UInt8>
  }

  /// After damage the next whole record is searched byte by byte, and a hostile file could make every byte look like a
  /// long record. So many bytes are checksummed in that search at most.
  private static let searchBytesMax = 64 << 20

  let bytes: [UInt8]
  var problems: [StallFileProblem] = []
  private var offset = StallFileFormat.headerBytes
  private var searched = 0
  /// The number that records of this file have: that of its first one.
  private var tag: UInt16?

  init(bytes: [UInt8]) { self.bytes = bytes }

  /// The next whole record. What is skipped before it is told once in ``problems``.
  mutating func next() -> Record? {
    guard offset < bytes.count else { return nil }
    switch record(at: offset) {
    case .whole(let record):
      offset = end(of: record)
      tag = tag ?? record.tag
      return record
    case .damaged(let what):
      let begin = offset
      guard let record = search(from: begin + 1) else {
        problems.append(
          StallFileProblem(offset: begin, text: "\(what); the last \(bytes.count - begin) bytes are lost")
        )
        offset = bytes.count
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

  private func end(of record: Record) -> Int { record.payload.endIndex + StallFileFormat.recordTailBytes }

  private func record(at offset: Int) -> Attempt {
    let left = bytes.count - offset
    let overhead = StallFileFormat.recordHeadBytes + StallFileFormat.recordTailBytes
    guard left >= overhead else { return .damaged("the file ends inside a record (\(left) bytes of it are there)") }
    var head = ByteReader(bytes[offset...])
    let length = Int(head.number(UInt32.self) ?? 0)
    let kind: UInt16 = head.number() ?? 0
    let tag: UInt16 = head.number() ?? 0
    guard length <= StallFileFormat.payloadBytesMax else {
      return .damaged(
        "a record claims to have \(length) bytes, more than the \(StallFileFormat.payloadBytesMax) allowed"
      )
    }
    guard left >= overhead + length else {
      return .damaged("the file ends inside a record (\(left) of its \(overhead + length) bytes are there)")
    }
    let payloadBegin = offset + StallFileFormat.recordHeadBytes
    let payloadEnd = payloadBegin + length
    var tail = ByteReader(bytes[payloadEnd...])
    let found = tail.number(UInt32.self) ?? 0
    let expected = CRC32.checksum(bytes[offset..<payloadEnd])
    guard found == expected else {
      return .damaged(
        "a record's checksum is \(hexadecimal(found)), but its content gives \(hexadecimal(expected))"
      )
    }
    if let own = self.tag, tag != own {
      return .damaged("a record belongs to another file (number \(tag), not \(own))")
    }
    return .whole(Record(offset: offset, kind: kind, tag: tag, payload: bytes[payloadBegin..<payloadEnd]))
  }

  private mutating func search(from begin: Int) -> Record? {
    var candidate = begin
    while candidate < bytes.count, searched < Self.searchBytesMax {
      var head = ByteReader(bytes[candidate...])
      let length = Int(head.number(UInt32.self) ?? .max)
      let kind = head.number(UInt16.self) ?? 0
      if kind != 0, length <= StallFileFormat.payloadBytesMax, length <= bytes.count - candidate {
        searched += StallFileFormat.recordHeadBytes + length
        if case .whole(let record) = record(at: candidate) { return record }
      }
      candidate += 1
    }
    return nil
  }
}
