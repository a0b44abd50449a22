import CulpritStallRecord

/// The types of a function's parameters, which distinguish overloads.
struct ParameterTypes {
  private let parameters: String
  private let result: String

  /// Creates the types for the function of `frame`; `nil` if its name lacks types or belongs to several functions.
  init?(_ frame: ResolvedFrame) {
    guard !frame.isMerged, let full = frame.sourceFunction ?? frame.fullName,
      let function = FunctionName.split(full).last, let list = Self.list(in: function)
    else { return nil }
    parameters = Self.short(function[list])
    let rest = function[list.upperBound...]
    result = rest.firstRange(of: " -> ").map { Self.short(rest[$0.upperBound...]) } ?? ""
  }

  /// Replaces the labels in `name` with the types: "encode(_:forKey:)" becomes "encode(_: Int, forKey: Key)".
  func added(to name: String, withResult: Bool = false) -> String {
    var parts = FunctionName.split(name)
    let last = parts.removeLast()
    let labels = last.hasSuffix(")") ? last.lastIndex(of: "(") ?? last.endIndex : last.endIndex
    let typed = "\(last[..<labels])(\(parameters))" + (withResult && !result.isEmpty ? " -> \(result)" : "")
    return FunctionName.fitted((parts + [typed]).joined(separator: " in "))
  }

  /// Returns the range of the first unnested parentheses that directly follow a name.
  private static func list(in function: String) -> Range<String.Index>? {
    var depth = 0
    var previous: Character = " "
    var begin: String.Index?
    for index in function.indices {
      let character = function[index]
      switch character {
      case "(":
        let isBehindName = previous.isLetter || previous.isNumber || "_$>)".contains(previous)
        if depth == 0, isBehindName { begin = function.index(after: index) }
        depth += 1
      case "[", "{", "<": depth += 1
      case ")", "]", "}": depth -= 1
      // "->" is not a bracket.
      case ">" where previous != "-": depth -= 1
      default: break
      }
      // Names of operators, for example, can contain unbalanced brackets.
      guard depth >= 0 else { return nil }
      if depth == 0, let begin { return begin..<index }
      previous = character
    }
    return nil
  }

  /// Removes modules and outer types: "Swift.Array<Foundation.Data>" becomes "Array<Data>".
  private static func short(_ types: Substring) -> String { String(types.replacing(/\w+(?:\.|::)(?=[\w(])/, with: "")) }
}
