import Foundation

/// Returns the possible faults of a C source, found in the syntax tree that clang prints.
///
/// - Parameters:
///   - file: The path from the root of the package.
///   - source: The text of the file.
///   - root: The root of the package.
/// - Returns: The faults, in no particular order.
/// - Throws: ``MutationError`` if clang cannot parse the file.
func cFaults(in file: String, _ source: SourceText, root: String) throws -> [Fault] {
  let includes = ["CSupport", "Sources"].flatMap { base -> [String] in
    let folders = (try? FileManager.default.contentsOfDirectory(atPath: "\(root)/\(base)")) ?? []
    return folders.sorted().flatMap { ["-I\(base)/\($0)", "-I\(base)/\($0)/include"] }
  }
  let arguments = ["clang", "-std=gnu11", "-fsyntax-only", "-Xclang", "-ast-dump=json"] + includes + [file]
  let (status, output) = try run(arguments, in: root)
  guard status == 0, let tree = try JSONSerialization.jsonObject(with: output) as? [String: Any] else {
    throw MutationError("clang cannot read \(file): status \(status)")
  }
  var finder = CFinder(file: file, source: source)
  finder.visit(tree, isStatement: false)
  return finder.faults
}

private struct CFinder {
  let file: String
  let source: SourceText
  var faults: [Fault] = []
  /// The file of the current location: clang prints a file name only when it changes.
  private var current = ""
  private var isInFunction = false

  init(file: String, source: SourceText) {
    self.file = file
    self.source = source
  }

  /// Returns the offsets of `location` in the source, `nil` if it is in another file or in a macro.
  private mutating func offset(_ location: Any?) -> (start: Int, end: Int)? {
    guard let location = location as? [String: Any] else { return nil }
    if let spelling = location["spellingLoc"] {
      _ = offset(spelling)
      _ = offset(location["expansionLoc"])
      return nil
    }
    if let name = location["file"] as? String { current = name }
    guard current == file, let start = location["offset"] as? Int, let length = location["tokLen"] as? Int
    else { return nil }
    return (start, start + length)
  }

  /// Visits `node` and its descendants in the order of clang's output.
  mutating func visit(_ node: [String: Any], isStatement: Bool) {
    _ = offset(node["loc"])
    let limits = node["range"] as? [String: Any]
    let begin = offset(limits?["begin"])
    let end = offset(limits?["end"])
    let kind = node["kind"] as? String ?? ""
    let children = (node["inner"] as? [Any] ?? []).map { $0 as? [String: Any] ?? [:] }
    let outer = isInFunction
    if kind == "FunctionDecl" { isInFunction = true }
    defer { isInFunction = outer }
    for child in children { visit(child, isStatement: kind == "CompoundStmt") }
    guard isInFunction, let begin, let end, begin.start < end.end else { return }
    addFaults(at: begin.start..<end.end, kind, node, children.map(range), isStatement)
  }

  private func range(_ child: [String: Any]) -> Range<Int>? {
    guard let limits = child["range"] as? [String: Any], let begin = limits["begin"] as? [String: Any],
      let end = limits["end"] as? [String: Any], let start = begin["offset"] as? Int, let last = end["offset"] as? Int,
      let length = end["tokLen"] as? Int, start < last + length
    else { return nil }
    return start..<last + length
  }

  private mutating func addFaults(
    at range: Range<Int>,
    _ kind: String,
    _ node: [String: Any],
    _ children: [Range<Int>?],
    _ isStatement: Bool
  ) {
    let symbol = node["opcode"] as? String ?? ""
    switch kind {
    case "BinaryOperator":
      if let (name, kind) = Operators.other(symbol), let other = text(range, children, symbol, name) {
        add(kind, .expression(other), at: range)
      }
      if symbol == "=", isStatement { remove(range) }
    case "CompoundAssignOperator":
      if let name = Operators.otherAssignment(symbol), let other = text(range, children, symbol, name) {
        add(.sum, .expression(other), at: range)
      }
      if isStatement { remove(range) }
    case "UnaryOperator":
      if symbol == "!" { add(.negation, .opposite, at: range) }
      if isStatement { remove(range) }
    case "CallExpr":
      if isStatement { remove(range) }
    case "IfStmt", "WhileStmt", "ConditionalOperator":
      // The condition comes first. Comparisons and negations are handled elsewhere.
      guard let first = (node["inner"] as? [[String: Any]])?.first, let condition = children.first ?? nil else {
        return
      }
      let name = first["opcode"] as? String ?? ""
      if Operators.other(name)?.kind != .negation, name != "!" { add(.negation, .opposite, at: condition) }
    default: break
    }
  }

  /// Returns the text at `range` with the operator `other` between its two `parts`.
  private func text(_ range: Range<Int>, _ parts: [Range<Int>?], _ symbol: String, _ other: String) -> String? {
    guard parts.count == 2, let left = parts[0], let right = parts[1], left.upperBound < right.lowerBound,
      source.fitsOneLine(range)
    else { return nil }
    let middle = source[left.upperBound..<right.lowerBound]
    let between = middle.split(separator: symbol, maxSplits: 1, omittingEmptySubsequences: false)
    guard between.count == 2 else { return nil }
    let before = source[range.lowerBound..<left.upperBound] + between[0]
    return oneLine(before + other + between[1] + source[right.lowerBound..<range.upperBound])
  }

  /// Adds a fault that removes the statement at `range`, with its semicolon.
  private mutating func remove(_ range: Range<Int>) {
    guard let next = source.bytes[range.upperBound...].firstIndex(where: { ![32, 10].contains($0) }),
      source.bytes[next] == UInt8(ascii: ";")
    else { return }
    add(.removal, .nothing, at: range.lowerBound..<next + 1)
  }

  private mutating func add(_ kind: Fault.Kind, _ form: Fault.Form, at range: Range<Int>) {
    faults.append(Fault(file: file, range: range, lines: source.lines(range), kind: kind, form: form))
  }
}
