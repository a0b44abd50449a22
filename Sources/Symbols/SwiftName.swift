import StallRecord

/// A demangled Swift name, shortened for readers.
///
///     Shop.Catalog.rebuild(for: Swift.String, limit: Swift.Int) throws -> [Swift.String]
///     Catalog.rebuild(for:limit:)                                          module Shop
///
///     closure #1 (Swift.Int) -> () in Shop.Catalog.rebuild(for: Swift.String) -> ()
///     closure #1 in Catalog.rebuild(for:)
///
/// What the runtime's demangler prints is read by the rules that it prints by: an entity is preceded by its context and a
/// point ("Shop.Catalog.rebuild(…)"), or followed by " in " and its context where either is more than a name: closures,
/// local functions and types, and everything in them.
struct SwiftName {
  /// The name without types, generic arguments and module.
  private(set) var short: String
  /// The module that defines the function; `nil` for glue that belongs to none.
  private(set) var module: String?
  /// Whether the code is that of several functions, of which the name is one's.
  private(set) var isMerged = false
  /// What the code is.
  private(set) var kind = FunctionKind.function
  /// What the function that somebody has written is called in full, where the code is a variant or a part of it that has no
  /// name in the source: a specialisation, a piece of an async function, an implicit closure.
  private(set) var function: String

  /// The meaning of `demangled`.
  ///
  /// - Parameters:
  ///   - demangled: What the demangler has printed.
  ///   - owner: For the initialisation of a global or static variable that variable, as the demangler prints it.
  init(demangled: String, owner: String? = nil) {
    let text = NameText(demangled)
    var reader = SwiftNameReader(text)
    let range = reader.withoutVariants(text.trimmed(text.all))
    var name = reader.name(range)
    if text.has("one-time initialization function for ", at: range.lowerBound, in: range), let owner {
      let variable = NameText(owner)
      name = SwiftNameReader(variable).initialization(of: variable.all)
    }
    short = name.short
    module = name.module
    isMerged = reader.isMerged
    kind = name.isGlue ? .glue : reader.isThunk || name.isThunk ? .thunk : .function
    function = text[(name.start ?? range.lowerBound)..<range.upperBound]
  }
}

/// Reads what the demangler has printed.
private struct SwiftNameReader {
  struct Name {
    var short: String
    var module: String?
    /// Where the function begins in the text that somebody has written.
    var start: Int?
    var isGlue = false
    var isThunk = false
  }

  let text: NameText
  private(set) var isMerged = false
  private(set) var isThunk = false

  init(_ text: NameText) { self.text = text }

  // MARK: Variants

  /// What the compiler puts before the name of the function that it made a variant of. A reader knows the function.
  private static let variants: [StaticString] = [
    "@nonobjc ", "dynamic ", "override ", "super ", "suspend resume partial function for ",
    "await resume partial function for ", "coroutine continuation prototype for ", "back deployment fallback for ",
  ]

  /// The same, of what does nothing but call that function.
  private static let thunks: [StaticString] = [
    "partial apply forwarder for ", "partial apply ObjC forwarder for ", "partial apply for ", "@objc ",
    "dispatch thunk of ", "async function pointer to ", "coro function pointer to ", "method lookup function for ",
    "curry thunk of ", "distributed thunk ", "distributed accessor for ", "back deployment thunk for ",
    "protocol self-conformance witness for ",
  ]

  /// `range` without what says that this is a variant of a function.
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
      // "(1) suspend resume partial function for": the number of the piece.
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

  private func piece(at range: Range<Int>) -> Range<Int>? {
    guard text.has("(", at: range.lowerBound, in: range) else { return nil }
    var end = range.lowerBound + 1
    while end < range.upperBound, text.bytes[end] >= UInt8(ascii: "0"), text.bytes[end] <= UInt8(ascii: "9") {
      end += 1
    }
    guard end > range.lowerBound + 1, text.has(") ", at: end, in: range) else { return nil }
    return range.lowerBound..<end + 2
  }

