extension StallReport {
  /// The report in CommonMark, for an issue.
  public var markdown: String {
    let words = ReportSections(self)
    let answer = [words.verdict, words.causes] + words.waitChains + [words.advice]
    let items = answer.compactMap { $0 }
      .map { section in
        let texts = section.paragraphs.prefix(Self.markdownParagraphs).map { Markdown.escaped($0.text) }
        return "- **\(section.title):** \(texts.joined(separator: "; "))\n"
      }
    let heading = words.heading?.paragraphs.first?.text ?? source.description
    return "### \(Markdown.escaped(heading))\n\n\(items.joined())\n\(Markdown.code(text(TextStyle())))"
  }

  private static let markdownParagraphs = 3
}

private enum Markdown {
  /// Escapes `text` (CommonMark 0.31, "Backslash escapes"), including `@` and `#`, which most sites interpret as
  /// references.
  static func escaped(_ text: String) -> String {
    var result = ""
    for character in text {
      if character == " ", result.last == " " { continue }
      if "\\`*_[]<>|~&".contains(character) { result.append("\\") }
      result.append(character)
      // Inserts an invisible joiner.
      if "@#".contains(character) { result.append("\u{2060}") }
    }
    return result
  }

  /// Returns a code block with a fence longer than each run of backquotes in the text.
  static func code(_ text: String) -> String {
    let longest = text.split { $0 != "`" }.map(\.count).max() ?? 0
    let fence = String(repeating: "`", count: max(3, longest + 1))
    return "\(fence)text\n\(text)\(fence)\n"
  }
}
