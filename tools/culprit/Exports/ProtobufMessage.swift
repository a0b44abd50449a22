/// A message in protobuf's wire format (protobuf.dev, "Encoding").
struct ProtobufMessage {
  private static let varint: UInt64 = 0
  private static let fixed64: UInt64 = 1
  private static let lengthDelimited: UInt64 = 2

  private(set) var bytes: [UInt8] = []

  init() {}

  /// Creates a message of numbers, in the fields from 1 on.
  init(numbers: any BinaryInteger...) {
    for (place, number) in numbers.enumerated() { add(UInt64(place + 1), UInt64(truncatingIfNeeded: number)) }
  }

  /// Adds a number, except 0, which is the default of a missing field.
  mutating func add(_ field: UInt64, _ value: UInt64) { if value != 0 { add(field, always: value) } }

  /// Adds a number, including 0, for fields with significant presence.
  mutating func add(_ field: UInt64, always value: UInt64) {
    append(field << 3 | Self.varint)
    append(value)
  }

  mutating func add(_ field: UInt64, _ value: Int) { add(field, UInt64(bitPattern: Int64(value))) }

  mutating func add(_ field: UInt64, _ value: Bool) { add(field, value ? UInt64(1) : 0) }

  /// Adds a string, even if empty.
  mutating func add(_ field: UInt64, _ text: String) {
    append(field << 3 | Self.lengthDelimited)
    append(UInt64(text.utf8.count))
    bytes.append(contentsOf: text.utf8)
  }

  mutating func add(_ field: UInt64, _ message: ProtobufMessage) {
    append(field << 3 | Self.lengthDelimited)
    append(UInt64(message.bytes.count))
    bytes += message.bytes
  }

  mutating func add(_ field: UInt64, packed values: [UInt64]) {
    var content = ProtobufMessage()
    for value in values { content.append(value) }
    add(field, content)
  }

  mutating func add(_ field: UInt64, fixed value: UInt64) {
    append(field << 3 | Self.fixed64)
    append(fixed: value)
  }

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
