/// A fault that can be switched on: a range in a source file, and its replacement.
struct Fault: Sendable {
  enum Kind: String, Sendable {
    /// A comparison or range includes its bound instead of excluding it, or the reverse.
    case bound
    /// A condition is inverted.
    case negation
    /// A sum becomes a difference, or the reverse.
    case sum
    /// "And" becomes "or", or the reverse.
    case connective
    /// A statement is removed.
    case removal
  }

  /// The kind of replacement.
  enum Form: Hashable, Sendable {
    case expression(String)
    /// The inverse of a truth value.
    case opposite
    case statement(String)
    /// A statement is removed.
    case nothing
  }

  /// The file's path from the root of the package.
  var file: String
  /// The range in bytes of UTF-8.
  var range: Range<Int>
  /// The line numbers, from 1.
  var lines: ClosedRange<Int>
  var kind: Kind
  /// The replacement while the fault is on.
  var form: Form

  /// Whether the file is in C, where a truth value can be any number.
  private var isC: Bool { file.hasSuffix(".c") }

  /// Returns the code with a switch for the fault `number`. `text` is the original code.
  ///
  /// The result has as many lines as `text`, which keeps line numbers in the compiler's messages valid.
  func switched(_ text: String, number: Int) -> String {
    let isOn = "fault_is_on(\(number))"
    return switch form {
    case .expression(let other): "(\(isOn) ? (\(other)) : (\(text)))"
    case .opposite: isC ? "(\(isOn) != !!(\(text)))" : "(\(isOn) != (\(text)))"
    case .statement(let other): "if (\(isOn)) { \(other) } else { \(text) }"
    case .nothing: "if (!\(isOn)) { \(text) }"
    }
  }

  func description(_ text: String) -> String {
    let text = oneLine(text)
    return switch form {
    case .expression(let other), .statement(let other): "\(text)  →  \(oneLine(other))"
    case .opposite: "not: \(text)"
    case .nothing: "removed: \(text)"
    }
  }
}

func oneLine(_ text: String) -> String {
  text.split(whereSeparator: \.isNewline).map { $0.drop { $0 == " " } }.joined(separator: " ")
}

/// The text of a file with access by bytes and by lines.
struct SourceText {
  let bytes: [UInt8]
  private let lineStarts: [Int]

  init(_ text: String) {
    let bytes = Array(text.utf8)
    self.bytes = bytes
    lineStarts = [0] + bytes.indices.filter { bytes[$0] == UInt8(ascii: "\n") }.map { $0 + 1 }
  }

  subscript(range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

  /// The line numbers of `range`, from 1.
  func lines(_ range: Range<Int>) -> ClosedRange<Int> { line(range.lowerBound)...line(range.upperBound - 1) }

  private func line(_ offset: Int) -> Int {
    var low = 0
    var high = lineStarts.count
    while high - low > 1 {
      let middle = (low + high) / 2
      if lineStarts[middle] <= offset { low = middle } else { high = middle }
    }
    return low + 1
  }

  /// Whether the text at `range` fits in one line: it contains no comment and no multi-line string.
  func fitsOneLine(_ range: Range<Int>) -> Bool {
    let text = self[range]
    return !text.contains("//") && !text.contains("/*") && !text.contains("\"\"\"")
  }
}

/// Replacements of operators, in both languages.
enum Operators {
  /// The replacement of a binary operator, and the kind of fault.
  static func other(_ name: String) -> (name: String, kind: Fault.Kind)? {
    switch name {
    case "<": ("<=", .bound)
    case "<=": ("<", .bound)
    case ">": (">=", .bound)
    case ">=": (">", .bound)
    case "==": ("!=", .negation)
    case "!=": ("==", .negation)
    case "===": ("!==", .negation)
    case "!==": ("===", .negation)
    case "+": ("-", .sum)
    case "-": ("+", .sum)
    case "&+": ("&-", .sum)
    case "&-": ("&+", .sum)
    case "&&": ("||", .connective)
    case "||": ("&&", .connective)
    default: nil
    }
  }

  /// The replacement of an operator that assigns to its left side.
  static func otherAssignment(_ name: String) -> String? {
    switch name {
    case "+=": "-="
    case "-=": "+="
    case "&+=": "&-="
    case "&-=": "&+="
    default: nil
    }
  }
}
