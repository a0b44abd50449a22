import CulpritStallRecord

package struct LastStacksText: Sendable {
  private let stacks: [StallReport.TimedStack]

  package init(_ stacks: [StallReport.TimedStack]) { self.stacks = stacks }

  package func text(width: Int = 100) -> String {
    var lines = ["LAST      \(Formatting.count(stacks.count, "stack"))"]
    var index = 0
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
      for (number, function) in functions.enumerated() {
        let head = "          " + Formatting.right("#\(number)", 4) + " "
        lines.append(head + Formatting.fitted(Formatting.placed(function, gap: "  "), width - head.count))
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }
}
