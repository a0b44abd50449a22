/// A name of Rust's newer scheme (`_R…`, RFC 2603).
///
///     _RNvMs_NtCs1234_4shop5indexNtB4_5Index4find     <shop::index::Index>::find
struct RustName {
  let short: String
  let full: String

  init?(_ rawName: String) {
    guard let bytes = Self.bytes(rawName) else { return nil }
    var reader = RustNameReader(bytes, isFull: false)
    guard let short = reader.path(0) else { return nil }
    var fullReader = RustNameReader(bytes, isFull: true)
    self.short = short
    full = fullReader.path(0, isValue: true) ?? short
  }

  static func full(_ rawName: String) -> String? {
    guard let bytes = bytes(rawName) else { return nil }
    var reader = RustNameReader(bytes, isFull: true)
    return reader.path(0, isValue: true) ?? RustName(rawName)?.full
  }

  private static func bytes(_ rawName: String) -> [UInt8]? {
    guard rawName.hasPrefix("_R") else { return nil }
    return Array(rawName.utf8.dropFirst(2).prefix { $0 != UInt8(ascii: ".") })
  }
}

/// Reads a name from left to right. References lead backwards only, so they form no loop. Budgets limit the work for
/// names with many references.
private struct RustNameReader {
  private let bytes: [UInt8]
  /// Whether generic arguments, lifetimes and signatures are part of the result.
  private let isFull: Bool
  private var place = 0
  private var budget = 2000
  private var textBudget = 1 << 16
  /// The number of lifetimes bound at the current position.
  private var lifetimes = 0

  init(_ bytes: [UInt8], isFull: Bool) {
    self.bytes = bytes
    self.isFull = isFull
  }

  private static let depthMax = 64

  private mutating func take() -> UInt8? {
    guard place < bytes.count else { return nil }
    place += 1
    return bytes[place - 1]
  }

  private mutating func takes(_ letter: Unicode.Scalar) -> Bool {
    guard place < bytes.count, bytes[place] == UInt8(ascii: letter) else { return false }
    place += 1
    return true
  }

  private mutating func list(_ read: (inout RustNameReader) -> String?) -> [String]? {
    var elements: [String] = []
    while !takes("E") {
      guard let element = read(&self) else { return nil }
      elements.append(element)
    }
    return elements
  }

  // MARK: Paths

  /// Reads a path. In the path of a value, "::" precedes the generic arguments.
  mutating func path(_ depth: Int, isValue: Bool = false) -> String? {
    budget -= 1
    guard depth < Self.depthMax, budget > 0, let kind = take() else { return nil }
    switch kind {
    case UInt8(ascii: "C"): return identifier()?.name
    case UInt8(ascii: "M"):
      guard skipImplementation(depth), let type = type(depth + 1) else { return nil }
      return "<\(type)>"
    case UInt8(ascii: "X"):
      guard skipImplementation(depth) else { return nil }
      return implementation(depth)
    case UInt8(ascii: "Y"): return implementation(depth)
    case UInt8(ascii: "N"): return nested(depth, isValue: isValue)
    case UInt8(ascii: "I"):
      guard let generic = path(depth + 1, isValue: isValue), let arguments = list({ $0.argument(depth + 1) }) else {
        return nil
      }
      return isFull ? generic + (isValue ? "::<" : "<") + arguments.joined(separator: ", ") + ">" : generic
    case UInt8(ascii: "B"): return back { $0.path(depth + 1, isValue: isValue) }
    default: return nil
    }
  }

  private mutating func implementation(_ depth: Int) -> String? {
    guard let type = type(depth + 1), let trait = path(depth + 1) else { return nil }
    return "<\(type) as \(trait)>"
  }

