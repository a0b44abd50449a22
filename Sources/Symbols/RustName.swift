/// A name of Rust's newer scheme (`_R…`, RFC 2603), for readers: without generic arguments and hashes.
///
///     _RNvMs_NtCs1234_4shop5indexNtB4_5Index4find     <shop::index::Index>::find
struct RustName {
  /// The name for readers.
  let short: String

  /// The meaning of `rawName`; `nil` when it is no such name.
  init?(_ rawName: String) {
    guard rawName.hasPrefix("_R") else { return nil }
    var reader = RustNameReader(Array(rawName.utf8.dropFirst(2).prefix { $0 != UInt8(ascii: ".") }))
    guard let name = reader.path(0) else { return nil }
    short = name
  }
}

/// Reads a name from left to right. Places that are referred to lie before the reference, so that there are no loops; that
/// many references cannot take for ever is seen to by a budget.
private struct RustNameReader {
  private let bytes: [UInt8]
  private var place = 0
  private var budget = 2000

  init(_ bytes: [UInt8]) { self.bytes = bytes }

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

  mutating func path(_ depth: Int) -> String? {
    budget -= 1
    guard depth < Self.depthMax, budget > 0, let kind = take() else { return nil }
    switch kind {
    case UInt8(ascii: "C"): return identifier()?.name
    case UInt8(ascii: "M"):
      guard skipImplementation(depth), let type = type(depth + 1) else { return nil }
      return "<\(type)>"
    case UInt8(ascii: "X"):
      guard skipImplementation(depth), let type = type(depth + 1), let trait = path(depth + 1) else { return nil }
      return "<\(type) as \(trait)>"
    case UInt8(ascii: "Y"):
      guard let type = type(depth + 1), let trait = path(depth + 1) else { return nil }
      return "<\(type) as \(trait)>"
    case UInt8(ascii: "N"):
      guard let space = take(), let outer = path(depth + 1), let inner = identifier() else { return nil }
      switch space {
      case UInt8(ascii: "C"): return "\(outer)::{closure#\(inner.number)}"
      case UInt8(ascii: "S"): return "\(outer)::{shim:\(inner.name)#\(inner.number)}"
      default: return inner.name.isEmpty ? outer : "\(outer)::\(inner.name)"
      }
    case UInt8(ascii: "I"):
      guard let generic = path(depth + 1) else { return nil }
      while !takes("E") {
        if takes("L") {
          guard base62() != nil else { return nil }
        } else if takes("K") {
          guard constant(depth + 1) else { return nil }
        } else if type(depth + 1) == nil {
          return nil
        }
      }
      return generic
    case UInt8(ascii: "B"): return back { $0.path(depth + 1) }
    default: return nil
    }
  }

  /// Where an implementation stands does not matter for what it is of.
  private mutating func skipImplementation(_ depth: Int) -> Bool {
    if takes("s"), base62() == nil { return false }
    return path(depth + 1) != nil
  }

  /// An identifier and its number among those of the same name, from 0.
  private mutating func identifier() -> (name: String, number: Int)? {
    var number = 0
    if takes("s") {
      guard let found = base62() else { return nil }
      number = found &+ 1
    }
    let isPunycode = takes("u")
    guard let count = decimal() else { return nil }
    _ = takes("_")
    guard count <= bytes.count - place else { return nil }
    let name = String(decoding: bytes[place..<place + count], as: UTF8.self)
    place += count
    return (isPunycode ? "punycode{\(name)}" : name, number)
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
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") ? Int(byte) - 48 : nil
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
      guard let element = type(depth + 1), !isArray || constant(depth + 1) else { return nil }
      return "[\(element)]"
    case UInt8(ascii: "T"):
      place += 1
      var elements: [String] = []
      while !takes("E") {
        guard let element = type(depth + 1) else { return nil }
        elements.append(element)
      }
      return "(" + elements.joined(separator: ", ") + ")"
    case UInt8(ascii: "R"), UInt8(ascii: "Q"):
      let isShared = takes("R")
      if !isShared { place += 1 }
      if takes("L"), base62() == nil { return nil }
      return type(depth + 1).map { (isShared ? "&" : "&mut ") + $0 }
    case UInt8(ascii: "P"), UInt8(ascii: "O"):
      let isConstant = takes("P")
      if !isConstant { place += 1 }
      return type(depth + 1).map { (isConstant ? "*const " : "*mut ") + $0 }
    case UInt8(ascii: "F"):
      place += 1
      return function(depth + 1) ? "fn" : nil
    case UInt8(ascii: "D"):
      place += 1
      return object(depth + 1)
    case UInt8(ascii: "B"):
      place += 1
      return back { $0.type(depth + 1) }
    default: return path(depth + 1)
    }
  }

  /// Steps over the signature of a function.
  private mutating func function(_ depth: Int) -> Bool {
    if takes("G"), base62() == nil { return false }
    _ = takes("U")
    if takes("K"), !takes("C"), identifier() == nil { return false }
    while !takes("E") { if type(depth + 1) == nil { return false } }
    return type(depth + 1) != nil
  }

  /// "dyn Trait + Other".
  private mutating func object(_ depth: Int) -> String? {
    if takes("G"), base62() == nil { return nil }
    var traits: [String] = []
    while !takes("E") {
      guard let trait = path(depth + 1) else { return nil }
      while takes("p") {
        guard identifier() != nil, type(depth + 1) != nil else { return nil }
      }
      traits.append(trait)
    }
    guard takes("L"), base62() != nil else { return nil }
    return "dyn " + traits.joined(separator: " + ")
  }

  /// Steps over the value of a generic argument.
  private mutating func constant(_ depth: Int) -> Bool {
    budget -= 1
    guard depth < Self.depthMax, budget > 0 else { return false }
    if takes("p") { return true }
    if takes("B") { return back { $0.constant(depth + 1) ? true : nil } ?? false }
    guard type(depth + 1) != nil else { return false }
    _ = takes("n")
    while let byte = take() {
      if byte == UInt8(ascii: "_") { return true }
      guard digit(byte) != nil || byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "f") else { return false }
    }
    return false
  }
}
