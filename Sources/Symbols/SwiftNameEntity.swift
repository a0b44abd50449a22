/// Entities in source code: functions, accessors, variables, closures and types, each in its context.
extension SwiftNameReader {
  struct Entity {
    var path: [String] = []
    var labels = ""
    var module: String?
    var head = ""
    var context: String?
    /// Whether a local entity has no pieces left for its context.
    var lacksContext = false
    var isType = false
    var isModule = false
    var isOperator = false
    /// The offset of the entity in the text.
    var start: Int?

    var member: ArraySlice<String> {
      let isAccessor = path.last.map { SwiftNameReader.accessors.contains($0) } ?? false
      return path.suffix(isAccessor ? 2 : 1)
    }

    var name: String {
      if isModule { return head + "top-level code" }
      let own = head + path.joined(separator: ".") + labels
      return context.map { path.isEmpty ? head + $0 : own + " in " + $0 } ?? own
    }
  }

  private static let accessors: Set<String> = [
    "getter", "setter", "modify", "read", "modify2", "read2", "willset", "didset", "willSet", "didSet",
    "unsafeAddressor",
    "unsafeMutableAddressor", "owningAddressor", "owningMutableAddressor", "nativeOwningAddressor",
    "nativeOwningMutableAddressor", "materializeForSet", "yielding_borrow", "yielding_mutate", "borrow", "mutate",
  ]

  /// Reads the entity at the start of `places`, the pieces separated by " in ", and removes its pieces. With
  /// `takesTypes`, types local to a function remove its name from the pieces. With `takesRest`, all pieces belong to
  /// the entity, so "Key.init()" is in another entity, not in a module "Key".
  func entity(
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

  func closure(
    _ range: Range<Int>,
    _ places: inout ArraySlice<Range<Int>>,
    _ takesTypes: Bool,
    _ takesRest: Bool,
    _ isImplicit: Bool
  ) -> Entity {
    var end = range.lowerBound
    while end < range.upperBound, text.bytes[end].isDigit { end += 1 }
    let number = text[range.lowerBound..<end]
    if takesTypes { takeContextOfType(end..<range.upperBound, &places) }
    var owner = entity(&places, takesTypes: takesTypes, takesRest: takesRest)
    // Readers consider an argument's implicit closure as the function's own code.
    if isImplicit { return owner }
    owner.head = "closure #\(number) in " + owner.head
    return owner
  }

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
    // The first of several separators starts the type.
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
    // Only a local name, or a name inside a local entity, has no module.
    if isLocal || result.path.count == 1 || takesRest && !places.isEmpty {
      guard !places.isEmpty else {
        result.lacksContext = true
        result.module = extensionModule
        return result
      }
      return put(result, into: entity(&places, takesTypes: takesTypes, takesRest: takesRest))
    }
    // An invalid name might be empty.
    guard !result.path.isEmpty else {
      result.module = extensionModule
      return result
    }
    let module = result.path.removeFirst()
    result.module = extensionModule ?? module
    nameGlobals(&result)
    return result
  }

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

  /// Last components of names that are not types.
  private static let endings = accessors.union([
    "init", "__allocating_init", "deinit", "__deallocating_deinit", "__isolated_deallocating_deinit",
    "__ivar_initializer", "__ivar_destroyer", "subscript",
  ])

  private func spellSpecialNames(_ entity: inout Entity) {
    guard let last = entity.path.last else { return }
    switch last {
    case "__allocating_init": entity.path[entity.path.count - 1] = "init"
    case "__deallocating_deinit", "__isolated_deallocating_deinit": entity.path[entity.path.count - 1] = "deinit"
    case "willset" where entity.labels.isEmpty: entity.path[entity.path.count - 1] = "willSet"
    case "didset" where entity.labels.isEmpty: entity.path[entity.path.count - 1] = "didSet"
    case "$defer":
      entity.path[entity.path.count - 1] = "defer"
      entity.labels = ""
    default: break
    }
    // "== infix": the labels, "(_:_:)", already imply it.
    for (tail, word) in [(" infix", ""), (" prefix", "prefix "), (" postfix", "postfix ")] where last.hasSuffix(tail) {
      entity.path[entity.path.count - 1] = word + last.dropLast(tail.count)
      entity.isOperator = true
    }
  }

  /// Describes global operators, and the code that initializes globals on first use.
  private func nameGlobals(_ entity: inout Entity) {
    guard let last = entity.path.last else { return }
    if last == "unsafeMutableAddressor" || last == "unsafeAddressor", entity.path.count > 1 {
      entity.path.removeLast()
      entity.head = "access to " + (entity.path.count == 1 && entity.context == nil ? "global " : "")
    } else if entity.path.count == 1, entity.context == nil, entity.isOperator,
      let letter = last.unicodeScalars.first, !letter.properties.isAlphabetic, letter != "_", letter != "$",
      letter != "`"
    {
      entity.path[0] = "operator " + last
    }
  }

  private func component(_ range: Range<Int>) -> (name: String, isLocal: Bool) {
    var range = text.trimmed(range)
    if text.has("(", at: range.lowerBound, in: range) {
      let group = text.group(at: range.lowerBound, in: range)
      let inner = group.lowerBound + 1..<max(group.lowerBound + 1, group.upperBound - 1)
      // "(in _1234)": an initializer has no name.
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
}