  private mutating func nested(_ depth: Int, isValue: Bool) -> String? {
    guard let space = take(), let outer = path(depth + 1, isValue: isValue), let inner = identifier() else {
      return nil
    }
    switch space {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"):
      // Compiler-generated items: closures, shims, and unknown kinds.
      var kind = String(UnicodeScalar(space))
      if space == UInt8(ascii: "C") { kind = "closure" }
      if space == UInt8(ascii: "S") { kind = "shim" }
      return "\(outer)::{\(kind)\(inner.name.isEmpty ? "" : ":" + inner.name)#\(inner.number)}"
    case UInt8(ascii: "a")...UInt8(ascii: "z"): return inner.name.isEmpty ? outer : "\(outer)::\(inner.name)"
    default: return nil
    }
  }

  /// Skips an implementation's location, which is not part of the name.
  private mutating func skipImplementation(_ depth: Int) -> Bool {
    if takes("s"), base62() == nil { return false }
    return path(depth + 1) != nil
  }

  private mutating func argument(_ depth: Int) -> String? {
    if takes("L") { return lifetime() }
    return takes("K") ? constant(depth) : type(depth)
  }

  // MARK: Identifiers and numbers

  private mutating func identifier() -> (name: String, number: Int)? {
    var number = 0
    if takes("s") {
      guard let found = base62() else { return nil }
      number = found &+ 1
    }
    let isPunycode = takes("u")
    guard let count = decimal() else { return nil }
    _ = takes("_")
    guard count <= bytes.count - place, textBudget >= count else { return nil }
    textBudget -= count
    let name = bytes[place..<place + count]
    place += count
    guard isPunycode else { return (String(decoding: name, as: UTF8.self), number) }
    return (Punycode.decoded(name) ?? "punycode{\(String(decoding: name, as: UTF8.self))}", number)
  }

  private mutating func decimal() -> Int? {
    guard place < bytes.count, let first = digit(bytes[place]) else { return nil }
    place += 1
    guard first > 0 else { return 0 }
    var value = first
    while place < bytes.count, let next = digit(bytes[place]) {
      guard value < 1 << 20 else { return nil }
      value = value * 10 + next
      place += 1
    }
    return value
  }

  private func digit(_ byte: UInt8) -> Int? {
    byte.isDigit ? Int(byte) - 48 : nil
  }

