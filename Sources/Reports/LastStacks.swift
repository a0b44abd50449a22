import CulpritStallRecord

package struct LastStacksText: Sendable {
  private let stacks: [StallReport.TimedStack]
  /// Fewest shared callers that one line replaces.
  private static let foldedMin = 3

  package init(_ stacks: [StallReport.TimedStack]) { self.stacks = stacks }

  package func text(width: Int = 100) -> String {
    var lines = ["LAST      \(Formatting.count(stacks.count, "stack"))"]
    var index = 0
    var above: [StallReport.Function] = []
    while index < stacks.count {
      var times = [Formatting.duration(stacks[index].age)]
      let functions = stacks[index].functions
      while index + 1 < stacks.count, stacks[index + 1].functions == functions {
        index += 1
        times.append(Formatting.duration(stacks[index].age))
      }
      index += 1
      let heading = "after " + times.joined(separator: ", ") + (functions.isEmpty ? ": no stack" : "")
      lines += Formatting.wrapped(heading, width - 10).map { "          " + $0 }
      let shared = zip(functions.reversed(), above.reversed()).prefix { $0 == $1 }.count
      let own = functions.prefix(shared < Self.foldedMin ? functions.count : functions.count - shared)
      above = functions
      for (number, function) in own.enumerated() {
        let head = "          " + Formatting.right("#\(number)", 4) + " "
        lines.append(head + FunctionName.withoutMiddle(Formatting.placed(function, gap: "  "), width - head.count))
      }
      if own.count < functions.count { lines.append("               the same \(shared) frames as above") }
    }
    return lines.joined(separator: "\n") + "\n"
  }
}
