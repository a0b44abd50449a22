import CulpritStallRecord

/// The measures of a page of text.
struct Page {
  var style: StallReport.TextStyle
  var labelWidth: Int

  var textWidth: Int { style.width - labelWidth }
  var indent: String { String(repeating: " ", count: labelWidth) }

  /// The lines of `section`, with its label beside the first one.
  func lines(_ section: ReportSection) -> [String] {
    section.paragraphs.enumerated()
      .flatMap { number, paragraph in
        let wrapped = Formatting.wrapped(style.spelled(paragraph.text), textWidth - (paragraph.isItem ? 2 : 0))
        return wrapped.enumerated()
          .map { index, line in
            let head =
              number == 0 && index == 0
              ? section.label + String(repeating: " ", count: labelWidth - section.label.count) : indent
            return head + (paragraph.isItem ? index == 0 ? "- " : "  " : "") + line
          }
      }
  }
}
