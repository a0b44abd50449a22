/// A name of Rust's older scheme: a C++ name whose last component is a hash.
///
///     _ZN4shop5Index4find17h05af221e174051e9E.llvm.A5310EB9     shop::Index::find
struct OlderRustName {
  /// The path without the hash, as in rustc-demangle and the binutils.
  let path: String

  init?(_ rawName: String) {
    guard rawName.hasPrefix("_ZN"), rawName.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
    var rest = rawName.utf8.dropFirst(3)
    var components: [Substring.UTF8View] = []
    while let first = rest.first, first != UInt8(ascii: "E") {
      let digits = rest.prefix(while: \.isDigit)
      rest = rest.dropFirst(digits.count)
      guard let count = Int(Substring(digits)), count > 0, count <= rest.count else { return nil }
      components.append(rest.prefix(count))
      rest = rest.dropFirst(count)
    }
    // The compiler and LLVM add suffixes after the E: ".llvm.A5310EB9", ".cold".
    let ending = rest.dropFirst()
    guard rest.first != nil, ending.first == nil || ending.first == UInt8(ascii: "."),
      let hash = components.popLast(), Self.isHash(hash), !components.isEmpty
    else { return nil }
    path = components.map(Self.decoded).joined(separator: "::")
  }

  /// Whether `component` is a hash. As in the binutils (rust-demangle.c), five different digits are required.
  private static func isHash(_ component: Substring.UTF8View) -> Bool {
    let digits = component.dropFirst()
    let areDigits = digits.allSatisfy { $0.isDigit || $0 >= UInt8(ascii: "a") && $0 <= UInt8(ascii: "f") }
    return component.first == UInt8(ascii: "h") && digits.count == 16 && areDigits && Set(digits).count >= 5
  }

  private static let escapes: [Substring: String] = [
    "SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ",",
  ]

  private static func decoded(_ component: Substring.UTF8View) -> String {
    // An underscore precedes an escape at the start of a component.
    var rest = Substring(component)
    if rest.hasPrefix("_$") { rest = rest.dropFirst() }
    var text = ""
    while let first = rest.first {
      if first == "$" {
        // An unknown escape ends the decoding.
        guard let end = rest.dropFirst().firstIndex(of: "$"), let meaning = meaning(rest[..<end].dropFirst()) else {
          return text + rest
        }
        text += meaning
        rest = rest[end...].dropFirst()
      } else if rest.hasPrefix("..") {
        text += "::"
        rest = rest.dropFirst(2)
      } else {
        text.append(first)
        rest = rest.dropFirst()
      }
    }
    return text
  }

  private static func meaning(_ name: Substring) -> String? {
    if let known = escapes[name] { return known }
    guard name.first == "u", let scalar = UInt32(name.dropFirst(), radix: 16).flatMap(UnicodeScalar.init),
      scalar.properties.generalCategory != .control
    else { return nil }
    return String(scalar)
  }
}
