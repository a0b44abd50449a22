extension CommandFamily {
  /// The completion script for fish, to be sourced or installed as `~/.config/fish/completions/NAME.fish`.
  package var fishCompletion: String {
    var lines = [
      "# fish completion for \(name). Made by: \(name) completion fish",
      "# Use: \(name) completion fish >~/.config/fish/completions/\(name).fish", "",
      "# Whether the command is $argv[1]; whether there is none yet when it is empty.", "function __\(name)_runs",
      "  set -l words (commandline -opc)", "  test \"$words[2]\" = \"$argv[1]\"", "end", "", "complete -c \(name) -f",
    ]
    let start = "complete -c \(name) -n '__\(name)_runs \"\"'"
    lines += members.map { "\(start) -a \($0.name) -d \(fishQuoted($0.brief))" }
    lines += table.options.map { "\(start) \(fishOption($0))" }
    for member in members {
      let head = "complete -c \(name) -n '__\(name)_runs \(member.name)'"
      lines += member.table.options.map { "\(head) \(fishOption($0))" }
      if let action = fishAction(member.table.operands) { lines.append("\(head) \(action)") }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private func fishOption(_ option: CommandOption) -> String {
    var words = ["-l \(option.name)"]
    if let letter = option.letter { words.append("-s \(letter)") }
    if option.argument != nil {
      // `-x` prevents the completion of files.
      let action = fishAction(option.values, option.meanings)
      words.append(action == "-F" ? "-r -F" : "-x" + (action.map { " \($0)" } ?? ""))
    }
    return (words + ["-d \(fishQuoted(option.brief))"]).joined(separator: " ")
  }

  /// Returns the completion of an argument. A tab separates word and description; without a tab, fish would show the
  /// option's description.
  private func fishAction(_ values: ArgumentValues, _ meanings: [String: String] = [:]) -> String? {
    switch values {
    case .anything: nil
    case .words(let words):
      "-a "
        + fishQuoted(words.map { "\($0)\\t" + (meanings[$0].map(fishQuoted) ?? "") }.joined(separator: " "))
    case .file(let ending): ending.map { "-k -a '(__fish_complete_suffix \($0))'" } ?? "-F"
    case .directory: "-a '(__fish_complete_directories)'"
    }
  }

  private func fishQuoted(_ text: String) -> String {
    "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
  }
}
