extension StallReport {
  /// How a report is written as text.
  public struct TextStyle: Hashable, Sendable {
    /// The length of a line in characters, at least 40; default: 100.
    public var width: Int
    /// Whether all that is known is written: every function of the tree and of the last stack, and everything that a reader of the
    /// answer does not need; default: no.
    public var isFull: Bool
    /// Whether it is told what to do about the causes, in two or three sentences each instead of one for the first; default: no.
    public var explains: Bool
    /// Whether only characters of ASCII are used, for a terminal or a log that has no others; default: no. What names have of others
    /// is written as `\u{e9}`.
    public var isASCII: Bool
    /// Whether a terminal is told to set off the answer and own code by weight and colour; default: no.
    public var hasColor: Bool

    /// A style; by default that of a log.
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

    /// `text` in the characters that are used: spelled before it is laid out, because it may be longer then.
    func spelled(_ text: String) -> String { isASCII ? text.inASCII : text }

    /// `text` in the characters that are used, cut to `width` of them: the middle is left out.
    package func fitted(_ text: String, to width: Int) -> String {
      Formatting.fitted(spelled(text), width, gap: spelled("…"))
    }
  }
}

/// How a line is set off on a terminal (ECMA-48, "select graphic rendition").
package enum Emphasis: String, Sendable {
  /// What matters most.
  case strong = "1"
  /// What matters less.
  case weak = "2"
  /// Own code.
  case own = "36"

  /// `text`, set off where `style` says so.
  package func on(_ text: String, _ style: StallReport.TextStyle) -> String {
    style.hasColor && !text.isEmpty ? "\u{1b}[\(rawValue)m\(text)\u{1b}[0m" : text
  }
}

extension String {
  /// The text in ASCII. What reports use of other characters is written with as many of it, but for arrows.
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
