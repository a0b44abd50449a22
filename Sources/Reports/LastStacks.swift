import CulpritStallRecord

/// A stack, and how old the work was when it was taken.
package struct TimedStack: Hashable, Sendable {
  /// The age of the work.
  package var age: Duration
  /// The functions, the innermost first; none when there is no stack.
  package var frames: [ResolvedFrame]
}

extension Recording {
  /// The last stacks of `stall`.
  ///
  /// - Parameters:
  ///   - stall: One of this recording's.
  ///   - count: How many at most.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
  /// - Returns: The stacks in order of time.
  package func lastStacks(of stall: Stall, count: Int = 10, resolve: (StackFrame) -> [ResolvedFrame]) -> [TimedStack] {
    stall.samples.suffix(count)
      .map { sample in
        let frames = sample.stack.map { stacks[$0].frames } ?? []
        return TimedStack(age: sample.age, frames: frames.flatMap(resolve).namingMergedFunctions())
      }
  }
}

/// The last stacks of a stall as text. Stacks that follow each other and are the same are told once.
package struct LastStacksText: Sendable {
  private let stacks: [TimedStack]
  private let names: FunctionNames

  /// The text of `stacks`, which are in order of time.
  package init(_ stacks: [TimedStack]) {
    self.stacks = stacks
    names = FunctionNames(stacks.flatMap(\.frames))
  }

  /// The text in lines of at most `width` characters.
  package func text(width: Int = 100) -> String {
    var lines = ["LAST      \(Formatting.count(stacks.count, "stack"))"]
    var index = 0
    while index < stacks.count {
      var times = [Formatting.duration(stacks[index].age)]
      let frames = stacks[index].frames
      while index + 1 < stacks.count, stacks[index + 1].frames == frames {
        index += 1
        times.append(Formatting.duration(stacks[index].age))
      }
      index += 1
      let heading = "after " + times.joined(separator: ", ") + (frames.isEmpty ? ": no stack" : "")
      lines += Formatting.wrapped(heading, width - 10).map { "          " + $0 }
      for (number, frame) in frames.enumerated() {
        let head = "          " + Formatting.right("#\(number)", 4) + " "
        let text = "\(names.name(frame))  (\(Formatting.origin(frame)))"
        lines.append(head + Formatting.fitted(text, width - head.count))
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }
}
