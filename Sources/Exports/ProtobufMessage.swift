/// A message in protobuf's wire format (protobuf.dev, "Encoding").
struct ProtobufMessage {
  private static let varint: UInt64 = 0
  private static let lengthDelimited: UInt64 = 2

  /// The message so far.
  private(set) var bytes: [UInt8] = []

  /// Adds a number; 0 is what a reader takes a field for that is missing.
  mutating func add(_ field: UInt64, _ value: UInt64) {
    guard value != 0 else { return }
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

  private mutating func append(_ value: UInt64) {
    var rest = value
    while rest >= 0x80 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
  }
}
