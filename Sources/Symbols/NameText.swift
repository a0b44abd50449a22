/// A demangled name as bytes, with searches outside of brackets.
///
/// Brackets in names are not always balanced: operators are named `<`, and arrows are `->`.
struct NameText {
  let bytes: [UInt8]

  init(_ text: String) { bytes = Array(text.utf8) }

  var all: Range<Int> { 0..<bytes.count }

  subscript(range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

  func has(_ needle: StaticString, at place: Int, in range: Range<Int>) -> Bool {
    let count = needle.utf8CodeUnitCount
    guard place >= range.lowerBound, count <= range.upperBound - place else { return false }
    // SAFETY: the buffer has the literal's number of code units.
    let letters = UnsafeBufferPointer(start: needle.utf8Start, count: count)
    for offset in 0..<count where bytes[place + offset] != letters[offset] { return false }
    return true
  }

  func dropping(_ head: StaticString, from range: Range<Int>) -> Range<Int>? {
    guard has(head, at: range.lowerBound, in: range) else { return nil }
    return range.lowerBound + head.utf8CodeUnitCount..<range.upperBound
  }

  func ends(_ range: Range<Int>, with tail: StaticString) -> Bool {
    has(tail, at: range.upperBound - tail.utf8CodeUnitCount, in: range)
  }

  func trimmed(_ range: Range<Int>) -> Range<Int> {
    var range = range
    while let first = range.first, bytes[first] == UInt8(ascii: " ") { range = first + 1..<range.upperBound }
    while let last = range.last, bytes[last] == UInt8(ascii: " ") { range = range.lowerBound..<last }
    return range
  }

  func anywhere(_ needle: StaticString, in range: Range<Int>) -> Range<Int>? {
    let count = needle.utf8CodeUnitCount
    guard range.count >= count else { return nil }
    for place in range.lowerBound...(range.upperBound - count) where has(needle, at: place, in: range) {
      return place..<place + count
    }
    return nil
  }

  func first(_ needle: StaticString, in range: Range<Int>) -> Range<Int>? {
    var found: Range<Int>?
    outside(range) { place in
      guard has(needle, at: place, in: range) else { return true }
      found = place..<place + needle.utf8CodeUnitCount
      return false
    }
    return found
  }

  func last(_ needle: StaticString, in range: Range<Int>) -> Range<Int>? {
    var found: Range<Int>?
    outside(range) { place in
      if has(needle, at: place, in: range) { found = place..<place + needle.utf8CodeUnitCount }
      return true
    }
    return found
  }

  func split(_ range: Range<Int>, at separator: StaticString) -> [Range<Int>] {
    var parts: [Range<Int>] = []
    var begin = range.lowerBound
    outside(range) { place in
      if place >= begin, has(separator, at: place, in: range) {
        parts.append(begin..<place)
        begin = place + separator.utf8CodeUnitCount
      }
      return true
    }
    parts.append(begin..<range.upperBound)
    return parts
  }

  func group(at place: Int, in range: Range<Int>) -> Range<Int> {
    var end = range.upperBound
    var isInside = false
    outside(place..<range.upperBound) { next in
      // The opening bracket and the position after the closing bracket count as outside.
      if !isInside {
        isInside = true
        return true
      }
      end = next
      return false
    }
    return place..<end
  }

  func lastGroup(of range: Range<Int>) -> Range<Int>? {
    guard range.last.map({ bytes[$0] == UInt8(ascii: ")") }) ?? false else { return nil }
    var found: Range<Int>?
    outside(range) { place in
      guard bytes[place] == UInt8(ascii: "(") else { return true }
      let group = group(at: place, in: range)
      if group.upperBound == range.upperBound { found = group }
      return found == nil
    }
    return found
  }

  /// Calls `visit` with each place outside of brackets, and each outermost opening bracket, until `visit` returns
  /// `false`.
  func outside(_ range: Range<Int>, _ visit: (Int) -> Bool) {
    var depth = 0
    var place = range.lowerBound
    while place < range.upperBound {
      if let end = endOfOperator(at: place, in: range) {
        place = end
        continue
      }
      let byte = bytes[place]
      switch byte {
      case UInt8(ascii: "("), UInt8(ascii: "["), UInt8(ascii: "{"), UInt8(ascii: "<"):
        if depth == 0, !visit(place) { return }
        depth += 1
      case UInt8(ascii: ")"), UInt8(ascii: "]"), UInt8(ascii: "}"), UInt8(ascii: ">"): depth = max(0, depth - 1)
      default:
        if depth == 0, !visit(place) { return }
        if byte == UInt8(ascii: "-"), place + 1 < range.upperBound, bytes[place + 1] == UInt8(ascii: ">") {
          place += 1
        } else if byte == UInt8(ascii: "`") {
          repeat { place += 1 } while place < range.upperBound && bytes[place] != UInt8(ascii: "`")
        }
      }
      place += 1
    }
  }

  private func endOfOperator(at place: Int, in range: Range<Int>) -> Int? {
    guard Self.isOperator(bytes[place]) else { return nil }
    if place > range.lowerBound {
      let previous = bytes[place - 1]
      guard previous == UInt8(ascii: ".") || previous == UInt8(ascii: " ") || previous == UInt8(ascii: "(") else {
        return nil
      }
    }
    var end = place
    while end < range.upperBound, Self.isOperator(bytes[end]) { end += 1 }
    guard has(" infix", at: end, in: range) || has(" prefix", at: end, in: range) || has(" postfix", at: end, in: range)
    else { return nil }
    return end
  }

  private static func isOperator(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "/"), UInt8(ascii: "="), UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "!"),
      UInt8(ascii: "*"), UInt8(ascii: "%"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "&"),
      UInt8(ascii: "|"), UInt8(ascii: "^"), UInt8(ascii: "~"), UInt8(ascii: "?"), UInt8(ascii: "."):
      true
    default: byte >= 0x80
    }
  }
}

extension UInt8 {
  var isDigit: Bool { self >= UInt8(ascii: "0") && self <= UInt8(ascii: "9") }

  var isLetter: Bool { self | 0x20 >= UInt8(ascii: "a") && self | 0x20 <= UInt8(ascii: "z") }
}
