/// Compiler-generated glue: value witnesses, metadata, outlined copies.
extension SwiftNameReader {
  /// Prefixes of glue for values of a type, with descriptions. The type follows but is not named: if several types have
  /// identical glue, the compiler keeps one function under any of their names.
  private static let glueOfValues: [(StaticString, String)] = [
    ("initializeBufferWithCopyOfBuffer value witness for ", "copying a value"),
    ("initializeBufferWithCopy value witness for ", "copying a value"),
    ("initializeWithCopy value witness for ", "copying a value"),
    ("initializeArrayWithCopy value witness for ", "copying a value"),
    ("assignWithCopy value witness for ", "copying a value"),
    ("initializeBufferWithTakeOfBuffer value witness for ", "moving a value"),
    ("initializeBufferWithTake value witness for ", "moving a value"),
    ("initializeWithTake value witness for ", "moving a value"),
    ("initializeArrayWithTakeFrontToBack value witness for ", "moving a value"),
    ("initializeArrayWithTakeBackToFront value witness for ", "moving a value"),
    ("assignWithTake value witness for ", "moving a value"),
    ("destroyBuffer value witness for ", "destroying a value"),
    ("destroyArray value witness for ", "destroying a value"),
    ("destroy value witness for ", "destroying a value"),
    ("allocateBuffer value witness for ", "making room for a value"),
    ("deallocateBuffer value witness for ", "giving back the room of a value"),
    ("projectBuffer value witness for ", "finding a value"),
    ("getEnumTagSinglePayload value witness for ", "reading the case of a value"),
    ("storeEnumTagSinglePayload value witness for ", "setting the case of a value"),
    ("getEnumTag value witness for ", "reading the case of a value"),
    ("destructiveProjectEnumData value witness for ", "reading the payload of a value"),
    ("destructiveInjectEnumTag value witness for ", "setting the case of a value"),
    ("storeExtraInhabitant value witness for ", "setting the case of a value"),
    ("getExtraInhabitantIndex value witness for ", "reading the case of a value"),
    ("outlined copy of ", "copying a value"),
    ("outlined init with copy of ", "copying a value"),
    ("outlined assign with copy of ", "copying a value"),
    ("outlined consume of ", "destroying a value"),
    ("outlined destroy of ", "destroying a value"),
    ("outlined init with take of ", "moving a value"),
    ("outlined assign with take of ", "moving a value"),
    ("outlined retain of ", "retaining a value"), ("outlined release of ", "releasing a value"),
    ("outlined enum tag store of ", "setting the case of a value"),
    ("outlined enum get tag of ", "reading the case of a value"),
    ("outlined enum project data of ", "reading the payload of a value"),
  ]

  private static let typeMetadata: [StaticString] = [
    "type metadata accessor for ", "type metadata completion function for ",
    "type metadata instantiation function for ", "type metadata for ", "full type metadata for ",
    "canonical specialized generic type metadata accessor for ",
    "noncanonical specialized generic type metadata for ", "demangling cache variable for type metadata for ",
    "default associated type metadata accessor for ", "reflection metadata field descriptor ",
    "class metadata base offset for ", "metaclass for ", "nominal type descriptor for ",
    "generic type metadata pattern for ", "opaque type descriptor for ",
  ]

  /// Prefixes of glue for a conformance. The conformance follows, as in "Shop.Item : Swift.Hashable in Shop".
  private static let glueOfConformances: [StaticString] = [
    "protocol witness table accessor for ", "protocol witness table for ",
    "instantiation function for generic protocol witness table for ", "generic protocol witness table for ",
    "protocol conformance descriptor for ", "protocol conformance descriptor runtime record for ",
  ]

