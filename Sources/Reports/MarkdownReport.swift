extension StallReport {
  /// The report in Markdown (CommonMark), for an issue: a heading, the answer as a list, and the complete text in a code
  /// block.
  public var markdown: String {
    let words = ReportSections(self)
    let answer = [words.verdict, words.causes] + words.waitChains + [words.advice]
    let items = answer.compactMap { $0 }
      .map { section in
        let texts = section.paragraphs.prefix(Self.markdownParagraphs).map { Markdown.escaped($0.text) }
        return "- **\(Markdown.title(section.label)):** \(texts.joined(separator: "; "))\n"
      }
    let heading = words.heading?.paragraphs.first?.text ?? source.description
    return "### \(Markdown.escaped(heading))\n\n\(items.joined())\n\(Markdown.code(text(TextStyle())))"
  }

  /// Paragraphs of a section in the list. The code block has all.
  private static let markdownParagraphs = 3
}

private enum Markdown {
  /// Returns `text` without its characters' meaning in Markdown (CommonMark 0.31, "Backslash escapes"). An `@` or `#`
  /// would be a mention or a reference on most sites.
  static func escaped(_ text: String) -> String {
    var result = ""
    for character in text {
      if character == " ", result.last == " " { continue }
      if "\\`*_[]<>|~&".contains(character) { result.append("\\") }
      result.append(character)
      // An invisible joiner.
      if "@#".contains(character) { result.append("\u{2060}") }
    }
    return result
  }

  /// Returns the label of a section in lower case, except for its first letter.
  static func title(_ label: String) -> String { label.prefix(1) + label.dropFirst().lowercased() }

  /// Returns `text` as a code block. The fence is longer than each run of backquotes in the text.
  static func code(_ text: String) -> String {
    let longest = text.split { $0 != "`" }.map(\.count).max() ?? 0
    let fence = String(repeating: "`", count: max(3, longest + 1))
    return "\(fence)text\n\(text)\(fence)\n"
  }
}
