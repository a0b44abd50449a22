import CulpritReports
import CulpritStallRecord

/// Columns of text. In lines too narrow for all columns, the last columns continue below.
struct Table {
  enum Alignment {
    case left
    case right
  }

  private static let indent = 4

  private let style: StallReport.TextStyle
  private let alignments: [Alignment]
  private var rows: [[String]] = []

  init(_ columns: [(head: String, alignment: Alignment)], _ style: StallReport.TextStyle) {
    self.style = style
    alignments = columns.map(\.alignment)
    add(columns.map(\.head))
  }

  /// `cells` must have a cell for each column.
  mutating func add(_ cells: [String]) {
    rows.append(cells.map { style.isASCII ? printable($0).inASCII : printable($0) })
  }

  var lines: [[String]] {
    let room = style.width - Self.indent
    let widths = alignments.indices.map { column in min(rows.lazy.map { $0[column].count }.max() ?? 0, room) }
    let groups = groups(widths)
    return rows.enumerated()
      .map { row in
        groups.enumerated()
          .compactMap { group -> String? in
            let padded = group.element.map { column -> String in
              let cell = style.fitted(row.element[column], to: room)
              let blank = String(repeating: " ", count: max(0, widths[column] - cell.count))
              return alignments[column] == .left ? cell + blank : blank + cell
            }
            let margin = group.offset == 0 ? "" : String(repeating: " ", count: Self.indent)
            let line = margin + padded.joined(separator: "  ")
            guard let last = line.lastIndex(where: { $0 != " " }) else { return nil }
            return row.offset == 0 ? Emphasis.strong.on(String(line[...last]), style) : String(line[...last])
          }
      }
  }

  private func groups(_ widths: [Int]) -> [[Int]] {
    var groups: [[Int]] = [[]]
    var used = 0
    for column in alignments.indices {
      let isFirst = groups[groups.count - 1].isEmpty
      if !isFirst, used + 2 + widths[column] > style.width {
        groups.append([column])
        used = Self.indent + widths[column]
      } else {
        groups[groups.count - 1].append(column)
        used += (isFirst ? 0 : 2) + widths[column]
      }
    }
    return groups
  }
}

/// As in "12 stalls".
func counted(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }

func shortened(_ name: String) -> String { FunctionName.fitted(name, to: 60) }

extension StallReport.TextStyle {
  /// Indents continuation lines by the text's margin, or without a margin by `indent` spaces.
  func lines(_ text: String, indent: Int = 4) -> [String] {
    let text = isASCII ? text.inASCII : text
    guard text.count > width else { return [text] }
    let margin = String(text.prefix { $0 == " " })
    let below = margin.isEmpty ? String(repeating: " ", count: indent) : margin
    return divided(text, width - below.count).enumerated().map { ($0.offset == 0 ? margin : below) + $0.element }
  }
}
