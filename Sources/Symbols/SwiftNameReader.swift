struct SwiftNameReader {
  struct Name {
    var short: String
    var module: String?
    var start: Int?
    var isGlue = false
    var isThunk = false
  }

  let text: NameText
  private(set) var isMerged = false
  private(set) var isThunk = false

  init(_ text: NameText) { self.text = text }

  // MARK: Variants

  private static let variants: [StaticString] = [
    "@nonobjc ", "dynamic ", "override ", "super ", "suspend resume partial function for ",
    "await resume partial function for ", "coroutine continuation prototype for ", "back deployment fallback for ",
  ]

  private static let thunks: [StaticString] = [
    "partial apply forwarder for ", "partial apply ObjC forwarder for ", "partial apply for ", "@objc ",
    "dispatch thunk of ", "async function pointer to ", "coro function pointer to ", "method lookup function for ",
    "curry thunk of ", "distributed thunk ", "distributed accessor for ", "back deployment thunk for ",
    "protocol self-conformance witness for ",
  ]

  mutating func withoutVariants(_ range: Range<Int>) -> Range<Int> {
    var range = range
    if let suffix = text.first(" with unmangled suffix ", in: range) { range = range.lowerBound..<suffix.lowerBound }
    var changed = true
    while changed {
      changed = false
      if let rest = text.dropping("merged ", from: range) {
        isMerged = true
        (range, changed) = (rest, true)
      }
      // "(1) suspend resume partial function for": the number of the part.
      if let number = piece(at: range) { (range, changed) = (number.upperBound..<range.upperBound, true) }
      for variant in Self.variants {
        guard let rest = text.dropping(variant, from: range) else { continue }
        (range, changed) = (rest, true)
      }
      for thunk in Self.thunks {
        guard let rest = text.dropping(thunk, from: range) else { continue }
        (range, changed, isThunk) = (rest, true, true)
      }
      if let rest = text.dropping("vtable thunk for ", from: range) {
        isThunk = true
        let target = text.first(" dispatching to ", in: rest)
        (range, changed) = (target.map { $0.upperBound..<rest.upperBound } ?? rest, true)
      }
      if let rest = unspecialized(range) { (range, changed) = (rest, true) }
    }
    return range
  }

  func piece(at range: Range<Int>) -> Range<Int>? {
    guard text.has("(", at: range.lowerBound, in: range) else { return nil }
    var end = range.lowerBound + 1
    while end < range.upperBound, text.bytes[end].isDigit { end += 1 }
    guard end > range.lowerBound + 1, text.has(") ", at: end, in: range) else { return nil }
    return range.lowerBound..<end + 2
  }

  /// Returns the text after "generic specialization <…> of". Brackets inside might not be balanced.
  private func unspecialized(_ range: Range<Int>) -> Range<Int>? {
    guard
      let head = text.anywhere("pecialization <", in: range.lowerBound..<min(range.upperBound, range.lowerBound + 80))
    else { return nil }
    for byte in text.bytes[range.lowerBound..<head.lowerBound] {
      let isLetter = byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z")
      guard isLetter || byte == UInt8(ascii: " ") || byte == UInt8(ascii: "-") else { return nil }
    }
    var depth = 1
    var place = head.upperBound
    while place < range.upperBound {
      switch text.bytes[place] {
      case UInt8(ascii: "<"): depth += 1
      case UInt8(ascii: ">") where text.bytes[place - 1] != UInt8(ascii: "-"):
        depth -= 1
        if depth <= 0, let rest = text.dropping("> of ", from: place..<range.upperBound) { return rest }
      default: break
      }
      place += 1
    }
    // A propagated operator's name contains angle brackets.
    return text.anywhere("> of ", in: head.upperBound..<range.upperBound).map { $0.upperBound..<range.upperBound }
  }

  // MARK: Kinds of names

  func name(_ range: Range<Int>) -> Name {
    if let rest = text.dropping("protocol witness for ", from: range) { return witness(rest) }
    if let glue = glue(range) { return Name(short: glue, isGlue: true) }
    if let rest = text.dropping("one-time initialization function for ", from: range) {
      return Name(short: "initialization of global " + text[rest])
    }
    var places = text.split(range, at: " in ")[...]
    let count = places.count
    var entity = self.entity(&places, takesTypes: true)
    if entity.lacksContext, count > 1 {
      // The presumed context of the type is the function's context.
      places = text.split(range, at: " in ")[...]
      entity = self.entity(&places, takesTypes: false)
    }
    // The symbol name of the function was set explicitly.
    if entity.isModule, count == 1 { return Name(short: text[range]) }
    return Name(short: entity.name, module: entity.module, start: entity.start)
  }

  func initialization(of range: Range<Int>) -> Name {
    var places = text.split(range, at: " in ")[...]
    let variable = entity(&places, takesTypes: true)
    let isGlobal = variable.path.count == 1 && variable.context == nil
    return Name(short: "initialization of " + (isGlobal ? "global " : "") + variable.name, module: variable.module)
  }

  /// Returns the name of a protocol witness: "Swift.Hashable.hash(…) in conformance Shop.Item : Swift.Hashable in
  /// Shop". The requirement belongs to the protocol, and the code to the type.
  func witness(_ range: Range<Int>) -> Name {
    guard let joint = text.first(" in conformance ", in: range) else {
      var places = text.split(range, at: " in ")[...]
      let entity = self.entity(&places, takesTypes: true)
      return Name(short: entity.name, module: entity.module, isThunk: true)
    }
    var places = text.split(range.lowerBound..<joint.lowerBound, at: " in ")[...]
    let requirement = entity(&places, takesTypes: true)
    let conformance = joint.upperBound..<range.upperBound
    let type = conformingType(conformance)
    let module = text.last(" in ", in: conformance).map { text[$0.upperBound..<conformance.upperBound] }
    var short = ([type.path] + requirement.member).joined(separator: ".") + requirement.labels
    if let context = type.context { short += " in " + context }
    return Name(short: short, module: module ?? type.module, isThunk: true)
  }

  func conformingType(_ conformance: Range<Int>) -> (path: String, context: String?, module: String?) {
    var end = conformance.upperBound
    if let colon = text.last(" : ", in: conformance) { end = colon.lowerBound }
    return typeName(conformance.lowerBound..<end)
  }

  /// Returns the name of the type in `range` without its module. For a local type, `context` is the enclosing function.
  func typeName(_ range: Range<Int>) -> (path: String, context: String?, module: String?) {
    var range = text.trimmed(range)
    // The generic signature.
    if text.has("<", at: range.lowerBound, in: range), !text.has("<<", at: range.lowerBound, in: range) {
      range = text.trimmed(text.group(at: range.lowerBound, in: range).upperBound..<range.upperBound)
    }
    for head: StaticString in ["@escaping ", "@Sendable ", "__owned ", "inout ", "weak ", "unowned "] {
      range = text.dropping(head, from: range) ?? range
    }
    for (tail, name) in [("?", "Optional"), (".Type", ""), (".Protocol", "")] as [(StaticString, String)]
    where text.ends(range, with: tail) && !name.isEmpty && text.first(" -> ", in: range) == nil {
      let inner = typeName(range.lowerBound..<range.upperBound - tail.utf8CodeUnitCount)
      return (inner.path + "?", inner.context, inner.module)
    }
    if text.first(" -> ", in: range) != nil, text.first(" #", in: range) == nil { return ("a closure", nil, nil) }
    if text.first(" & ", in: range) != nil {
      return (text.split(range, at: " & ").map { typeName($0).path }.joined(separator: " & "), nil, nil)
    }
    if text.has("[", at: range.lowerBound, in: range) {
      let inner = range.lowerBound + 1..<max(range.lowerBound + 1, range.upperBound - 1)
      return (text.first(" : ", in: inner) == nil ? "Array" : "Dictionary", nil, "Swift")
    }
    if text.has("(", at: range.lowerBound, in: range), text.lastGroup(of: range) == range {
      let inner = range.lowerBound + 1..<range.upperBound - 1
      // "(Foo in _1234)" cannot stand alone, because its module precedes it.
      if text.first(" -> ", in: inner) != nil { return ("a closure", nil, nil) }
      return (inner.isEmpty ? "()" : "a tuple", nil, "Swift")
    }
    if text.has("<<opaque return type", at: range.lowerBound, in: range) { return ("an opaque type", nil, nil) }
    var places = text.split(range, at: " in ")[...]
    var entity = self.entity(&places, takesTypes: true)
    if entity.isModule { entity.path = [entity.module ?? ""] }
    return (entity.path.joined(separator: "."), entity.context, entity.module)
  }

  // MARK: Types

  /// Removes the context of the type at the end of `range` from `places`: "Shop.decode() -> ()" in "-> Order #1 in
  /// Shop.decode() -> ()".
  func takeContextOfType(_ range: Range<Int>, _ places: inout ArraySlice<Range<Int>>) {
    guard !places.isEmpty, !range.isEmpty else { return }
    var type = text.trimmed(range)
    while let arrow = text.first("-> ", in: type) { type = arrow.upperBound..<type.upperBound }
    type = text.dropping(": ", from: type) ?? type
    while let last = type.last, text.bytes[last] == UInt8(ascii: "?") || text.bytes[last] == UInt8(ascii: "!") {
      type = type.lowerBound..<last
    }
    let isLocal = text.first(" #", in: type) != nil
    guard isLocal || isUnqualified(type) else { return }
    _ = entity(&places, takesTypes: true, takesRest: false)
  }

  private func isUnqualified(_ type: Range<Int>) -> Bool {
    guard let first = type.first else { return false }
    let isName = text.bytes[type].allSatisfy { byte in
      byte.isLetter || byte.isDigit || byte >= 0x80 || byte == UInt8(ascii: "_")
    }
    let isParameter =
      text.bytes[first] >= UInt8(ascii: "A") && text.bytes[first] <= UInt8(ascii: "Z")
      && text.bytes[type.dropFirst()].allSatisfy(\.isDigit)
    return isName && !isParameter && text[type] != "Self" && text[type] != "Any"
  }
}
