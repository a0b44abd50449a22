extension OptionTable {
  /// Returns the lines of `--help`, broken only between words.
  package func help(width: Int = 100) -> String {
    let heads = usage.enumerated().map { ($0.offset == 0 ? "Usage: " : "   or: ") + $0.element }
    var blocks = [
      heads.flatMap { wrapped($0, width, hanging: 11, from: 7) } + wrapped(summary, width),
      ["Options:"] + optionLines(width),
    ]
    if !epilogue.isEmpty { blocks.append(paragraphs(epilogue, width)) }
    if !examples.isEmpty {
      let head = examples.split(separator: "\n").filter { $0.hasPrefix("$ ") }.count == 1 ? "Example:" : "Examples:"
      blocks.append([head] + examples.split(separator: "\n", omittingEmptySubsequences: false).map(indented))
    }
    if !exitStatus.isEmpty { blocks.append(wrapped("Exit status: \(exitStatus).", width)) }
    return blocks.map { $0.joined(separator: "\n") }.joined(separator: "\n\n") + "\n"
  }

  private func indented(_ line: Substring) -> String { line.isEmpty ? "" : "  \(line)" }

  /// Returns the option list. Narrow layouts place descriptions below the options.
  private func optionLines(_ width: Int) -> [String] {
    let columns = options.map { option -> String in
      let letter = option.letter.map { "-\($0), " } ?? "    "
      return "  \(letter)--\(option.name)" + (option.argument.map { "=\($0)" } ?? "")
    }
    let column = (columns.map(\.count).max() ?? 0) + 3
    return zip(columns, options).flatMap { head, option -> [String] in
      guard width - column >= 30 else { return [head] + wrapped(option.help, width - 8).map { "        \($0)" } }
      return wrapped(option.help, width - column).enumerated()
        .map { ($0.offset == 0 ? padded(head, column) : padded("", column)) + $0.element }
    }
  }

  /// Wraps text in the format of ``epilogue``.
  private func paragraphs(_ text: String, _ width: Int) -> [String] {
    var lines: [String] = []
    var paragraph: [Substring] = []
    func end() {
      lines += wrapped(paragraph.joined(separator: " "), width)
      paragraph = []
    }
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      if !line.isEmpty, !line.hasPrefix(" ") {
        paragraph.append(line)
        // A line that ends with a colon is a list's heading, a separate paragraph.
        if line.hasSuffix(":") { end() }
        continue
      }
      end()
      if let entry = line.wholeMatch(of: /( +\S+(?: \S+)* {2,})(\S.*)/), width - entry.1.count >= 20 {
        lines += wrapped(String(line), width, hanging: entry.1.count, from: entry.1.count)
      } else {
        lines.append(String(line))
      }
    }
    end()
    return lines
  }
}

/// Wraps `text` at spaces. A word that exceeds the width gets its own line. `hanging` indents all lines except the
/// first. The first `start` characters are never broken.
func wrapped(_ text: String, _ width: Int, hanging: Int = 0, from start: Int = 0) -> [String] {
  var lines: [String] = []
  var line = String(text.prefix(start))
  var isFresh = true
  for word in text.dropFirst(start).split(separator: " ") {
    if !isFresh, line.count + 1 + word.count > width {
      lines.append(line)
      line = padded("", hanging)
      isFresh = true
    }
    line += (isFresh ? "" : " ") + word
    isFresh = false
  }
  return isFresh && start == 0 ? lines : lines + [line]
}

func padded(_ text: String, _ width: Int) -> String {
  text + String(repeating: " ", count: max(0, width - text.count))
}
