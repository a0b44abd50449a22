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

/// Writes a call tree, a line for each function.
struct TreeWriter {
  /// Branches with a smaller share are summed up in a line.
  private static let smallestBranch = 0.01
  /// Deeper branches are not indented any further.
  private var deepestIndent: Int { width / 5 }

  let width: Int
  var lines: [String] = []

  /// No bar where the line is too short for it.
  private var barWidth: Int { width >= 100 ? 12 : width >= 60 ? 8 : 0 }

  mutating func write(_ nodes: [StallReport.Node], depth: Int, isBranch: Bool = true) {
    let shown = nodes.filter { $0.share >= Self.smallestBranch }
    for node in shown {
      let head = figures(share: Formatting.percent(node.share), time: node.time, bar: node.share)
      let margin = indent(depth) + (isBranch ? "- " : "  ") + (node.function.isOwn ? "*" : " ")
      let room = width - head.count - margin.count
      let times = node.repetitions > 1 ? " (×\(node.repetitions))" : ""
      let name = node.function.displayName + times
      let both = name + "  " + Formatting.origin(node.function)
      lines.append(head + margin + Formatting.fitted(both.count <= room ? both : name, room))
      // A chain of single callees keeps its column, so that deep stacks stay readable.
      let isChain = node.children.count == 1 && node.selfTime == .zero
      write(node.children, depth: isChain ? depth : depth + 1, isBranch: !isChain)
    }
    let small = nodes.count - shown.count
    guard small > 0 else { return }
    let time = nodes.dropFirst(shown.count).reduce(Duration.zero) { $0 + $1.time }
    lines.append(
      figures(share: "", time: time, bar: 0) + indent(depth)
        + "-  \(small) \(small == 1 ? "branch" : "branches") below 1 %"
    )
  }

  private func figures(share: String, time: Duration, bar: Double) -> String {
    Formatting.right(share, 6) + " " + Formatting.right(Formatting.duration(time), 7) + " "
      + (barWidth > 0 ? Formatting.bar(bar, width: barWidth) + " " : "")
  }

  private func indent(_ depth: Int) -> String { String(repeating: " ", count: min(depth, deepestIndent)) }
}
