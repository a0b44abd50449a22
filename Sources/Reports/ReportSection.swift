/// A labelled section of a report, before layout. All output formats share its text.
package struct ReportSection: Hashable, Sendable {
  /// The label, such as "CULPRIT".
  package var label: String
  /// The paragraphs; at least one.
  package private(set) var paragraphs: [Paragraph]

  /// A text without line breaks.
  package struct Paragraph: Hashable, Sendable {
    /// The text.
    package var text: String
    /// Whether the paragraph is a list item.
    package var isItem: Bool
  }

  /// Creates a section with the nonempty texts of `texts`; `nil` if all are empty.
  init?(_ label: String, _ texts: [String]) {
    self.label = label
    paragraphs = texts.filter { !$0.isEmpty }.map { Paragraph(text: $0, isItem: false) }
    if paragraphs.isEmpty { return nil }
  }

  /// Adds list items.
  mutating func add(items texts: [String]) { paragraphs += texts.map { Paragraph(text: $0, isItem: true) } }

  /// Adds `text` unless it is empty.
  mutating func add(_ text: String) {
    if !text.isEmpty { paragraphs.append(Paragraph(text: text, isItem: false)) }
  }
}
