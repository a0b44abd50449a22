/// A demangled Swift name, shortened for readers.
///
///     Shop.Catalog.rebuild(for: Swift.String, limit: Swift.Int) throws -> [Swift.String]
///     Catalog.rebuild(for:limit:)                                          module Shop
///
///     closure #1 (Swift.Int) -> () in Shop.Catalog.rebuild(for: Swift.String) -> ()
///     closure #1 in Catalog.rebuild(for:)
struct SwiftName {
  /// The name without types, generic arguments and module.
  let short: String
  /// The module that defines the function; `nil` for glue that belongs to none.
  let module: String?

  /// What the compiler puts before the name of the function that it made a variant of. A reader knows the function.
  private static let variants = [
    "merged ", "partial apply forwarder for ", "partial apply for ", "@objc ", "@nonobjc ", "static ",
    "dispatch thunk of ", "async function pointer to ",
    "method lookup function for ", "protocol witness for ", "suspend resume partial function for ",
    "await resume partial function for ", "outlined copy of ", "vtable thunk for ",
  ]

  /// Glue without an author.
  private static let glue = [
    "reabstraction thunk", "outlined ", "type metadata", "value witness", "metadata ", "lazy protocol witness",
    "demangling cache", "base witness", "associated type", "property descriptor", "nominal type",
    "protocol conformance",
  ]

  init(demangled: String) {
    var text = Substring(demangled)
    var changed = true
    while changed {
      changed = false
      // "(1) suspend resume partial function for": the number of the piece.
      if text.first == "(", let close = text.firstIndex(of: ")"),
        text[text.index(after: text.startIndex)..<close].allSatisfy(\.isNumber),
        text[close...].hasPrefix(") ")
      {
        text = text[text.index(close, offsetBy: 2)...]
        changed = true
      }
      for variant in Self.variants where text.hasPrefix(variant) {
        text = text.dropFirst(variant.count)
        changed = true
      }
      // "function signature specialization <…> of": what is between the angles is not always balanced.
      if let angle = text.range(of: "specialization <"), Nesting.first(" in ", in: text[..<angle.lowerBound]) == nil,
        let of = text[angle.upperBound...].range(of: "> of ")
      {
        text = text[of.upperBound...]
        changed = true
      }
    }
    if let conformance = Nesting.first(" in conformance ", in: text) {
      (short, module) = Self.witness(of: text[..<conformance.lowerBound], in: text[conformance.upperBound...])
      return
    }
    if Self.glue.contains(where: { text.hasPrefix($0) }) {
      short = String(text)
      module = nil
      return
    }
    var prefix = ""
    while let (head, rest) = Self.enclosing(text) {
      prefix += head
      text = rest
    }
    let entity = Self.entity(text)
    short = prefix + entity.short
    module = entity.module
  }

  /// The name of what a type does to conform to a protocol: `requirement` is the protocol's, "Swift.Hashable.hash(…)"; the
  /// code is that of the type in `conformance`, "Shop.Item : Swift.Hashable in Shop".
  private static func witness(
    of requirement: Substring,
    in conformance: Substring
  ) -> (short: String, module: String?) {
    let requirementName = entity(requirement).short
    let member =
      requirementName.split(separator: ".", maxSplits: 1).dropFirst().first.map(String.init) ?? requirementName
    let type = Nesting.first(" : ", in: conformance).map { conformance[..<$0.lowerBound] } ?? conformance
    let parts = Nesting.split(type, at: ".").map { component(String($0)) }
    let module = Nesting.last(" in ", in: conformance).map { String(conformance[$0.upperBound...]) }
    return ((parts.dropFirst() + [member]).joined(separator: "."), module ?? parts.first)
  }

  /// Splits "closure #1 (Swift.Int) -> () in REST" into "closure #1 in " and REST; `nil` for a name that is not of
  /// something inside something.
  private static func enclosing(_ text: Substring) -> (String, Substring)? {
    for head in [
      "closure #", "implicit closure #", "default argument ", "variable initialization expression of ", "defer #",
    ]
    where text.hasPrefix(head) {
      let joint = head == "default argument " ? " of " : " in "
      if head.hasSuffix("of ") { return (head, text.dropFirst(head.count)) }
      guard let found = Nesting.first(joint, in: text) else { return nil }
      let number = text.dropFirst(head.count).prefix(while: \.isNumber)
      return (head + number + joint, text[found.upperBound...])
    }
    // "local #1 (…) -> … in REST": a function inside a function.
    if let found = Nesting.first(" in ", in: text), let hash = Nesting.first(" #", in: text),
      hash.lowerBound < found.lowerBound
    {
      return (entity(text[..<hash.lowerBound]).short + " in ", text[found.upperBound...])
    }
    return nil
  }

