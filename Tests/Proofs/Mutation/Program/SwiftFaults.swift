import SwiftOperators
import SwiftParser
import SwiftSyntax

/// Returns the possible faults of a Swift source.
///
/// - Parameters:
///   - file: The path from the root of the package.
///   - source: The text of the file.
/// - Returns: The faults, in no particular order.
func swiftFaults(in file: String, _ source: SourceText) -> [Fault] {
  let tree = Parser.parse(source: String(decoding: source.bytes, as: UTF8.self))
  // Expressions with custom operators cannot be folded. They stay lists, and get no faults.
  let folded = OperatorTable.standardOperators.foldAll(tree) { _ in }
  let finder = SwiftFinder(file, source)
  finder.walk(folded)
  return finder.faults
}

private final class SwiftFinder: SyntaxVisitor {
  private(set) var faults: [Fault] = []
  private let file: String
  private let source: SourceText

  init(_ file: String, _ source: SourceText) {
    self.file = file
    self.source = source
    super.init(viewMode: .sourceAccurate)
  }

  private func range(_ node: some SyntaxProtocol) -> Range<Int> {
    node.positionAfterSkippingLeadingTrivia.utf8Offset..<node.endPositionBeforeTrailingTrivia.utf8Offset
  }

  private func add(_ kind: Fault.Kind, _ form: Fault.Form, at range: Range<Int>) {
    faults.append(Fault(file: file, range: range, lines: source.lines(range), kind: kind, form: form))
  }

  /// Returns the text of `node` with `part` replaced by `other`, `nil` if it does not fit in a line.
  private func text(_ node: some SyntaxProtocol, _ part: some SyntaxProtocol, _ other: String) -> String? {
    let (all, middle) = (range(node), range(part))
    guard source.fitsOneLine(all) else { return nil }
    return oneLine(source[all.lowerBound..<middle.lowerBound] + other + source[middle.upperBound..<all.upperBound])
  }

  override func visit(_ node: InfixOperatorExprSyntax) -> SyntaxVisitorContinueKind {
    guard let symbol = node.operator.as(BinaryOperatorExprSyntax.self)?.operator else { return .visitChildren }
    if let (name, kind) = Operators.other(symbol.text), let other = text(node, symbol, name) {
      add(kind, .expression(other), at: range(node))
    }
    let bound = range(node.rightOperand)
    if symbol.text == "..<" || symbol.text == "...", source.fitsOneLine(bound) {
      let last = oneLine(source[bound])
      add(.bound, .expression(symbol.text == "..<" ? "(\(last)) + 1" : "(\(last)) - 1"), at: bound)
    }
    return .visitChildren
  }

  override func visit(_ node: PrefixOperatorExprSyntax) -> SyntaxVisitorContinueKind {
    if node.operator.text == "!" { add(.negation, .opposite, at: range(node)) }
    return .visitChildren
  }

  override func visit(_ node: ConditionElementSyntax) -> SyntaxVisitorContinueKind {
    if case .expression(let condition) = node.condition { negate(condition) }
    return .visitChildren
  }

  override func visit(_ node: WhereClauseSyntax) -> SyntaxVisitorContinueKind {
    negate(node.condition)
    return .visitChildren
  }

  override func visit(_ node: TernaryExprSyntax) -> SyntaxVisitorContinueKind {
    negate(node.condition)
    return .visitChildren
  }

  override func visit(_ node: RepeatStmtSyntax) -> SyntaxVisitorContinueKind {
    negate(node.condition)
    return .visitChildren
  }

  override func visit(_ node: BooleanLiteralExprSyntax) -> SyntaxVisitorContinueKind {
    add(.negation, .opposite, at: range(node))
    return .visitChildren
  }

  /// Adds a fault that inverts `condition`. Comparisons and negations are handled elsewhere.
  private func negate(_ condition: ExprSyntax) {
    if let infix = condition.as(InfixOperatorExprSyntax.self),
      let symbol = infix.operator.as(BinaryOperatorExprSyntax.self)?.operator.text,
      Operators.other(symbol)?.kind == .negation
    {
      return
    }
    if condition.is(PrefixOperatorExprSyntax.self) || condition.is(BooleanLiteralExprSyntax.self) { return }
    add(.negation, .opposite, at: range(condition))
  }

  override func visit(_ node: CodeBlockItemSyntax) -> SyntaxVisitorContinueKind {
    guard case .expr(let expression) = node.item, !isResult(node) else { return .visitChildren }
    let statement = range(expression)
    if let infix = bare(expression).as(InfixOperatorExprSyntax.self) {
      if let symbol = infix.operator.as(BinaryOperatorExprSyntax.self)?.operator {
        if let name = Operators.otherAssignment(symbol.text), let other = text(expression, symbol, name) {
          add(.sum, .statement(other), at: statement)
        }
        if symbol.text.hasSuffix("=") { add(.removal, .nothing, at: statement) }
      } else if infix.operator.is(AssignmentExprSyntax.self) {
        add(.removal, .nothing, at: statement)
      }
    } else if let call = bare(expression).as(FunctionCallExprSyntax.self), !isCheck(call) {
      add(.removal, .nothing, at: statement)
    }
    return .visitChildren
  }

  private func bare(_ expression: ExprSyntax) -> ExprSyntax {
    if let marked = expression.as(TryExprSyntax.self) { return bare(marked.expression) }
    if let marked = expression.as(AwaitExprSyntax.self) { return bare(marked.expression) }
    return expression
  }

  /// Whether `call` is an assertion.
  private func isCheck(_ call: FunctionCallExprSyntax) -> Bool {
    ["precondition", "preconditionFailure", "assert", "fatalError"].contains(call.calledExpression.trimmedDescription)
  }

  /// Whether `node` can be an implicit result: the single expression of a closure or of a function with a result.
  private func isResult(_ node: CodeBlockItemSyntax) -> Bool {
    guard let list = node.parent?.as(CodeBlockItemListSyntax.self), list.count == 1 else { return false }
    guard let owner = list.parent else { return false }
    if owner.is(ClosureExprSyntax.self) || owner.is(AccessorBlockSyntax.self) { return true }
    return owner.parent?.as(FunctionDeclSyntax.self)?.signature.returnClause != nil
  }

  /// Skips conditional code, which can belong to other platforms.
  override func visit(_ node: IfConfigDeclSyntax) -> SyntaxVisitorContinueKind { .skipChildren }
}
