import CulpritStallRecord

extension StallReport {
  /// The style of a report's text.
  public struct TextStyle: Hashable, Sendable {
    /// The line width in characters, at least 40; by default 100.
    public var width: Int
    /// Whether to include all details: all functions of the tree and of the last stack, and sections beyond the answer.
    /// By default, no.
    public var isFull: Bool
    /// Whether to include advice about all relevant causes; by default, no.
    public var explains: Bool
    /// Whether to use only ASCII; by default, no. Escapes other characters in names as in `\u{e9}`.
    public var isASCII: Bool
    /// Whether to emphasize the answer and application code with terminal colors; by default, no.
    public var hasColor: Bool

    /// Creates a style. The default is suitable for logs.
    public init(
      width: Int = 100,
      isFull: Bool = false,
      explains: Bool = false,
      isASCII: Bool = false,
      hasColor: Bool = false
    ) {
      self.width = width
      self.isFull = isFull
      self.explains = explains
      self.isASCII = isASCII
      self.hasColor = hasColor
    }

    /// Returns `text` in the style's character set. Must be called before layout.
    func spelled(_ text: String) -> String { isASCII ? text.inASCII : text }

    package func fitted(_ text: String, to width: Int) -> String {
      FunctionName.withoutMiddle(spelled(text), width, gap: spelled("…"))
    }
  }
}

/// Emphasis on a terminal (ECMA-48, "select graphic rendition").
package enum Emphasis: String, Sendable {
  case strong = "1"
  case weak = "2"
  case own = "36"

  package func on(_ text: String, _ style: StallReport.TextStyle) -> String {
    style.hasColor && !text.isEmpty ? "\u{1b}[\(rawValue)m\(text)\u{1b}[0m" : text
  }
}

extension String {
  /// The text, converted to ASCII.
  package var inASCII: String {
    guard !utf8.allSatisfy({ $0 < 0x80 }) else { return self }
    var result = ""
    for scalar in unicodeScalars {
      switch scalar {
      case "…": result += "..."
      case "–", "−": result += "-"
      case "→": result += "->"
      case "µ": result += "u"
      case "×": result += "x"
      case "█", "▉", "▊", "▋", "▌": result += "#"
      case "▍", "▎", "▏": result += " "
      case _ where scalar.isASCII: result.unicodeScalars.append(scalar)
      default: result += "\\u{\(String(scalar.value, radix: 16))}"
      }
    }
    return result
  }
}
