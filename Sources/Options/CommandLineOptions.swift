/// What an option's argument or an operand may be: what completion offers.
package enum ArgumentValues: Hashable, Sendable {
  /// What only the user knows.
  case anything
  /// One of these words. Others are refused when the command line is parsed, if the argument is an option's.
  case words([String])
  /// A file. Those whose name has this ending come first, with directories; all where there is none.
  case file(ending: String? = nil)
  /// A directory.
  case directory
}

/// One option of a command.
package struct CommandOption: Sendable {
  /// The name after two dashes.
  package var name: String
  /// The letter after one dash.
  package var letter: Character?
  /// What the argument is called in the help; `nil` for an option without one.
  package var argument: String?
  /// What the argument may be.
  package var values: ArgumentValues
  /// Words that are taken for an argument, too, but not told of: older and other names.
  package var aliases: [String]
  /// Whether every argument counts when the option is given several times, and not the last one alone.
  package var isRepeatable: Bool
  /// What each of the words means that the argument may be, in some words without a capital. Those that say it themselves have none.
  package var meanings: [String: String]
  /// What the option does.
  package var help: String

  /// An option `--name`.
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
    self.help = help + (isRepeatable ? "; may be repeated" : "")
  }

  /// What the option does, in as few words as a list has room for.
  var brief: String {
    let end = [";", ":", " ("].compactMap { help.firstRange(of: $0)?.lowerBound }.min()
    return String(help[..<(end ?? help.endIndex)])
  }

  /// Refuses `value` where the argument is one of some words, and it is none of them.
  func check(_ value: String) throws(UsageError) {
    guard case .words(let words) = values, !(words + aliases).contains(value) else { return }
    let near = suggestion(value, among: words + aliases)
    throw UsageError("--\(name) is \(alternatives(words)), not \"\(value)\"\(near)")
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
  /// What operands may be.
  package var operands: ArgumentValues
  /// Whatever else is to be known. Lines that are indented stay as they are, or are lists: a word, two spaces or more, and what it
  /// means. Of all others those that follow each other are a paragraph.
  package var epilogue: String
  /// Commands after "$ ", with what they print.
  package var examples: String
  /// What the exit status tells.
  package var exitStatus: String

  /// A table for a command.
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

    /// Refuses each of the options `names` that was given, where it would do nothing.
    ///
    /// - Parameters:
    ///   - names: The options.
    ///   - reason: Why it would, after the option's name.
    /// - Throws: ``UsageError`` for the first of them.
    package func refuse(_ names: [String], _ reason: String) throws(UsageError) {
      if let name = names.first(where: has) { throw UsageError("--\(name) \(reason)") }
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
      throw UsageError(
        candidates.isEmpty
          ? "there is no option --\(name)" + suggestion(String(name), among: options.map(\.name), prefix: "--")
          : "--\(name) may be any of \(names)"
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
        // Who writes a long name after one dash gets its letters read.
        let name = String(text.prefix { $0 != "=" })
        let isLong = name.count > 1 && options.contains { $0.name == name }
        throw UsageError("there is no option -\(letter)" + (isLong ? "; did you mean --\(name)?" : ""))
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
