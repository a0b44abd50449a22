import CulpritStallRecord

/// Columns of text, each as wide as its widest cell.
struct Table {
  /// How the cells of a column are put.
  enum Alignment {
    case left
    case right
  }

  private let alignments: [Alignment]
  private var rows: [[String]]

  /// A table with a head.
  init(_ columns: [(head: String, alignment: Alignment)]) {
    alignments = columns.map(\.alignment)
    rows = [columns.map(\.head)]
  }

  /// Adds a row of as many cells as there are columns.
  mutating func add(_ cells: [String]) { rows.append(cells.map { printable($0) }) }

  /// The lines of the table, the head first.
  var lines: [String] {
    let widths = alignments.indices.map { column in rows.lazy.map { $0[column].count }.max() ?? 0 }
    return rows.map { cells in
      let padded = cells.indices.map { column -> String in
        let blank = String(repeating: " ", count: widths[column] - cells[column].count)
        return alignments[column] == .left ? cells[column] + blank : blank + cells[column]
      }
      let line = padded.joined(separator: "  ")
      return String(line[..<(line.lastIndex { $0 != " " }.map(line.index(after:)) ?? line.startIndex)])
    }
  }
}

/// "1 stall", "12 stalls".
func counted(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }

/// The name of a function in a table: at most 60 characters of it.
func shortened(_ name: String) -> String { FunctionName.fitted(name, to: 60) }
