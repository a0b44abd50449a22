import CulpritStallRecord

/// The path of a function: its types or namespaces and its name, without module, parameters and generic arguments.
///
///     Dictionary.subscript.getter         Dictionary, subscript, getter
///     closure #1 in Array.sort(by:)       Array, sort
///     std::vector::push_back              std, vector, push_back
struct FunctionPath: Hashable {
  /// The types or namespaces, outermost first.
  let types: [String]
  /// The base name of the function.
  let name: String
  /// The labels of the parameters with their colons: "by:".
  let labels: String
  /// Whether it is a closure or local function in the named function.
  let isClosure: Bool

  /// Creates the path of the function of `frame`; `nil` if it has no name.
  init?(_ frame: ResolvedFrame) {
    guard let function = frame.function else { return nil }
    self.init(function)
  }

  /// Creates the path of the function `function`, as printed in reports; `nil` if the name is empty.
  init?(_ function: String) {
    let parts = FunctionName.split(function)
    guard let whole = parts.last, !whole.isEmpty else { return nil }
    isClosure = parts.count > 1
    let open = whole.dropFirst().firstIndex(of: "(") ?? whole.endIndex
    labels = open < whole.endIndex && whole.hasSuffix(")") ? String(whole[whole.index(after: open)...].dropLast()) : ""
    let path = whole[..<open]
    var names = path.contains("::") ? Self.split(path, at: "::") : Self.split(path, at: ".")
    guard let last = names.popLast(), !last.isEmpty else { return nil }
    (types, name) = (names, last)
  }

  /// Splits `path` at each `separator`. The second of two consecutive separators starts a name, such as an operator's.
  private static func split(_ path: Substring, at separator: String) -> [String] {
    var names = [""]
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
