/// One option of a command.
package struct CommandOption: Sendable {
  /// The name after two dashes.
  package var name: String
  /// The letter after one dash.
  package var letter: Character?
  /// What the argument is called in the help; `nil` for an option without one.
  package var argument: String?
  /// What the option does.
  package var help: String

  /// An option `--name`.
  package init(_ name: String, letter: Character? = nil, argument: String? = nil, help: String) {
    self.name = name
    self.letter = letter
    self.argument = argument
    self.help = help
  }
}

/// A mistake in the way a command was called.
package struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What is wrong, in a sentence without its end.
  package var description: String

  /// A mistake that `description` tells of.
  package init(_ description: String) { self.description = description }
}

/// A command's options, as a table: it parses the command line and writes the help.
///
/// Follows the GNU conventions (POSIX Utility Conventions, getopt_long(3)): options and operands in any order, `--` ends
/// the options, `-ab` is `-a -b`, `-w80` and `-w 80`, `--width=80` and `--width 80`, and a long name may be cut as long as
/// it stays unambiguous.
package struct OptionTable: Sendable {
  /// How the command is called: its name and what follows, for the help's first line.
  package var usage: [String]
  /// What the command does.
  package var summary: String
  /// Its options, in the order in which the help lists them. `--help` is among them by itself.
  package var options: [CommandOption]
  /// Examples and whatever else the help ends with.
  package var epilogue: String

  /// A table for a command.
  package init(usage: [String], summary: String, options: [CommandOption], epilogue: String) {
    self.usage = usage
    self.summary = summary
    self.options = options + [CommandOption("help", letter: "h", help: "print this help and exit")]
    self.epilogue = epilogue
  }

  /// What a command line said.
  package struct Arguments: Sendable {
    /// What is not an option.
    package var operands: [String] = []
    private var values: [String: [String]] = [:]

    /// Whether the option was given.
    package func has(_ name: String) -> Bool { values[name] != nil }

    /// The option's argument, the last one if it was given several times.
    package func value(_ name: String) -> String? { values[name]?.last }

    /// The option's arguments, in the order in which they were given.
    package func values(_ name: String) -> [String] { values[name] ?? [] }

    /// The option's argument as a whole number.
    ///
    /// - Throws: ``UsageError`` when it is not a number in `range`.
    package func number(_ name: String, in range: ClosedRange<Int>) throws(UsageError) -> Int? {
      guard let text = value(name) else { return nil }
      guard let number = Int(text), range.contains(number) else {
        throw UsageError(
          "--\(name) takes a whole number from \(range.lowerBound) to \(range.upperBound), not \"\(text)\""
        )
      }
      return number
    }

    fileprivate mutating func add(_ option: CommandOption, _ value: String) {
      values[option.name, default: []].append(value)
    }
  }

  /// Takes `arguments`, without the command's own name, apart.
  ///
  /// - Throws: ``UsageError`` for an option that the table lacks, an argument that is missing or not wanted.
  package func parse(_ arguments: some Sequence<String>) throws(UsageError) -> Arguments {
    var parsed = Arguments()
    var rest = Array(arguments)[...]
    while let word = rest.popFirst() {
      if word == "--" {
        parsed.operands += rest
        break
      }
      if word.hasPrefix("--") {
        try parseLong(word.dropFirst(2), &rest, &parsed)
      } else if word.hasPrefix("-"), word != "-" {
        try parseLetters(word.dropFirst(), &rest, &parsed)
      } else {
        parsed.operands.append(word)
      }
    }
    return parsed
  }

  private func parseLong(
    _ text: Substring,
    _ rest: inout ArraySlice<String>,
    _ parsed: inout Arguments
  ) throws(UsageError) {
    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    let name = parts.first ?? ""
    let matches = options.filter { $0.name == name }
    let candidates = matches.isEmpty ? options.filter { $0.name.hasPrefix(name) } : matches
    guard let option = candidates.first, candidates.count == 1 else {
      let names = candidates.map { "--\($0.name)" }.joined(separator: ", ")
      throw UsageError(candidates.isEmpty ? "there is no option --\(name)" : "--\(name) may be any of \(names)")
    }
    let attached = parts.count == 2 ? String(parts[1]) : nil
    guard let argument = option.argument else {
      if let attached { throw UsageError("--\(option.name) takes no argument, but \"\(attached)\" was given") }
      parsed.add(option, "")
      return
    }
    guard let value = attached ?? rest.popFirst() else {
      throw UsageError("--\(option.name) needs an argument: \(argument)")
    }
    parsed.add(option, value)
  }

  private func parseLetters(
    _ text: Substring,
    _ rest: inout ArraySlice<String>,
    _ parsed: inout Arguments
  ) throws(UsageError) {
    var letters = text
    while let letter = letters.popFirst() {
      guard let option = options.first(where: { $0.letter == letter }) else {
        throw UsageError("there is no option -\(letter)")
      }
      guard let argument = option.argument else {
        parsed.add(option, "")
        continue
      }
      guard let value = letters.isEmpty ? rest.popFirst() : String(letters) else {
        throw UsageError("-\(letter) needs an argument: \(argument)")
      }
      parsed.add(option, value)
      return
    }
  }

  /// The text that `--help` prints.
  package var help: String {
    let columns = options.map { option -> String in
      let letter = option.letter.map { "-\($0), " } ?? "    "
      return "  \(letter)--\(option.name)" + (option.argument.map { "=\($0)" } ?? "")
    }
    let width = (columns.map(\.count).max() ?? 0) + 3
    let lines = zip(columns, options)
      .map { column, option in column + String(repeating: " ", count: width - column.count) + option.help }
    let heads = usage.enumerated().map { ($0.offset == 0 ? "Usage: " : "   or: ") + $0.element }
    return (heads + [summary, "", "Options:"] + lines + ["", epilogue]).joined(separator: "\n") + "\n"
  }
}
