import CulpritStallRecord

struct Page {
  var style: StallReport.TextStyle
  var labelWidth: Int

  var textWidth: Int { style.width - labelWidth }
  var indent: String { String(repeating: " ", count: labelWidth) }

  private static let answers: Set<String> = ["CULPRIT", "DEADLOCK"]

  func lines(_ section: ReportSection) -> [String] {
    let isAnswer = Self.answers.contains(section.label)
    return section.paragraphs.enumerated()
      .flatMap { number, paragraph in
        let wrapped = Formatting.wrapped(style.spelled(paragraph.text), textWidth - (paragraph.isItem ? 2 : 0))
        return wrapped.enumerated()
          .map { index, line in
            let text = (paragraph.isItem ? index == 0 ? "- " : "  " : "") + line
            guard number == 0 else { return indent + text }
            let label = section.label + String(repeating: " ", count: labelWidth - section.label.count)
            guard isAnswer else { return (index == 0 ? Emphasis.strong.on(label, style) : indent) + text }
            return index == 0 ? Emphasis.strong.on(label + text, style) : indent + Emphasis.strong.on(text, style)
          }
      }
  }
}