  /// The shortened name of a function, accessor or variable, and its module.
  private static func entity(_ text: Substring) -> (short: String, module: String?) {
    var text = text
    var extensionModule: String?
    if text.hasPrefix("(extension in "), let close = text.firstIndex(of: ")") {
      extensionModule = String(text[text.index(text.startIndex, offsetBy: 14)..<close])
      text = text[text.index(close, offsetBy: 1)...]
      if text.first == ":" { text = text.dropFirst() }
    }
    // "Shop.Catalog.count.getter : Swift.Int"
    if let colon = Nesting.first(" : ", in: text) { text = text[..<colon.lowerBound] }
    for arrow in [" -> ", " throws", " async", " where "] {
      if let found = Nesting.first(arrow, in: text) { text = text[..<found.lowerBound] }
    }
    var labels = ""
    // "(name in _1234)" is a private name, not a list of arguments.
    if text.last == ")", let open = Nesting.openOfLastGroup(in: text), open != text.startIndex,
      text[open...].range(of: " in _") == nil
    {
      labels = argumentLabels(text[text.index(after: open)..<text.index(before: text.endIndex)])
      text = text[..<open]
    }
    var parts = Nesting.split(text, at: ".").map { component(String($0)) }
    var module = extensionModule
    if parts.count > 1 {
      let first = parts.removeFirst()
      module = module ?? first
    } else if labels.isEmpty, let only = parts.first {
      // "closure #1 () -> () in Shop": what main.swift has outside its functions.
      return ("top-level code", module ?? only)
    }
    return (parts.joined(separator: ".") + labels, module)
  }

  /// A path component without generic arguments; the name alone of a private declaration, "(name in _1234)".
  private static func component(_ part: String) -> String {
    var part = Substring(part)
    if part.first == "(", let end = part.range(of: " in ") {
      part = part[part.index(after: part.startIndex)..<end.lowerBound]
    }
    if let angle = part.firstIndex(of: "<"), angle != part.startIndex, part.last == ">" { part = part[..<angle] }
    return String(part)
  }

  private static func argumentLabels(_ arguments: Substring) -> String {
    guard !arguments.isEmpty else { return "()" }
    let labels = Nesting.split(arguments, at: ",")
      .map { argument -> String in
        let argument = argument.drop(while: { $0 == " " })
        guard let colon = Nesting.first(":", in: argument) else { return "_:" }
        let label = argument[..<colon.lowerBound]
        return label.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" } ? label + ":" : "_:"
      }
    return "(" + labels.joined() + ")"
  }
}

/// A demangled C++ name without argument types, template arguments and return type: `Index::find`.
func shortCxxName(_ demangled: String) -> String {
  var text = Substring(demangled)
  for suffix in [" const", " volatile", " &", " &&"] where text.hasSuffix(suffix) { text = text.dropLast(suffix.count) }
  guard !text.contains("operator"), text.last == ")", let open = Nesting.openOfLastGroup(in: text),
    open != text.startIndex
  else { return demangled }
  text = text[..<open]
  // A template function states its return type first.
  if let space = Nesting.last(" ", in: text) { text = text[space.upperBound...] }
  var short = ""
  var depth = 0
  for character in text {
    if character == "<" { depth += 1 }
    if depth == 0 { short.append(character) }
    if character == ">" { depth -= 1 }
  }
  return short.isEmpty || short.contains("{") ? String(text) : short
}

/// Searching text outside its brackets.
private enum Nesting {
  /// The first place of `needle` that is in no bracket.
  static func first(_ needle: String, in text: Substring) -> Range<Substring.Index>? {
    places(of: needle, in: text).first
  }

  /// The last place of `needle` that is in no bracket.
  static func last(_ needle: String, in text: Substring) -> Range<Substring.Index>? {
    places(of: needle, in: text).last
  }

  /// `text` cut at every `separator` that is in no bracket.
  static func split(_ text: Substring, at separator: String) -> [Substring] {
    var parts: [Substring] = []
    var begin = text.startIndex
    for place in places(of: separator, in: text) {
      parts.append(text[begin..<place.lowerBound])
      begin = place.upperBound
    }
    parts.append(text[begin...])
    return parts
  }

  /// The bracket that opens the group which `text` ends with.
  static func openOfLastGroup(in text: Substring) -> Substring.Index? {
    var depth = 0
    for index in text.indices.reversed() {
      if text[index] == ")" { depth += 1 }
      if text[index] == "(" {
        depth -= 1
        if depth == 0 { return index }
      }
    }
    return nil
  }

  private static func places(of needle: String, in text: Substring) -> [Range<Substring.Index>] {
    var found: [Range<Substring.Index>] = []
    var depth = 0
    var previous: Character = " "
    var index = text.startIndex
    while index < text.endIndex {
      let character = text[index]
      if depth == 0, text[index...].hasPrefix(needle) {
        let end = text.index(index, offsetBy: needle.count)
        found.append(index..<end)
        previous = text[text.index(before: end)]
        index = end
        continue
      }
      switch character {
      // ".<" is an operator's name.
      case "(", "[": depth += 1
      case "<" where previous != ".": depth += 1
      case ")", "]": depth = max(0, depth - 1)
      case ">" where previous != "-": depth = max(0, depth - 1)
      default: break
      }
      previous = character
      index = text.index(after: index)
    }
    return found
  }
}

extension StringProtocol {
  /// The first place of `needle`.
  fileprivate func range(of needle: String) -> Range<Index>? {
    var index = startIndex
    while index < endIndex {
      if self[index...].hasPrefix(needle) { return index..<self.index(index, offsetBy: needle.count) }
      index = self.index(after: index)
    }
    return nil
  }
}
