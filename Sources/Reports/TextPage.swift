import CulpritStallRecord

/// The measures of a page of text.
struct Page {
  var width: Int
  var labelWidth: Int

  var textWidth: Int { width - labelWidth }
  var indent: String { String(repeating: " ", count: labelWidth) }

  /// A labelled paragraph.
  func section(_ label: String, _ text: String) -> [String] {
    Formatting.wrapped(text, textWidth).enumerated()
      .map { index, line in
        (index == 0 ? label + String(repeating: " ", count: labelWidth - label.count) : indent) + line
      }
  }

  /// An item of a list below a labelled paragraph.
  func item(_ text: String) -> [String] {
    Formatting.wrapped(text, textWidth - 2).enumerated().map { index, line in indent + (index == 0 ? "- " : "  ") + line
    }
  }

  /// A paragraph below a labelled one; nothing for an empty text.
  func continuation(_ text: String) -> [String] { Formatting.wrapped(text, textWidth).map { indent + $0 } }
}
