extension CommandFamily {
  /// The program's name, and `NAME-COMMAND` for each subcommand.
  package var manualNames: [String] { [name] + members.map { "\(name)-\($0.name)" } }

  /// Returns a manual page in section 1, for groff and mandoc; `nil` if it does not exist.
  package func manualPage(_ page: String) -> String? {
    if page == name { return manual(page, brief, table, commands: members, others: members.map(\.name)) }
    guard let member = members.first(where: { "\(name)-\($0.name)" == page }) else { return nil }
    return manual(page, member.brief, member.table, commands: [], others: [])
  }

  private func manual(
    _ page: String,
    _ brief: String,
    _ table: OptionTable,
    commands: [Member],
    others: [String]
  ) -> String {
    var lines = [
      ".\\\" Made by: \(name) man",
      ".TH \(roff(page.uppercased())) 1 \"\" \"\(roff(name)) \(roff(version))\" \"User Commands\"",
      ".nh", ".ad l", ".SH NAME", "\(roff(page)) \\- \(roff(brief))", ".SH SYNOPSIS", ".nf",
    ]
    lines += (commands.isEmpty ? [] : ["\(name) COMMAND [OPTION]... [OPERAND]..."] + table.usage).map(roff)
    lines += (commands.isEmpty ? table.usage : []).map(roff)
    lines += [".fi", ".SH DESCRIPTION"] + filled(table.summary)
    if !commands.isEmpty {
      lines.append(".SH COMMANDS")
      for command in commands {
        lines += [
          ".TP", "\\fB\(roff(command.name))\\fR",
          roff(command.brief) + "; see \\fB\(roff("\(page)-\(command.name)"))\\fR(1)",
        ]
      }
    }
    lines.append(".SH OPTIONS")
    for option in table.options {
      let argument = option.argument.map { "=\\fI\(roff($0))\\fR" } ?? ""
      let letter = option.letter.map { "\\fB\(roff("-\($0)"))\\fR, " } ?? ""
      lines += [".TP", "\(letter)\\fB\(roff("--\(option.name)"))\\fR\(argument)"] + filled(option.help)
    }
    if !table.epilogue.isEmpty { lines += [".SH NOTES"] + body(table.epilogue) }
    if !table.examples.isEmpty {
      lines += [".SH EXAMPLES"] + literal(table.examples.split(separator: "\n", omittingEmptySubsequences: false))
    }
    if !table.exitStatus.isEmpty { lines += [".SH \"EXIT STATUS\"", roff(table.exitStatus) + "."] }
    let pages = others.isEmpty ? [name] : others.map { "\(name)-\($0)" }
    lines += [".SH \"SEE ALSO\"", pages.map { "\\fB\(roff($0))\\fR(1)" }.joined(separator: ",\n")]
    return lines.joined(separator: "\n") + "\n"
  }

  private func body(_ text: String) -> [String] {
    var lines: [String] = []
    var block: [Substring] = []
    var isFirst = true
    func end() {
      guard let line = block.first else { return }
      if line.hasPrefix(" ") {
        lines += literal(block.map { $0.dropFirst(2) })
      } else {
        lines += (isFirst ? [] : [".PP"]) + filled(block.joined(separator: " "))
      }
      isFirst = false
      block = []
    }
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      if line.isEmpty || line.hasPrefix(" ") != (block.first?.hasPrefix(" ") ?? line.hasPrefix(" ")) { end() }
      if !line.isEmpty { block.append(line) }
    }
    end()
    return lines
  }

  private func literal(_ text: [Substring]) -> [String] {
    [".RS 4", ".nf"] + text.map { $0.isEmpty ? ".sp" : roff(String($0)) } + [".fi", ".RE"]
  }

  /// Returns `text` as short roff lines.
  private func filled(_ text: String) -> [String] { wrapped(text, 72).map(roff) }

  /// Escapes text that would start a request, and writes non-ASCII characters by name.
  private func roff(_ text: String) -> String {
    var line = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": line += "\\e"
      case "-": line += "\\-"
      case "'": line += "\\(aq"
      case "\"": line += "\\(dq"
      case "^": line += "\\(ha"
      case "~": line += "\\(ti"
      case "`": line += "\\(ga"
      case _ where scalar.isASCII: line.unicodeScalars.append(scalar)
      default:
        let digits = String(scalar.value, radix: 16, uppercase: true)
        line += "\\[u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits + "]"
      }
    }
    return line.hasPrefix(".") ? "\\&" + line : line
  }
}
