/// Names of functions as reports print them.
package enum FunctionName {
  /// The most characters of a name.
  package static let charactersMax = 100

  /// What follows the name of one of several functions that the compiler has made one of.
  package static let mergedSuffix = " or a function like it (merged by the compiler)"

  /// `name` in at most `limit` characters. What is left out is what tells least: the functions between a closure and the
  /// one that it is in, all labels but the first, the outer types; then the middle.
  package static func fitted(_ name: String, to limit: Int = charactersMax) -> String {
    // Counting characters takes long.
    guard name.utf8.count > limit, name.count > limit else { return name }
    var parts = split(name)
    if parts.count > 2 { parts = [parts[0], "…", parts[parts.count - 1]] }
    func whole() -> String { parts.joined(separator: " in ") }
    if whole().count > limit { parts = parts.map(withoutLabels) }
    if whole().count > limit { parts = parts.map(withoutOuterTypes) }
    let text = whole()
    guard text.count > limit else { return text }
    guard limit > 4 else { return String(text.prefix(max(0, limit))) }
    let head = (limit - 1) / 2
    return text.prefix(head) + "…" + text.suffix(limit - 1 - head)
  }

  /// `name` cut at every " in " that is in no bracket.
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

  /// "insert(key:value:)" as "insert(key:…)".
  private static func withoutLabels(_ part: String) -> String {
    guard part.hasSuffix(":)"), let open = part.lastIndex(of: "("),
      let colon = part[open...].firstIndex(of: ":")
    else { return part }
    let rest = part[part.index(after: colon)...].dropLast()
    return rest.isEmpty ? part : part[...colon] + "…)"
  }

  /// "A.B.C.find(_:)" as "…C.find(_:)", "a::b::c::find" as "…c::find".
  private static func withoutOuterTypes(_ part: String) -> String {
    let end = part.firstIndex(of: "(") ?? part.endIndex
    let begin = part[..<end].lastIndex(of: " ").map { part.index(after: $0) } ?? part.startIndex
    let path = part[begin..<end]
    // "<Type as Trait>::function": what is left would not be a whole.
    guard !path.contains(">") else { return part }
    for separator in ["::", "."] {
      let names = components(of: path, separator)
      guard names.count > 2 else { continue }
      return part[..<begin] + "…" + names.suffix(2).joined(separator: separator) + part[end...]
    }
    return part
  }

  private static func components(of path: Substring, _ separator: String) -> [String] {
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