  private mutating func base62() -> Int? {
    if takes("_") { return 0 }
    var value = 0
    while let byte = take() {
      if byte == UInt8(ascii: "_") { return value &+ 1 }
      var next = Int(byte)
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): next -= 48
      case UInt8(ascii: "a")...UInt8(ascii: "z"): next -= 87
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): next -= 29
      default: return nil
      }
      value = value &* 62 &+ next
    }
    return nil
  }

  private mutating func back<Result>(_ read: (inout RustNameReader) -> Result?) -> Result? {
    let here = place - 1
    guard let target = base62(), target >= 0, target < here else { return nil }
    let next = place
    place = target
    defer { place = next }
    return read(&self)
  }

  // MARK: Lifetimes

  private mutating func lifetime() -> String? {
    guard let distance = base62() else { return nil }
    return lifetimeName(distance)
  }

  private func lifetimeName(_ distance: Int) -> String? {
    guard distance != 0 else { return "'_" }
    guard (1..<lifetimes + 1).contains(distance) else { return nil }
    let number = lifetimes - distance
    return number < 26 ? "'" + String(UnicodeScalar(UInt8(ascii: "a") + UInt8(number))) : "'_\(number)"
  }

  private mutating func bound(_ read: (inout RustNameReader) -> String?) -> String? {
    let outer = lifetimes
    defer { lifetimes = outer }
    var names: [String] = []
    if takes("G") {
      guard let found = base62(), (0..<64).contains(found) else { return nil }
      for _ in 0...found {
        lifetimes += 1
        names.append(lifetimeName(1) ?? "")
      }
    }
    guard let text = read(&self) else { return nil }
    return names.isEmpty || !isFull ? text : "for<\(names.joined(separator: ", "))> \(text)"
  }

  // MARK: Types

  private static let basicTypes: [Unicode.Scalar: String] = [
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
    "l": "i32", "m": "u32", "n": "i128", "o": "u128", "s": "i16", "t": "u16", "u": "()", "v": "...", "x": "i64",
    "y": "u64", "z": "!", "p": "_",
  ]

  private mutating func type(_ depth: Int) -> String? {
    budget -= 1
    guard depth < Self.depthMax, budget > 0, place < bytes.count else { return nil }
    if let basic = Self.basicTypes[Unicode.Scalar(bytes[place])] {
      place += 1
      return basic
    }
    switch bytes[place] {
    case UInt8(ascii: "A"), UInt8(ascii: "S"):
      let isArray = takes("A")
      if !isArray { place += 1 }
      guard let element = type(depth + 1) else { return nil }
      guard isArray else { return "[\(element)]" }
      guard let count = constant(depth + 1) else { return nil }
      return isFull ? "[\(element); \(count)]" : "[\(element)]"
    case UInt8(ascii: "T"):
      place += 1
      return list { $0.type(depth + 1) }.map(Self.tuple)
    case UInt8(ascii: "R"), UInt8(ascii: "Q"): return reference(depth)
    case UInt8(ascii: "P"), UInt8(ascii: "O"):
      let isConstant = takes("P")
      if !isConstant { place += 1 }
      return type(depth + 1).map { (isConstant ? "*const " : "*mut ") + $0 }
    case UInt8(ascii: "F"):
      place += 1
      return bound { $0.function(depth + 1) }
    case UInt8(ascii: "D"):
      place += 1
      return object(depth + 1)
    case UInt8(ascii: "B"):
      place += 1
      return back { $0.type(depth + 1) }
    default: return path(depth + 1)
    }
  }

  private static func tuple(_ elements: [String]) -> String {
    "(" + elements.joined(separator: ", ") + (elements.count == 1 ? ",)" : ")")
  }

  private mutating func reference(_ depth: Int) -> String? {
    let isShared = takes("R")
    if !isShared { place += 1 }
    var text = "&"
    if takes("L") {
      guard let distance = base62(), let name = lifetimeName(distance) else { return nil }
      if isFull, distance != 0 { text += name + " " }
    }
    return type(depth + 1).map { text + (isShared ? "" : "mut ") + $0 }
  }

  private mutating func function(_ depth: Int) -> String? {
    var text = takes("U") ? "unsafe " : ""
    if takes("K") {
      if takes("C") {
        text += "extern \"C\" "
      } else {
        guard let convention = identifier()?.name else { return nil }
        text += "extern \"\(convention.split(separator: "_").joined(separator: "-"))\" "
      }
    }
    guard let parameters = list({ $0.type(depth + 1) }) else { return nil }
    text += "fn(\(parameters.joined(separator: ", ")))"
    if !takes("u") {
      guard let result = type(depth + 1) else { return nil }
      text += " -> \(result)"
    }
    return isFull ? text : "fn"
  }

  private mutating func object(_ depth: Int) -> String? {
    let traits = bound { reader in reader.list { $0.trait(depth) }?.joined(separator: " + ") }
    guard let traits, takes("L"), let distance = base62(), let name = lifetimeName(distance) else { return nil }
    return "dyn " + traits + (isFull && distance != 0 ? " + \(name)" : "")
  }

  private mutating func trait(_ depth: Int) -> String? {
    guard var trait = path(depth + 1) else { return nil }
    var types: [String] = []
    while takes("p") {
      guard let name = identifier()?.name, let type = type(depth + 1) else { return nil }
      types.append("\(name) = \(type)")
    }
    guard isFull, !types.isEmpty else { return trait }
    let text = types.joined(separator: ", ")
    // A trait with arguments ends with their bracket. A path like "<Type as Trait>" is not a trait.
    if trait.hasSuffix(">") {
      trait.removeLast()
      return "\(trait), \(text)>"
    }
    return "\(trait)<\(text)>"
  }

  // MARK: Constants

  /// Reads the value of a generic argument: a number, a Boolean or a character. Stable Rust has no others.
  private mutating func constant(_ depth: Int) -> String? {
    guard depth < Self.depthMax, let kind = take() else { return nil }
    switch kind {
    case UInt8(ascii: "p"): return "_"
    case UInt8(ascii: "B"): return back { $0.constant(depth + 1) }
    case UInt8(ascii: "h"), UInt8(ascii: "t"), UInt8(ascii: "m"), UInt8(ascii: "y"), UInt8(ascii: "o"),
      UInt8(ascii: "j"):
      return hexadecimal().map(Self.number)
    case UInt8(ascii: "a"), UInt8(ascii: "s"), UInt8(ascii: "l"), UInt8(ascii: "x"), UInt8(ascii: "n"),
      UInt8(ascii: "i"):
      let sign = takes("n") ? "-" : ""
      return hexadecimal().map { sign + Self.number($0) }
    case UInt8(ascii: "b"): return hexadecimal().flatMap { $0 == "0" ? "false" : $0 == "1" ? "true" : nil }
    case UInt8(ascii: "c"):
      return hexadecimal().flatMap { UInt32($0, radix: 16) }.flatMap(UnicodeScalar.init)
        .map { "'\(Self.escaped($0))'" }
    default: return nil
    }
  }

  private mutating func hexadecimal() -> Substring? {
    guard let end = bytes[place...].firstIndex(of: UInt8(ascii: "_")) else { return nil }
    let digits = bytes[place..<end]
    guard digits.allSatisfy({ digit($0) != nil || ($0 >= UInt8(ascii: "a") && $0 <= UInt8(ascii: "f")) }) else {
      return nil
    }
    place = end + 1
    let number = String(decoding: digits, as: UTF8.self).drop { $0 == "0" }
    return number.isEmpty ? "0" : number
  }

  private static func number(_ digits: Substring) -> String {
    UInt64(digits, radix: 16).map { String($0) } ?? "0x\(digits)"
  }

  private static func escaped(_ scalar: UnicodeScalar) -> String {
    switch scalar {
    case "\t": "\\t"
    case "\r": "\\r"
    case "\n": "\\n"
    case "\\", "'": "\\\(scalar)"
    case _ where scalar.value < 0x20 || scalar.value == 0x7f: "\\u{\(String(scalar.value, radix: 16))}"
    default: String(scalar)
    }
  }
}

