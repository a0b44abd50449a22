/// An object of JSON (RFC 8259), written key by key in the order in which they are added. A value that is `nil` is left out.
///
/// For what is written row by row: the library's values are `Codable`, which takes an encoder of somebody else's.
package struct JSONObject: Sendable {
  private var members: [String] = []

  /// An object without keys.
  package init() {}

  /// The object in one line.
  package var text: String { "{" + members.joined(separator: ",") + "}" }

  /// Whether it has no keys.
  package var isEmpty: Bool { members.isEmpty }

  /// Adds what is JSON already.
  package mutating func add(_ key: String, json: String) { addRaw(key, json) }

  /// Adds a list of what is JSON already.
  package mutating func add(_ key: String, array: [String]) { addRaw(key, "[" + array.joined(separator: ",") + "]") }

  /// Adds a whole number of any kind.
  package mutating func add(_ key: String, _ value: some BinaryInteger) { addRaw(key, String(value)) }

  /// Adds a string.
  package mutating func add(_ key: String, _ value: String?) { addRaw(key, value.map(quotedJSON)) }

  /// Adds a whole number.
  package mutating func add(_ key: String, _ value: Int?) { addRaw(key, value.map { "\($0)" }) }

  /// Adds a number; one that JSON has no form for is left out.
  package mutating func add(_ key: String, _ value: Double?) {
    addRaw(key, value.flatMap { $0.isFinite ? "\($0)" : nil })
  }

  /// Adds `true` or `false`.
  package mutating func add(_ key: String, _ value: Bool) { addRaw(key, "\(value)") }

  /// Adds a number of seconds, exact to the nanosecond.
  package mutating func add(_ key: String, _ value: Duration?) { addRaw(key, value.map(Self.seconds)) }

  /// Adds a list of strings.
  package mutating func add(_ key: String, _ values: [String]) {
    addRaw(key, "[" + values.map(quotedJSON).joined(separator: ",") + "]")
  }

  /// Adds another object.
  package mutating func add(_ key: String, _ value: JSONObject?) { addRaw(key, value?.text) }

  /// Adds a list of objects.
  package mutating func add(_ key: String, _ values: [JSONObject]) {
    addRaw(key, "[" + values.map(\.text).joined(separator: ",") + "]")
  }

  private mutating func addRaw(_ key: String, _ text: String?) {
    if let text { members.append(quotedJSON(key) + ":" + text) }
  }

  private static func seconds(_ duration: Duration) -> String {
    let sign = duration < .zero ? "-" : ""
    let nanoseconds = max(duration, .zero - duration).wholeNanoseconds
    let fraction = String(nanoseconds % 1_000_000_000)
    var digits = String(repeating: "0", count: 9 - fraction.count) + fraction
    while digits.hasSuffix("0") { digits.removeLast() }
    return "\(sign)\(nanoseconds / 1_000_000_000)" + (digits.isEmpty ? "" : "." + digits)
  }
}

/// `text` as a string of JSON (RFC 8259, 7). What would do something to a terminal is written as its number, too.
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
      for unit in String(scalar).utf16 {
        let digits = String(unit, radix: 16)
        quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      }
    default: quoted.unicodeScalars.append(scalar)
    }
  }
  return quoted + "\""
}