  /// What stands behind "generic specialization <…> of"; `nil` for anything else. What is between the angles has other
  /// brackets that are not closed.
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
    // A propagated operator has angles of its own in its name.
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
      // What was taken for the context of a type is that of the function.
      places = text.split(range, at: " in ")[...]
      entity = self.entity(&places, takesTypes: false)
    }
    // A function that has been given its symbol's name.
    if entity.isModule, count == 1 { return Name(short: text[range]) }
    return Name(short: entity.name, module: entity.module, start: entity.start)
  }

  /// The name of what initialises the variable in `range` when it is used first.
  func initialization(of range: Range<Int>) -> Name {
    var places = text.split(range, at: " in ")[...]
    let variable = entity(&places, takesTypes: true)
    let isGlobal = variable.path.count == 1 && variable.context == nil
    return Name(short: "initialization of " + (isGlobal ? "global " : "") + variable.name, module: variable.module)
  }

  /// The name of what a type does to conform to a protocol: "Swift.Hashable.hash(…) in conformance Shop.Item :
  /// Swift.Hashable in Shop". The requirement is the protocol's; the code is that of the type.
  private func witness(_ range: Range<Int>) -> Name {
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

  /// The type in "<A where …> Shop.Box<A> : Swift.Hashable in Shop".
  private func conformingType(_ conformance: Range<Int>) -> (path: String, context: String?, module: String?) {
    var end = conformance.upperBound
    if let colon = text.last(" : ", in: conformance) { end = colon.lowerBound }
    return typeName(conformance.lowerBound..<end)
  }

  /// The name of the type in `range`, without its module; where it is local to a function, that.
  private func typeName(_ range: Range<Int>) -> (path: String, context: String?, module: String?) {
    var range = text.trimmed(range)
    // Its generic signature.
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
      // "(Foo in _1234)" cannot stand alone: it has a module before it.
      if text.first(" -> ", in: inner) != nil { return ("a closure", nil, nil) }
      return (inner.isEmpty ? "()" : "a tuple", nil, "Swift")
    }
    if text.has("<<opaque return type", at: range.lowerBound, in: range) { return ("an opaque type", nil, nil) }
    var places = text.split(range, at: " in ")[...]
    var entity = self.entity(&places, takesTypes: true)
    if entity.isModule { entity.path = [entity.module ?? ""] }
    return (entity.path.joined(separator: "."), entity.context, entity.module)
  }

  // MARK: Glue

  /// What the compiler has written for a type, in words; each is followed by a type.
  private static let glueOfTypes: [(StaticString, String)] = [
    ("initializeBufferWithCopyOfBuffer value witness for ", "copying "),
    ("initializeBufferWithCopy value witness for ", "copying "), ("initializeWithCopy value witness for ", "copying "),
    ("initializeArrayWithCopy value witness for ", "copying "), ("assignWithCopy value witness for ", "copying "),
    ("initializeBufferWithTakeOfBuffer value witness for ", "moving "),
    ("initializeBufferWithTake value witness for ", "moving "), ("initializeWithTake value witness for ", "moving "),
    ("initializeArrayWithTakeFrontToBack value witness for ", "moving "),
    ("initializeArrayWithTakeBackToFront value witness for ", "moving "),
    ("assignWithTake value witness for ", "moving "), ("destroyBuffer value witness for ", "destroying "),
    ("destroyArray value witness for ", "destroying "), ("destroy value witness for ", "destroying "),
    ("allocateBuffer value witness for ", "making room for "),
    ("deallocateBuffer value witness for ", "giving back the room of "),
    ("projectBuffer value witness for ", "finding the value of "),
    ("getEnumTagSinglePayload value witness for ", "reading the case of "),
    ("storeEnumTagSinglePayload value witness for ", "setting the case of "),
    ("getEnumTag value witness for ", "reading the case of "),
    ("destructiveProjectEnumData value witness for ", "reading the payload of "),
    ("destructiveInjectEnumTag value witness for ", "setting the case of "),
    ("storeExtraInhabitant value witness for ", "setting the case of "),
    ("getExtraInhabitantIndex value witness for ", "reading the case of "),
    ("value witness table for ", "value witnesses of "),
    ("outlined copy of ", "copying "), ("outlined retain of ", "retaining "),
    ("outlined init with copy of ", "copying "), ("outlined assign with copy of ", "copying "),
    ("outlined consume of ", "destroying "), ("outlined release of ", "releasing "),
    ("outlined destroy of ", "destroying "), ("outlined init with take of ", "moving "),
    ("outlined assign with take of ", "moving "), ("outlined enum tag store of ", "setting the case of "),
    ("outlined enum get tag of ", "reading the case of "),
    ("outlined enum project data of ", "reading the payload of "),
    ("type metadata accessor for ", "type metadata of "),
    ("type metadata completion function for ", "type metadata of "),
    ("type metadata instantiation function for ", "type metadata of "), ("type metadata for ", "type metadata of "),
    ("full type metadata for ", "type metadata of "),
    ("canonical specialized generic type metadata accessor for ", "type metadata of "),
    ("noncanonical specialized generic type metadata for ", "type metadata of "),
    ("demangling cache variable for type metadata for ", "type metadata of "),
    ("default associated type metadata accessor for ", "type metadata of "),
    ("reflection metadata field descriptor ", "type metadata of "),
    ("class metadata base offset for ", "type metadata of "),
    ("metaclass for ", "type metadata of "), ("nominal type descriptor for ", "type metadata of "),
    ("generic type metadata pattern for ", "type metadata of "),
    ("opaque type descriptor for ", "type metadata of "),
  ]

  /// Glue that is followed by a conformance, "Shop.Item : Swift.Hashable in Shop".
  private static let glueOfConformances: [StaticString] = [
    "protocol witness table accessor for ", "protocol witness table for ",
    "instantiation function for generic protocol witness table for ", "generic protocol witness table for ",
    "protocol conformance descriptor for ", "protocol conformance descriptor runtime record for ",
  ]

  /// What glue without an author does, in words; `nil` for what somebody has written.
  private func glue(_ range: Range<Int>) -> String? {
    for (head, words) in Self.glueOfTypes {
      if let rest = text.dropping(head, from: range) { return words + typeText(rest) }
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
    // "associated type metadata accessor for Element in Shop.Box<A> : Swift.Sequence in Shop", "associated type witness
    // table accessor for Element : Swift.Hashable in Shop.Box<A> : Swift.Sequence in Shop"
    for head: StaticString in ["associated type metadata accessor for ", "associated type witness table accessor for "]
    {
      guard let rest = text.dropping(head, from: range) else { continue }
      guard let joint = text.first(" in ", in: rest) else { return "type metadata of " + typeText(rest) }
      let type = conformingType(joint.upperBound..<rest.upperBound)
      var member = rest.lowerBound..<joint.lowerBound
      if let colon = text.first(" : ", in: member) { member = member.lowerBound..<colon.lowerBound }
      // "Swift.Sequence.Iterator"
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
      // "Shop.Shelf.Swift.Sequence.Iterator: Swift.IteratorProtocol"
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

  // MARK: Entities

  /// A function, accessor, variable, closure, type or module.
  private struct Entity {
    /// The components of the name, from the outermost type on; none for a module.
    var path: [String] = []
    /// The labels of a function's arguments in their brackets.
    var labels = ""
    var module: String?
    /// What stands before the path: "closure #1 in ", "default of limit in ".
    var head = ""
    /// The name of the function that it is local to.
    var context: String?
    /// Whether it has been found that a context must follow, and none does.
    var lacksContext = false
    var isType = false
    var isModule = false
    /// Where it begins in the text, without what is only a part of it.
    var start: Int?

    /// The part of the path that is the name of a member: the last component, two for accessors.
    var member: ArraySlice<String> {
      let count = path.count > 1 && (SwiftNameReader.accessors.contains(path[path.count - 1])) ? 2 : 1
      return path.suffix(count)
    }

    var name: String {
      if isModule { return head + "top-level code" }
      let own = head + path.joined(separator: ".") + labels
      return context.map { path.isEmpty ? head + $0 : own + " in " + $0 } ?? own
    }
  }

  private static let accessors: Set<String> = [
    "getter", "setter", "modify", "read", "modify2", "read2", "willset", "didset", "unsafeAddressor",
    "unsafeMutableAddressor", "owningAddressor", "owningMutableAddressor", "nativeOwningAddressor",
    "nativeOwningMutableAddressor", "materializeForSet", "yielding_borrow", "yielding_mutate", "borrow", "mutate",
  ]

  /// Reads the entity that begins `places`, which are the pieces between " in " and " in ", and takes as many of them as
  /// belong to it.
  ///
  /// - Parameters:
  ///   - places: The pieces.
  ///   - takesTypes: Whether types that are local to a function take its name from the pieces.
  ///   - takesRest: Whether all pieces belong to the entity: "Key.init()" may be in something else, or in a module.
  /// - Returns: The entity, in what it is declared in.
  private func entity(
    _ places: inout ArraySlice<Range<Int>>,
    takesTypes: Bool,
    takesRest: Bool = true
  ) -> Entity {
    guard let first = places.popFirst() else {
      var nothing = Entity()
      nothing.lacksContext = true
      return nothing
    }
    var range = text.trimmed(first)
    let whole = range
    while let rest = text.dropping("static ", from: range) ?? text.dropping("@objc ", from: range) { range = rest }
    for (head, isImplicit) in [("closure #", false), ("implicit closure #", true)] as [(StaticString, Bool)] {
      guard let rest = text.dropping(head, from: range) else { continue }
      var result = closure(rest, &places, takesTypes, takesRest, isImplicit)
      if !isImplicit { result.start = whole.lowerBound }
      return result
    }
    if let rest = text.dropping("default argument ", from: range), let of = text.first(" of ", in: rest) {
      let number = Int(text[rest.lowerBound..<of.lowerBound]) ?? 0
      places = [of.upperBound..<rest.upperBound] + places
      var owner = entity(&places, takesTypes: takesTypes, takesRest: takesRest)
      let labels = owner.labels.dropFirst().dropLast().split(separator: ":")
      let label =
        labels.indices.contains(number) && labels[number] != "_" ? String(labels[number]) : "argument \(number + 1)"
      owner.head = "default of \(label) in " + owner.head
      owner.start = whole.lowerBound
      return owner
    }
    for (head, words) in [
      ("variable initialization expression of ", "initial value of "),
      ("property wrapper backing initializer of ", "property wrapper of "),
      ("property wrapper init from projected value of ", "property wrapper of "),
      ("property wrapped field init accessor of ", "property wrapper of "),
    ] as [(StaticString, String)] {
      guard let rest = text.dropping(head, from: range) else { continue }
      places = [rest] + places
      var owner = entity(&places, takesTypes: takesTypes, takesRest: takesRest)
      owner.head = words + (owner.path.count == 1 && owner.context == nil ? "global " : "") + owner.head
      owner.start = whole.lowerBound
      return owner
    }
    var result = declaration(range, &places, takesTypes, takesRest)
    result.start = whole.lowerBound
    return result
  }

  /// Reads what stands behind "closure #".
  private func closure(
    _ range: Range<Int>,
    _ places: inout ArraySlice<Range<Int>>,
    _ takesTypes: Bool,
    _ takesRest: Bool,
    _ isImplicit: Bool
  ) -> Entity {
    var end = range.lowerBound
    while end < range.upperBound, text.bytes[end] >= UInt8(ascii: "0"), text.bytes[end] <= UInt8(ascii: "9") {
      end += 1
    }
    let number = text[range.lowerBound..<end]
    if takesTypes { takeContextOfType(end..<range.upperBound, &places) }
    var owner = entity(&places, takesTypes: takesTypes, takesRest: takesRest)
    // What stands in an argument is the function's own code for a reader.
    if isImplicit { return owner }
    owner.head = "closure #\(number) in " + owner.head
    return owner
  }

  /// Reads a declaration: "Shop.Catalog.count.getter : Swift.Int", "sort #1 (Swift.Int) -> ()".
  private func declaration(
    _ range: Range<Int>,
    _ places: inout ArraySlice<Range<Int>>,
    _ takesTypes: Bool,
    _ takesRest: Bool
  ) -> Entity {
    var result = Entity()
    var range = range
    var extensionModule: String?
    if let rest = text.dropping("(extension in ", from: range) {
      let group = text.group(at: range.lowerBound, in: range)
      extensionModule = text[rest.lowerBound..<max(rest.lowerBound, group.upperBound - 1)]
      range = group.upperBound..<range.upperBound
      range = text.dropping(":", from: range) ?? range
    }
    // The type of the entity, from the first of these on.
    var name = range
    for joint: StaticString in [" : ", " -> ", " throws", " async", " where "] {
      if let found = text.first(joint, in: name) { name = name.lowerBound..<found.lowerBound }
    }
    let type = name.upperBound..<range.upperBound
    if takesTypes { takeContextOfType(type, &places) }
    name = text.trimmed(name)
    var isFunction = false
    if let group = text.lastGroup(of: name), group.lowerBound > name.lowerBound || !type.isEmpty,
      text.first(" in _", in: group.lowerBound + 1..<group.upperBound - 1) == nil
    {
      result.labels = argumentLabels(group.lowerBound + 1..<group.upperBound - 1)
      name = text.trimmed(name.lowerBound..<group.lowerBound)
      isFunction = true
    }
    var isLocal = false
    for part in text.split(name, at: ".") {
      let component = self.component(part)
      isLocal = isLocal || component.isLocal
      if !component.name.isEmpty { result.path.append(component.name) }
    }
    result.isType = !isFunction && type.isEmpty && !Self.endings.contains(result.path.last ?? "")
    spellSpecialNames(&result)
    let first = result.path.first ?? ""
    if !isLocal, result.path.count == 1, !isFunction, type.isEmpty, places.isEmpty, !first.hasPrefix("$") {
      return Entity(path: [], module: extensionModule ?? first, isModule: true)
    }
    // Nothing but a local name, or one in something local, is without its module.
    if isLocal || result.path.count == 1 || takesRest && !places.isEmpty {
      guard !places.isEmpty else {
        result.lacksContext = true
        result.module = extensionModule
        return result
      }
      return put(result, into: entity(&places, takesTypes: takesTypes, takesRest: takesRest))
    }
    let module = result.path.removeFirst()
    result.module = extensionModule ?? module
    nameGlobals(&result)
    return result
  }

  /// `inner` in what it is declared in.
  private func put(_ inner: Entity, into outer: Entity) -> Entity {
    var result = inner
    result.module = outer.module
    if outer.isType {
      result.path = outer.path + inner.path
      result.context = outer.context
    } else {
      result.context = outer.name
    }
    nameGlobals(&result)
    return result
  }

  /// Names that no declaration has.
  private static let endings = accessors.union([
    "init", "__allocating_init", "deinit", "__deallocating_deinit", "__isolated_deallocating_deinit",
    "__ivar_initializer", "__ivar_destroyer", "subscript",
  ])

  private func spellSpecialNames(_ entity: inout Entity) {
    guard let last = entity.path.last else { return }
    switch last {
    case "__allocating_init": entity.path[entity.path.count - 1] = "init"
    case "__deallocating_deinit", "__isolated_deallocating_deinit": entity.path[entity.path.count - 1] = "deinit"
    case "$defer":
      entity.path[entity.path.count - 1] = "defer"
      entity.labels = ""
    default: break
    }
    // "== infix": what it stands between is clear.
    for (tail, word) in [(" infix", ""), (" prefix", "prefix "), (" postfix", "postfix ")] where last.hasSuffix(tail) {
      let name = String(last.dropLast(tail.count))
      entity.path[entity.path.count - 1] = word + name
      entity.labels = ""
    }
  }

  /// The code that makes a global variable when it is used first has no name that somebody wrote.
  private func nameGlobals(_ entity: inout Entity) {
    guard let last = entity.path.last else { return }
    if last == "unsafeMutableAddressor" || last == "unsafeAddressor", entity.path.count > 1 {
      entity.path.removeLast()
      entity.head = "access to " + (entity.path.count == 1 && entity.context == nil ? "global " : "")
    } else if entity.path.count == 1, entity.context == nil, entity.labels.isEmpty,
      let letter = last.unicodeScalars.first, !letter.properties.isAlphabetic, letter != "_", letter != "$",
      letter != "`"
    {
      entity.path[0] = "operator " + last
    }
  }

  /// A component of a name without its generic arguments; the name alone of a private declaration, "(name in _1234)", and
  /// of a local one, "name #1".
  private func component(_ range: Range<Int>) -> (name: String, isLocal: Bool) {
    var range = text.trimmed(range)
    if text.has("(", at: range.lowerBound, in: range) {
      let group = text.group(at: range.lowerBound, in: range)
      let inner = group.lowerBound + 1..<max(group.lowerBound + 1, group.upperBound - 1)
      // "(in _1234)": an initialiser has no name that it could state.
      if text.has("in _", at: inner.lowerBound, in: inner) { return ("", false) }
      if let end = text.last(" in _", in: inner) ?? text.last(" in ", in: inner) {
        range = inner.lowerBound..<end.lowerBound
      }
    }
    var isLocal = false
    if let hash = text.first(" #", in: range) {
      isLocal = true
      range = range.lowerBound..<hash.lowerBound
    }
    if let angle = text.first("<", in: range), angle.lowerBound > range.lowerBound {
      range = range.lowerBound..<angle.lowerBound
    }
    return (text[text.trimmed(range)], isLocal)
  }

  private func argumentLabels(_ range: Range<Int>) -> String {
    guard !range.isEmpty else { return "()" }
    let labels = text.split(range, at: ",")
      .map { part -> String in
        let part = text.trimmed(part)
        guard let colon = text.first(":", in: part) else { return "_:" }
        let label = text[text.trimmed(part.lowerBound..<colon.lowerBound)]
        return label.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "`" } ? label + ":" : "_:"
      }
    return "(" + labels.joined() + ")"
  }

  // MARK: Types

  /// Takes the context of the type that `range` ends with, where it has one: of "-> Order #1" in "-> Order #1 in
  /// Shop.decode() -> ()".
  private func takeContextOfType(_ range: Range<Int>, _ places: inout ArraySlice<Range<Int>>) {
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

  /// Whether `type` is a name alone, and not that of a generic parameter: a type inside of a local one.
  private func isUnqualified(_ type: Range<Int>) -> Bool {
    guard let first = type.first else { return false }
    let isName = text.bytes[type].allSatisfy { byte in
      byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z") || byte >= 0x80 || byte == UInt8(ascii: "_")
        || byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }
    let isParameter =
      text.bytes[first] >= UInt8(ascii: "A") && text.bytes[first] <= UInt8(ascii: "Z")
      && text.bytes[type.dropFirst()].allSatisfy { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
    return isName && !isParameter && text[type] != "Self" && text[type] != "Any"
  }
}