  func glue(_ range: Range<Int>) -> String? {
    for (head, words) in Self.glueOfValues where text.has(head, at: range.lowerBound, in: range) { return words }
    if let rest = text.dropping("value witness table for ", from: range) {
      return "value witnesses of " + typeText(rest)
    }
    for head in Self.typeMetadata {
      if let rest = text.dropping(head, from: range) { return "type metadata of " + typeText(rest) }
    }
    for head in Self.glueOfConformances {
      if let rest = text.dropping(head, from: range) { return conformanceText(rest) }
    }
    for head: StaticString in [
      "lazy protocol witness table accessor for type ", "lazy protocol witness table cache variable for type ",
    ] {
      guard let rest = text.dropping(head, from: range) else { continue }
      guard let conformance = text.first(" and conformance ", in: rest) else {
        return "conformance of " + typeText(rest)
      }
      return conformanceText(conformance.upperBound..<rest.upperBound, of: rest.lowerBound..<conformance.lowerBound)
    }
    for head: StaticString in ["associated type metadata accessor for ", "associated type witness table accessor for "]
    {
      guard let rest = text.dropping(head, from: range) else { continue }
      guard let joint = text.first(" in ", in: rest) else { return "type metadata of " + typeText(rest) }
      let type = conformingType(joint.upperBound..<rest.upperBound)
      var member = rest.lowerBound..<joint.lowerBound
      if let colon = text.first(" : ", in: member) { member = member.lowerBound..<colon.lowerBound }
      let name = text.split(member, at: ".").last ?? member
      return "type metadata of \(type.path).\(text[name])"
    }
    if let rest = text.dropping("base witness table accessor for ", from: range) {
      guard let joint = text.first(" in ", in: rest) else { return "conformance to " + typeText(rest) }
      let type = conformingType(joint.upperBound..<rest.upperBound)
      return "conformance of \(type.path) to \(typeText(rest.lowerBound..<joint.lowerBound))"
    }
    for head: StaticString in [
      "default associated conformance accessor for ", "associated conformance descriptor for ",
    ] {
      guard let rest = text.dropping(head, from: range) else { continue }
      let type = text.first(": ", in: rest).map { rest.lowerBound..<$0.lowerBound } ?? rest
      let parts = text.split(type, at: ".").map { text[$0] }
      return "conformance of " + (parts.dropFirst().prefix(1) + parts.dropFirst(2).suffix(1)).joined(separator: ".")
    }
    for head: StaticString in ["reabstraction thunk", "thunk for "]
    where text.has(head, at: range.lowerBound, in: range) {
      return "reabstraction thunk"
    }
    for (head, words) in [
      ("key path getter for ", "key path getter of "), ("key path setter for ", "key path setter of "),
    ] as [(StaticString, String)] {
      guard let rest = text.dropping(head, from: range) else { continue }
      var places = text.split(rest, at: " in ")[...]
      return words + entity(&places, takesTypes: true).name
    }
    if text.has("key path index equality", at: range.lowerBound, in: range) { return "key path index comparison" }
    if text.has("key path index hash", at: range.lowerBound, in: range) { return "key path index hashing" }
    // "outlined variable #0 of …", "outlined read-only object #0 of …", "outlined bridged method (…) of …"
    if text.has("outlined ", at: range.lowerBound, in: range), let of = text.first(" of ", in: range) {
      var places = text.split(of.upperBound..<range.upperBound, at: " in ")[...]
      return "part of " + entity(&places, takesTypes: true).name
    }
    if text.has("<<opaque return type", at: range.lowerBound, in: range) { return "type metadata of an opaque type" }
    return nil
  }

  private func conformanceText(_ conformance: Range<Int>, of type: Range<Int>? = nil) -> String {
    let name =
      type.map(typeText)
      ?? typeText(conformance.lowerBound..<(text.last(" : ", in: conformance)?.lowerBound ?? conformance.upperBound))
    guard let colon = text.last(" : ", in: conformance) else { return "conformance of " + name }
    let end = text.last(" in ", in: colon.upperBound..<conformance.upperBound)?.lowerBound ?? conformance.upperBound
    return "conformance of \(name) to \(typeText(colon.upperBound..<end))"
  }

  private func typeText(_ range: Range<Int>) -> String {
    let type = typeName(range)
    return type.context.map { "\(type.path) in \($0)" } ?? type.path
  }
}
