/// Appends little-endian values to a record.
struct ByteWriter {
  private(set) var bytes: [UInt8] = []

  mutating func append<Number: FixedWidthInteger>(_ number: Number) {
    withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
  }

  /// A length in bytes (16 bits), then the text in UTF-8. Longer text is cut at a character.
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

  /// A length in bytes (16 bits), then the bytes.
  mutating func append(bytes more: [UInt8]) {
    let kept = more.prefix(Int(UInt16.max))
    append(UInt16(kept.count))
    bytes.append(contentsOf: kept)
  }
}

/// Takes little-endian values from a record; `nil` where the record is too short.
struct ByteReader {
  private let bytes: ArraySlice<UInt8>
  private var position: Int

  init(_ bytes: ArraySlice<UInt8>) {
    self.bytes = bytes
    position = bytes.startIndex
  }

  var remaining: Int { bytes.endIndex - position }

  mutating func number<Number: FixedWidthInteger & UnsignedInteger>(_: Number.Type = Number.self) -> Number? {
    let width = Number.bitWidth / 8
    guard remaining >= width else { return nil }
    var value: Number = 0
    for index in (0..<width).reversed() { value = value << 8 | Number(bytes[position + index]) }
    position += width
    return value
  }

  mutating func signed() -> Int32? { number(UInt32.self).map(Int32.init(bitPattern:)) }

  mutating func duration() -> Duration? {
    number(UInt64.self).map { Duration(wholeNanoseconds: min($0, UInt64(Int64.max))) }
  }

  mutating func data() -> [UInt8]? {
    guard let count = number(UInt16.self), remaining >= Int(count) else { return nil }
    defer { position += Int(count) }
    return Array(bytes[position..<position + Int(count)])
  }

  /// A number of texts (16 bits), then each of them.
  mutating func texts() -> [String]? {
    guard let count = number(UInt16.self) else { return nil }
    var texts: [String] = []
    for _ in 0..<count {
      guard let text = text() else { return nil }
      texts.append(text)
    }
    return texts
  }

  /// Text that is not valid UTF-8 is repaired, not refused: it names something.
  mutating func text() -> String? { data().map { String(decoding: $0, as: UTF8.self) } }
}

/// CRC-32 as zlib, gzip and PNG use it (ISO 3309; reflected polynomial 0xedb88320).
package enum CRC32 {
  private static let table: [UInt32] = (0..<256)
    .map { byte in
      (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 1 ? value >> 1 ^ 0xedb8_8320 : value >> 1 }
    }

  package static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
    table.withUnsafeBufferPointer { table in
      bytes.withUnsafeBufferPointer { bytes in
        var value = UInt32.max
        // SAFETY: both buffers are used inside their closures only, and the index is a byte in a table of 256.
        for byte in bytes { value = value >> 8 ^ table[Int(UInt8(truncatingIfNeeded: value) ^ byte)] }
        return ~value
      }
    }
  }
}
