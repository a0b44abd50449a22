import Testing

/// Protobuf's wire format, decoded according to protobuf.dev, "Encoding", without code of the writer.
enum Wire {
  struct Field {
    var number: UInt64
    var value: UInt64 = 0
    var bytes: ArraySlice<UInt8> = []

    var text: String { String(decoding: bytes, as: UTF8.self) }
  }

  static func fields(_ bytes: ArraySlice<UInt8>) throws -> [Field] {
    var rest = bytes
    var fields: [Field] = []
    while !rest.isEmpty {
      let tag = try varint(&rest)
      switch tag & 7 {
      case 0: fields.append(Field(number: tag >> 3, value: try varint(&rest)))
      case 1: fields.append(Field(number: tag >> 3, value: try fixed(&rest)))
      case 2:
        let count = Int(try varint(&rest))
        try #require(count <= rest.count)
        fields.append(Field(number: tag >> 3, bytes: rest.prefix(count)))
        rest = rest.dropFirst(count)
      default: try #require(Bool(false), "wire type \(tag & 7)")
      }
    }
    return fields
  }

  static func packed(_ bytes: ArraySlice<UInt8>) throws -> [UInt64] {
    var rest = bytes
    var values: [UInt64] = []
    while !rest.isEmpty { values.append(try varint(&rest)) }
    return values
  }

  static func packedFixed(_ bytes: ArraySlice<UInt8>) throws -> [UInt64] {
    var rest = bytes
    var values: [UInt64] = []
    while !rest.isEmpty { values.append(try fixed(&rest)) }
    return values
  }

  private static func fixed(_ rest: inout ArraySlice<UInt8>) throws -> UInt64 {
    guard rest.count >= 8 else { throw WireError.cut }
    defer { rest = rest.dropFirst(8) }
    return rest.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  private static func varint(_ rest: inout ArraySlice<UInt8>) throws -> UInt64 {
    var value: UInt64 = 0
    for shift in stride(from: UInt64(0), to: 70, by: 7) {
      guard let byte = rest.popFirst() else { throw WireError.cut }
      value |= UInt64(byte & 0x7f) << shift
      if byte < 0x80 { return value }
    }
    throw WireError.endless
  }

  private enum WireError: Error { case endless, cut }
}
