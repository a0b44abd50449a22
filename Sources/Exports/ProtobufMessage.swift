/// A message in protobuf's wire format (protobuf.dev, "Encoding").
struct ProtobufMessage {
  private static let varint: UInt64 = 0
  private static let fixed64: UInt64 = 1
  private static let lengthDelimited: UInt64 = 2

  /// The message so far.
  private(set) var bytes: [UInt8] = []

  /// Adds a number; 0 is what a reader takes a field for that is missing.
  mutating func add(_ field: UInt64, _ value: UInt64) { if value != 0 { add(field, always: value) } }

  /// Adds a number, 0 too: which of several fields there is tells something.
  mutating func add(_ field: UInt64, always value: UInt64) {
    append(field << 3 | Self.varint)
    append(value)
  }

  /// Adds a number.
  mutating func add(_ field: UInt64, _ value: Int) { add(field, UInt64(bitPattern: Int64(value))) }

  /// Adds true or false.
  mutating func add(_ field: UInt64, _ value: Bool) { add(field, value ? UInt64(1) : 0) }

  /// Adds a text, an empty one too.
  mutating func add(_ field: UInt64, _ text: String) {
    append(field << 3 | Self.lengthDelimited)
    append(UInt64(text.utf8.count))
    bytes.append(contentsOf: text.utf8)
  }

  /// Adds a message.
  mutating func add(_ field: UInt64, _ message: ProtobufMessage) {
    append(field << 3 | Self.lengthDelimited)
    append(UInt64(message.bytes.count))
    bytes += message.bytes
  }

  /// Adds numbers, packed.
  mutating func add(_ field: UInt64, packed values: [UInt64]) {
    var content = ProtobufMessage()
    for value in values { content.append(value) }
    add(field, content)
  }

  /// Adds a number that takes eight bytes.
  mutating func add(_ field: UInt64, fixed value: UInt64) {
    append(field << 3 | Self.fixed64)
    append(fixed: value)
  }

  /// Adds numbers that take eight bytes each, packed.
  mutating func add(_ field: UInt64, packedFixed values: [UInt64]) {
    append(field << 3 | Self.lengthDelimited)
    append(UInt64(values.count) * 8)
    for value in values { append(fixed: value) }
  }

  private mutating func append(fixed value: UInt64) {
    for shift in stride(from: UInt64(0), to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: value >> shift)) }
  }

  private mutating func append(_ value: UInt64) {
    var rest = value
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
  }
}
