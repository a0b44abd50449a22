/// The values of an argument, for completion.
package enum ArgumentValues: Hashable, Sendable {
  /// Text that cannot be completed.
  case anything
  /// One of these words. For options, the parser rejects other words.
  case words([String])
  /// A file. Completion prefers files with this suffix, and directories.
  case file(ending: String? = nil)
  case directory
}

package struct CommandOption: Sendable {
  /// The name, without the two dashes.
  package var name: String
  package var letter: Character?
  /// The name of the argument in the help; `nil` for an option without argument.
  package var argument: String?
  package var values: ArgumentValues
  /// Undocumented words that the parser accepts, such as former names.
  package var aliases: [String]
  /// Whether all occurrences of the option count, not only the last.
  package var isRepeatable: Bool
  /// Brief descriptions of words that need one.
  package var meanings: [String: String]
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

  /// The start of the description, for lists.
  var brief: String {
    let end = [";", ":", " ("].compactMap { help.firstRange(of: $0)?.lowerBound }.min()
    return String(help[..<(end ?? help.endIndex)])
  }

  /// Throws a ``UsageError`` if `value` is not one of the argument's words.
  func check(_ value: String) throws(UsageError) {
    guard case .words(let words) = values, !(words + aliases).contains(value) else { return }
    let near = suggestion(value, among: words + aliases)
    throw UsageError("--\(name) is \(alternatives(words)), not \"\(value)\"\(near)")
  }
}

package struct UsageError: Error, Hashable, Sendable, CustomStringConvertible {
  /// A message without a final period.
  package var description: String

  package init(_ description: String) { self.description = description }
}

/// The options of a command.
///
/// Follows the GNU conventions (POSIX Utility Conventions, getopt_long(3)): mixed options and operands, `--`, combined
/// letters, and unambiguous abbreviations of long names.
package struct OptionTable: Sendable {
  /// Command name and arguments, for the help.
  package var usage: [String]
  package var summary: String
  /// The options in the order of the help. `--help` is added automatically.
  package var options: [CommandOption]
  package var operands: ArgumentValues
  /// Further text of the help. Indented lines are verbatim text or list entries: a word, at least two spaces, and a
  /// description. Unindented lines form paragraphs.
  package var epilogue: String
  /// Example commands, prefixed by "$ ", and their output.
  package var examples: String
  package var exitStatus: String

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

  package struct Arguments: Sendable {
    /// The arguments that are not options.
    package var operands: [String] = []
    private var values: [String: [String]] = [:]

    package func has(_ name: String) -> Bool { values[name] != nil }

    /// Returns the argument of the last occurrence.
    package func value(_ name: String) -> String? { values[name]?.last }

    /// Returns the arguments of all occurrences, in order.
    package func values(_ name: String) -> [String] { values[name] ?? [] }

    /// Returns the argument as an integer; `nil` if the option was not given.
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

    /// Throws a ``UsageError`` if one of the options `names` was given, because it would have no effect. `reason`
    /// follows the option's name in the message.
    package func refuse(_ names: [String], _ reason: String) throws(UsageError) {
      if let name = names.first(where: has) { throw UsageError("--\(name) \(reason)") }
    }

    fileprivate mutating func add(_ option: CommandOption, _ value: String) {
      values[option.name, default: []].append(value)
    }
  }

  /// Parses `arguments`, without the command's name.
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
        // A long name after a single dash was parsed as letters.
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
