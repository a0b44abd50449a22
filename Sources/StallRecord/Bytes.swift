struct ByteWriter {
  private(set) var bytes: [UInt8] = []

  mutating func append<Number: FixedWidthInteger>(_ number: Number) {
    withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
  }

  /// Appends the length in bytes (16 bits) and the UTF-8 text. Longer text is cut at a character boundary.
  mutating func append(_ text: String) {
    var utf8 = Array(text.utf8)
    if utf8.count > Int(UInt16.max) {
      var end = Int(UInt16.max)
      while end > 0, utf8[end] & 0xc0 == 0x80 { end -= 1 }
      utf8.removeSubrange(end...)
    }
    append(UInt16(utf8.count))
    bytes.append(contentsOf: utf8)
  }

  /// Appends the length (16 bits) and the bytes.
  mutating func append(bytes more: [UInt8]) {
    let kept = more.prefix(Int(UInt16.max))
    append(UInt16(kept.count))
    bytes.append(contentsOf: kept)
  }
}

struct ShortRecordError: Error {}

struct ByteReader {
  private let bytes: ArraySlice<UInt8>
  private var position: Int

  init(_ bytes: ArraySlice<UInt8>) {
    self.bytes = bytes
    position = bytes.startIndex
  }

  func require(_ count: Int) throws(ShortRecordError) {
    guard bytes.endIndex - position >= count else { throw ShortRecordError() }
  }

  mutating func number<Number: FixedWidthInteger & UnsignedInteger>(
    _: Number.Type = Number.self
  ) throws(ShortRecordError) -> Number {
    let width = Number.bitWidth / 8
    try require(width)
    // Generic arithmetic would take most of a debug build's reading.
    var value: UInt64 = 0
    var place = position + width
    while place > position {
      place -= 1
      value = value &<< 8 | UInt64(bytes[place])
    }
    position += width
    return Number(truncatingIfNeeded: value)
  }

  mutating func signed() throws(ShortRecordError) -> Int32 { Int32(bitPattern: try number()) }

  mutating func duration() throws(ShortRecordError) -> Duration {
    Duration(wholeNanoseconds: min(try number(), UInt64(Int64.max)))
  }

  mutating func knownDuration() throws(ShortRecordError) -> Duration? {
    let nanoseconds: UInt64 = try number()
    return nanoseconds == .max ? nil : Duration(wholeNanoseconds: nanoseconds)
  }

  mutating func knownNumber() throws(ShortRecordError) -> UInt64? {
    let value: UInt64 = try number()
    return value == .max ? nil : value
  }

  mutating func data() throws(ShortRecordError) -> [UInt8] {
    let count = Int(try number(UInt16.self))
    try require(count)
    defer { position += count }
    return Array(bytes[position..<position + count])
  }

  /// Reads a string and repairs invalid UTF-8.
  mutating func text() throws(ShortRecordError) -> String { String(decoding: try data(), as: UTF8.self) }

  mutating func knownText() throws(ShortRecordError) -> String? {
    let text = try text()
    return text.isEmpty ? nil : text
  }

  mutating func texts() throws(ShortRecordError) -> [String] {
    var texts: [String] = []
    for _ in 0..<(try number(UInt16.self)) { texts.append(try text()) }
    return texts
  }
}

/// CRC-32 as used by zlib, gzip and PNG (ISO 3309; reflected polynomial 0xedb88320).
package enum CRC32 {
  private static let table: [UInt32] = (0..<256)
    .map { byte in
      (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 1 ? value >> 1 ^ 0xedb8_8320 : value >> 1 }
    }

  package static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    table.withUnsafeBufferPointer { table in
      bytes.withUnsafeBufferPointer { bytes in
        var value = UInt32.max
        // SAFETY: both buffers are used only within their closures. The index is a byte, and the table has 256 entries.
        for byte in bytes { value = value >> 8 ^ table[Int(UInt8(truncatingIfNeeded: value) ^ byte)] }
        return ~value
      }
    }
  }
}
