/// A labelled part of a report: what every form of it says in the same words, before it is laid out.
package struct ReportSection: Hashable, Sendable {
  /// What it is about: "CULPRIT".
  package var label: String
  /// Its paragraphs; one at least.
  package private(set) var paragraphs: [Paragraph]

  /// A text without line breaks.
  package struct Paragraph: Hashable, Sendable {
    /// The text.
    package var text: String
    /// Whether it is one of a list.
    package var isItem: Bool
  }

  /// A section labelled `label` of those of `texts` that are not empty; `nil` where all are.
  init?(_ label: String, _ texts: [String]) {
    self.label = label
    paragraphs = texts.filter { !$0.isEmpty }.map { Paragraph(text: $0, isItem: false) }
    if paragraphs.isEmpty { return nil }
  }

  /// Adds a list of `texts`.
  mutating func add(items texts: [String]) { paragraphs += texts.map { Paragraph(text: $0, isItem: true) } }

  /// Adds `text`, unless it is empty.
  mutating func add(_ text: String) {
    if !text.isEmpty { paragraphs.append(Paragraph(text: text, isItem: false)) }
  }
}
