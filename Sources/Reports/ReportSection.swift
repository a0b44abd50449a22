/// A labelled section of a report, before layout.
package struct ReportSection: Hashable, Sendable {
  package var label: String
  package private(set) var paragraphs: [Paragraph]

  package struct Paragraph: Hashable, Sendable {
    package var text: String
    package var isItem: Bool
  }

  /// The label for headings with lowercase letters.
  package var title: String { label == "CPU" ? label : label.prefix(1) + label.dropFirst().lowercased() }

  init?(_ label: String, _ texts: [String]) {
    self.label = label
    paragraphs = texts.filter { !$0.isEmpty }.map { Paragraph(text: $0, isItem: false) }
    if paragraphs.isEmpty { return nil }
  }

  mutating func add(items texts: [String]) { paragraphs += texts.map { Paragraph(text: $0, isItem: true) } }

  mutating func add(_ text: String) {
    if !text.isEmpty { paragraphs.append(Paragraph(text: text, isItem: false)) }
  }
}
