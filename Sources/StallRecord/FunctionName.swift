package enum FunctionName {
  package static let charactersMax = 100

  package static let mergedSuffix = " or a function like it (merged by the compiler)"

  /// Shortens `name` to `limit` characters. Omits the least informative parts in this order: the functions between a
  /// closure and its outermost function, all labels but the first, outer types, and the middle.
  package static func fitted(_ name: String, to limit: Int = charactersMax) -> String {
    // Counts bytes first, because counting characters is slow.
    guard name.utf8.count > limit, name.count > limit else { return name }
    var parts = split(name)
    if parts.count > 2 { parts = [parts[0], "…", parts[parts.count - 1]] }
    func whole() -> String { parts.joined(separator: " in ") }
    if whole().count > limit { parts = parts.map(withoutLabels) }
    if whole().count > limit { parts = parts.map(withoutOuterTypes) }
    let text = whole()
    return withoutMiddle(text, limit)
  }

  /// Shortens `text` to `width` characters. `gap` replaces the middle, because both ends of a name are informative.
  package static func withoutMiddle(_ text: String, _ width: Int, gap: String = "…") -> String {
    guard text.count > width else { return text }
    guard width > gap.count + 3 else { return String(text.prefix(max(0, width))) }
    let head = (width - gap.count) / 2
    return "\(text.prefix(head))\(gap)\(text.suffix(width - gap.count - head))"
  }

  package static func split(_ name: String) -> [String] {
    var parts: [String] = []
    var part = ""
    var depth = 0
    var rest = Substring(name)
    while let character = rest.first {
      if depth == 0, rest.hasPrefix(" in ") {
        parts.append(part)
        part = ""
        rest = rest.dropFirst(4)
        continue
      }
      if "([{".contains(character) { depth += 1 }
      if ")]}".contains(character) { depth = max(0, depth - 1) }
      part.append(character)
      rest = rest.dropFirst()
    }
    return parts + [part]
  }

  /// Shortens labels: "insert(key:value:)" becomes "insert(key:…)".
  private static func withoutLabels(_ part: String) -> String {
    guard part.hasSuffix(":)"), let open = part.lastIndex(of: "("),
      let colon = part[open...].firstIndex(of: ":")
    else { return part }
    let rest = part[part.index(after: colon)...].dropLast()
    return rest.isEmpty ? part : part[...colon] + "…)"
  }

  /// Omits outer types: "A.B.C.find(_:)" becomes "…C.find(_:)", "a::b::c::find" becomes "…c::find".
  private static func withoutOuterTypes(_ part: String) -> String {
    let end = part.firstIndex(of: "(") ?? part.endIndex
    let begin = part[..<end].lastIndex(of: " ").map { part.index(after: $0) } ?? part.startIndex
    let path = part[begin..<end]
    // Rust paths such as "<Type as Trait>::function" cannot be divided.
    guard !path.contains(">") else { return part }
    for separator in ["::", "."] {
      let names = components(of: path, separator)
      guard names.count > 2 else { continue }
      return part[..<begin] + "…" + names.suffix(2).joined(separator: separator) + part[end...]
    }
    return part
  }

  /// Splits `path`. A separator directly after another one starts a name, such as an operator.
  package static func components(of path: Substring, _ separator: String) -> [String] {
    var names: [String] = [""]
    var rest = path
    while let character = rest.first {
      if rest.hasPrefix(separator), names[names.count - 1] != "" {
        names.append("")
        rest = rest.dropFirst(separator.count)
      } else {
        names[names.count - 1].append(character)
        rest = rest.dropFirst()
      }
    }
    return names
  }
}