/// Decodes identifiers with non-ASCII letters (RFC 3492): the ASCII letters, "_", and the positions of the other
/// letters.
private enum Punycode {
  static func decoded(_ text: ArraySlice<UInt8>) -> String? {
    let mark = text.lastIndex(of: UInt8(ascii: "_"))
    var scalars = text[..<(mark ?? text.startIndex)].map { UnicodeScalar($0) }
    var digits = text[(mark.map { $0 + 1 } ?? text.startIndex)...]
    var (number, place, bias) = (128, 0, 72)
    var isFirst = true
    while !digits.isEmpty {
      var (delta, weight, step) = (0, 1, 36)
      while true {
        guard let digit = digits.popFirst().flatMap(value), delta < 1 << 32, weight < 1 << 32 else { return nil }
        delta += digit * weight
        let threshold = min(max(step - bias, 1), 26)
        if digit < threshold { break }
        weight *= 36 - threshold
        step += 36
      }
      let count = scalars.count + 1
      place += delta
      bias = adapted(delta, count, isFirst: isFirst)
      isFirst = false
      number += place / count
      place %= count
      guard let scalar = UInt32(exactly: number).flatMap(UnicodeScalar.init) else { return nil }
      scalars.insert(scalar, at: place)
      place += 1
    }
    var name = ""
    name.unicodeScalars.append(contentsOf: scalars)
    return name
  }

  private static func value(_ digit: UInt8) -> Int? {
    switch digit {
    case UInt8(ascii: "a")...UInt8(ascii: "z"): Int(digit) - 97
    case UInt8(ascii: "0")...UInt8(ascii: "9"): Int(digit) - 22
    default: nil
    }
  }

  /// Returns the bias for the next number (RFC 3492, 6.1).
  private static func adapted(_ delta: Int, _ count: Int, isFirst: Bool) -> Int {
    var delta = isFirst ? delta / 700 : delta / 2
    delta += delta / count
    var bias = 0
    while delta > 455 {
      delta /= 35
      bias += 36
    }
    return bias + 36 * delta / (delta + 38)
  }
}
