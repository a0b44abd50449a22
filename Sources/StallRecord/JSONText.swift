/// A JSON object (RFC 8259). Keys keep the order of addition. `nil` values are omitted.
package struct JSONObject: Sendable {
  private var members: [String] = []

  package init() {}

  package var text: String { "{" + members.joined(separator: ",") + "}" }

  package var isEmpty: Bool { members.isEmpty }

  package mutating func add(_ key: String, json: String) { addRaw(key, json) }

  package mutating func add(_ key: String, array: [String]) { addRaw(key, "[" + array.joined(separator: ",") + "]") }

  package mutating func add(_ key: String, _ value: some BinaryInteger) { addRaw(key, String(value)) }

  package mutating func add(_ key: String, _ value: String?) { addRaw(key, value.map(quotedJSON)) }

  package mutating func add(_ key: String, _ value: Int?) { addRaw(key, value.map { "\($0)" }) }

  /// Adds a number, unless JSON cannot represent it.
  package mutating func add(_ key: String, _ value: Double?) {
    addRaw(key, value.flatMap { $0.isFinite ? "\($0)" : nil })
  }

  package mutating func add(_ key: String, _ value: Bool) { addRaw(key, "\(value)") }

  package mutating func add(_ key: String, _ value: Duration?) { addRaw(key, value.map(Self.seconds)) }

  package mutating func add(_ key: String, _ values: [String]) {
    addRaw(key, "[" + values.map(quotedJSON).joined(separator: ",") + "]")
  }

  package mutating func add(_ key: String, _ value: JSONObject?) { addRaw(key, value?.text) }

  package mutating func add(_ key: String, _ values: [JSONObject]) {
    addRaw(key, "[" + values.map(\.text).joined(separator: ",") + "]")
  }

  private mutating func addRaw(_ key: String, _ text: String?) {
    if let text { members.append(quotedJSON(key) + ":" + text) }
  }

  private static func seconds(_ duration: Duration) -> String {
    let sign = duration < .zero ? "-" : ""
    let nanoseconds = max(duration, .zero - duration).wholeNanoseconds
    return sign + decimal(nanoseconds, 9)
  }
}

/// Returns `text` as a JSON string (RFC 8259, section 7). Also escapes characters with an effect on terminals.
package func quotedJSON(_ text: String) -> String {
  let isPlain = text.utf8.allSatisfy {
    0x20 <= $0 && $0 < 0x7f && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
  }
  guard !isPlain else { return "\"" + text + "\"" }
  var quoted = "\""
  for scalar in text.unicodeScalars {
    switch scalar {
    case "\"": quoted += "\\\""
    case "\\": quoted += "\\\\"
    case _ where !isPrintable(scalar):
      for unit in String(scalar).utf16 { quoted += "\\u" + digits(unit, 4, radix: 16) }
    default: quoted.unicodeScalars.append(scalar)
    }
  }
  return quoted + "\""
}
