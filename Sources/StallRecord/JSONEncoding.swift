/// Encodes `value` as JSON (RFC 8259) in one line. Keys keep the order of encoding.
///
/// - Throws: `EncodingError` for a number that JSON cannot represent.
package func encodedJSON(_ value: some Encodable) throws -> String {
  let writer = JSONWriter()
  try writer.write(value, at: [])
  return writer.finished()
}

/// Writes values during encoding. Writing outside of an array or object closes it.
private final class JSONWriter {
  private struct Open {
    var isObject: Bool
    var isEmpty = true
  }

  private var text = ""
  private var open: [Open] = []

  func finished() -> String {
    close(to: 0)
    return text
  }

  /// Starts an array or object. Returns the number of open arrays and objects.
  func begin(isObject: Bool) -> Int {
    text += isObject ? "{" : "["
    open.append(Open(isObject: isObject))
    return open.count
  }

  func next(in depth: Int, key: String? = nil) {
    close(to: depth)
    if !open[depth - 1].isEmpty { text += "," }
    open[depth - 1].isEmpty = false
    if let key { text += quotedJSON(key) + ":" }
  }

  func write(json: String) { text += json }

  /// Writes `value`. If it encodes nothing, writes an empty object.
  func write(_ value: some Encodable, at path: [any CodingKey]) throws {
    let (depth, length) = (open.count, text.utf8.count)
    try value.encode(to: JSONEncoding(writer: self, codingPath: path))
    if text.utf8.count == length { text += "{}" }
    close(to: depth)
  }

  func number(_ value: some BinaryFloatingPoint & CustomStringConvertible, at path: [any CodingKey]) throws -> String {
    guard value.isFinite else {
      throw EncodingError.invalidValue(
        value,
        EncodingError.Context(codingPath: path, debugDescription: "JSON has no number \(value)")
      )
    }
    return value.description
  }

  private func close(to depth: Int) {
    while open.count > depth { text += open.removeLast().isObject ? "}" : "]" }
  }
}

private struct JSONEncoding: Encoder, SingleValueEncodingContainer {
  let writer: JSONWriter
  let codingPath: [any CodingKey]
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    KeyedEncodingContainer(JSONMembers(writer: writer, codingPath: codingPath, depth: writer.begin(isObject: true)))
  }
  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    JSONElements(writer: writer, codingPath: codingPath, depth: writer.begin(isObject: false))
  }
  func singleValueContainer() -> any SingleValueEncodingContainer { self }

  func encodeNil() { writer.write(json: "null") }
  func encode(_ value: Bool) { writer.write(json: "\(value)") }
  func encode(_ value: String) { writer.write(json: quotedJSON(value)) }
  func encode(_ value: Double) throws { writer.write(json: try writer.number(value, at: codingPath)) }
  func encode(_ value: Float) throws { writer.write(json: try writer.number(value, at: codingPath)) }
  func encode<T: Encodable>(_ value: T) throws {
    if let number = value as? any BinaryInteger {
      writer.write(json: "\(number)")
    } else {
      try writer.write(value, at: codingPath)
    }
  }
}

private struct JSONMembers<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let writer: JSONWriter
  let codingPath: [any CodingKey]
  let depth: Int

  private func member(_ key: any CodingKey) -> JSONEncoding {
    writer.next(in: depth, key: key.stringValue)
    return JSONEncoding(writer: writer, codingPath: codingPath + [key])
  }

  func encodeNil(forKey key: Key) { member(key).encodeNil() }
  func encode(_ value: Bool, forKey key: Key) { member(key).encode(value) }
  func encode(_ value: String, forKey key: Key) { member(key).encode(value) }
  func encode(_ value: Double, forKey key: Key) throws { try member(key).encode(value) }
  func encode(_ value: Float, forKey key: Key) throws { try member(key).encode(value) }
  func encode<T: Encodable>(_ value: T, forKey key: Key) throws { try member(key).encode(value) }
  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested>
  {
    member(key).container(keyedBy: type)
  }
  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { member(key).unkeyedContainer() }
  func superEncoder() -> any Encoder { member(SuperKey()) }
  func superEncoder(forKey key: Key) -> any Encoder { member(key) }

  private struct SuperKey: CodingKey {
    let stringValue = "super"
    let intValue: Int? = nil
    init() {}
    init?(stringValue: String) { return nil }
    init?(intValue: Int) { return nil }
  }
}

private struct JSONElements: UnkeyedEncodingContainer {
  let writer: JSONWriter
  let codingPath: [any CodingKey]
  let depth: Int
  private(set) var count = 0

  init(writer: JSONWriter, codingPath: [any CodingKey], depth: Int) {
    self.writer = writer
    self.codingPath = codingPath
    self.depth = depth
  }

  private mutating func element() -> JSONEncoding {
    writer.next(in: depth)
    count += 1
    return JSONEncoding(writer: writer, codingPath: codingPath)
  }

  mutating func encodeNil() { element().encodeNil() }
  mutating func encode(_ value: Bool) { element().encode(value) }
  mutating func encode(_ value: String) { element().encode(value) }
  mutating func encode(_ value: Double) throws { try element().encode(value) }
  mutating func encode(_ value: Float) throws { try element().encode(value) }
  mutating func encode<T: Encodable>(_ value: T) throws { try element().encode(value) }
  mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
    element().container(keyedBy: type)
  }
  mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { element().unkeyedContainer() }
  mutating func superEncoder() -> any Encoder { element() }
}
