/// The values of an option's argument or an operand, for completion.
package enum ArgumentValues: Hashable, Sendable {
  /// Any text, which cannot be completed.
  case anything
  /// One of these words. For an option's argument, the parser rejects all other words.
  case words([String])
  /// A file. Completion prefers files with this suffix, and directories; without a suffix it offers all files.
  case file(ending: String? = nil)
  /// A directory.
  case directory
}

/// An option of a command.
package struct CommandOption: Sendable {
  /// The name, without the two dashes.
  package var name: String
  /// The single-letter name, without the dash.
  package var letter: Character?
  /// The name of the argument in the help; `nil` for an option without argument.
  package var argument: String?
  /// The values of the argument.
  package var values: ArgumentValues
  /// Undocumented words that are also accepted as the argument, such as former names.
  package var aliases: [String]
  /// Whether all occurrences of the option count, not only the last one.
  package var isRepeatable: Bool
  /// Brief descriptions of the argument's words, without initial capitals. Self-explanatory words have none.
  package var meanings: [String: String]
  /// The description of the option.
  package var help: String

  /// Creates the option `--name`.
  package init(
    _ name: String,
    letter: Character? = nil,
    argument: String? = nil,
    values: ArgumentValues = .anything,
    aliases: [String] = [],
    isRepeatable: Bool = false,
    meanings: [String: String] = [:],
    help: String
  ) {
    self.name = name
    self.letter = letter
    self.argument = argument
    self.values = values
    self.aliases = aliases
    self.isRepeatable = isRepeatable
    self.meanings = meanings
    self.help = help + (isRepeatable ? "; repeatable" : "")
  }

  /// The start of the description, which fits into a list.
  var brief: String {
    let end = [";", ":", " ("].compactMap { help.firstRange(of: $0)?.lowerBound }.min()
    return String(help[..<(end ?? help.endIndex)])
  }

  /// Throws a ``UsageError`` if the argument must be one of certain words and `value` is not.
  func check(_ value: String) throws(UsageError) {
    guard case .words(let words) = values, !(words + aliases).contains(value) else { return }
    let near = suggestion(value, among: words + aliases)
    throw UsageError("--\(name) is \(alternatives(words)), not \"\(value)\"\(near)")
  }
}

/// An error in a command line.
package struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
  /// A message without a final period.
  package var description: String

  /// Creates an error with the message `description`.
  package init(_ description: String) { self.description = description }
}

/// The options of a command. Parses command lines and formats the help.
///
/// Follows the GNU conventions (POSIX Utility Conventions, getopt_long(3)). Options and operands can occur in any
/// order, and `--` ends the options. `-ab` equals `-a -b`; `-w80` equals `-w 80`; `--width=80` equals `--width 80`. A
/// long name can be abbreviated as long as it is unambiguous.
package struct OptionTable: Sendable {
  /// Usage lines for the help: the name of the command and its arguments.
  package var usage: [String]
  /// A description of the command.
  package var summary: String
  /// The options in the order of the help. `--help` is added automatically.
  package var options: [CommandOption]
  /// The values of operands.
  package var operands: ArgumentValues
  /// Further text of the help. Indented lines are either verbatim text or list entries: a word, two or more spaces, and
  /// a description. Other consecutive lines form a paragraph.
  package var epilogue: String
  /// Example commands, prefixed by "$ ", and their output.
  package var examples: String
  /// The meaning of the exit status.
  package var exitStatus: String

  /// Creates a table.
  package init(
    usage: [String],
    summary: String,
    options: [CommandOption],
    operands: ArgumentValues = .anything,
    epilogue: String = "",
    examples: String = "",
    exitStatus: String = ""
  ) {
    self.usage = usage
    self.summary = summary
    self.options = options + [CommandOption("help", letter: "h", help: "print this help and exit")]
    self.operands = operands
    self.epilogue = epilogue
    self.examples = examples
    self.exitStatus = exitStatus
  }

  /// The options and operands of a command line.
  package struct Arguments: Sendable {
    /// The arguments that are not options.
    package var operands: [String] = []
    private var values: [String: [String]] = [:]

    /// Whether the option was given.
    package func has(_ name: String) -> Bool { values[name] != nil }

    /// Returns the argument of the option's last occurrence; `nil` if it was not given.
    package func value(_ name: String) -> String? { values[name]?.last }

    /// Returns the arguments of all occurrences of the option, in order.
    package func values(_ name: String) -> [String] { values[name] ?? [] }

    /// Returns the option's argument as an integer; `nil` if the option was not given.
    ///
    /// - Throws: ``UsageError`` if the argument is not an integer in `range`.
    package func number(_ name: String, in range: ClosedRange<Int>) throws(UsageError) -> Int? {
      guard let text = value(name) else { return nil }
      guard let number = Int(text), range.contains(number) else {
        throw UsageError(
          "--\(name) takes a whole number from \(range.lowerBound) to \(range.upperBound), not \"\(text)\""
        )
      }
      return number
    }

    /// Rejects options that would have no effect.
    ///
    /// - Parameters:
    ///   - names: The names of the options.
    ///   - reason: The reason, which follows the option's name in the message.
    /// - Throws: ``UsageError`` if one of the options was given.
    package func refuse(_ names: [String], _ reason: String) throws(UsageError) {
      if let name = names.first(where: has) { throw UsageError("--\(name) \(reason)") }
    }

    fileprivate mutating func add(_ option: CommandOption, _ value: String) {
      values[option.name, default: []].append(value)
    }
  }

  /// Parses `arguments`, which must not include the command's name.
  ///
  /// - Throws: ``UsageError`` for unknown options, and for missing or unexpected arguments.
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
      throw UsageError(
        candidates.isEmpty
          ? "unknown option --\(name)" + suggestion(String(name), among: options.map(\.name), prefix: "--")
          : "--\(name) is ambiguous: \(names)"
      )
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
    try option.check(value)
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
        // A long name after a single dash is parsed as letters.
        let name = String(text.prefix { $0 != "=" })
        let isLong = name.count > 1 && options.contains { $0.name == name }
        throw UsageError("unknown option -\(letter)" + (isLong ? "; did you mean --\(name)?" : ""))
      }
      guard let argument = option.argument else {
        parsed.add(option, "")
        continue
      }
      guard let value = letters.isEmpty ? rest.popFirst() : String(letters) else {
        throw UsageError("-\(letter) needs an argument: \(argument)")
      }
      try option.check(value)
      parsed.add(option, value)
      return
    }
  }
}
