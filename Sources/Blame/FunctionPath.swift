import CulpritStallRecord

/// The path of a function: its types or namespaces and its name, without module, parameters and generic arguments.
///
///     Dictionary.subscript.getter         Dictionary, subscript, getter
///     closure #1 in Array.sort(by:)       Array, sort
///     std::vector::push_back              std, vector, push_back
struct FunctionPath: Hashable {
  let types: [String]
  let name: String
  let labels: String
  let isClosure: Bool

  init?(_ frame: ResolvedFrame) {
    guard let function = frame.function else { return nil }
    self.init(function)
  }

  init?(_ function: String) {
    let parts = FunctionName.split(function)
    guard let whole = parts.last, !whole.isEmpty else { return nil }
    isClosure = parts.count > 1
    let open = whole.dropFirst().firstIndex(of: "(") ?? whole.endIndex
    labels = open < whole.endIndex && whole.hasSuffix(")") ? String(whole[whole.index(after: open)...].dropLast()) : ""
    let path = whole[..<open]
    var names = FunctionName.components(of: path, path.contains("::") ? "::" : ".")
    guard let last = names.popLast(), !last.isEmpty else { return nil }
    (types, name) = (names, last)
  }
}
