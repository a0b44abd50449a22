import CulpritStallRecord

/// The types of a function's parameters, which tell overloads apart: from the name with everything that the demangler prints.
struct ParameterTypes {
  /// What is in the brackets behind the name, each with its label where it has one, without modules and outer types.
  private let parameters: String
  /// What the function returns; empty where that is not told.
  private let result: String

  /// The types of the function that `frame` is in; `nil` where its name does not have them, or is that of several functions.
  init?(_ frame: ResolvedFrame) {
    guard !frame.isMerged, let full = frame.sourceFunction ?? frame.fullName,
      let function = FunctionName.split(full).last, let list = Self.list(in: function)
    else { return nil }
    parameters = Self.short(function[list])
    let rest = function[list.upperBound...]
    result = rest.firstRange(of: " -> ").map { Self.short(rest[$0.upperBound...]) } ?? ""
  }

  /// `name` with the types in the place of its labels: "encode(_:forKey:)" as "encode(_: Int, forKey: Key)", "find" as "find(int)".
  func added(to name: String, withResult: Bool = false) -> String {
    var parts = FunctionName.split(name)
    let last = parts.removeLast()
    let labels = last.hasSuffix(")") ? last.lastIndex(of: "(") ?? last.endIndex : last.endIndex
    let typed = "\(last[..<labels])(\(parameters))" + (withResult && !result.isEmpty ? " -> \(result)" : "")
    return FunctionName.fitted((parts + [typed]).joined(separator: " in "))
  }

  /// Where the parameters of `function` are: in the first brackets right behind a name, and not inside of others.
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
      // No bracket in "->".
      case ">" where previous != "-": depth -= 1
      default: break
      }
      // The name of an operator, for one.
      guard depth >= 0 else { return nil }
      if depth == 0, let begin { return begin..<index }
      previous = character
    }
    return nil
  }

  /// "Swift.Array<Foundation.Data>" as "Array<Data>", "std::string const&" as "string const&".
  private static func short(_ types: Substring) -> String { String(types.replacing(/\w+(?:\.|::)(?=[\w(])/, with: "")) }
}
