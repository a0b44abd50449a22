extension CommandFamily {
  /// The completion script for zsh, to be installed as `_NAME` in a directory of `fpath` or sourced after compinit.
  package var zshCompletion: String {
    let commands = members.map { "    \(zshQuoted("\($0.name):\($0.brief)"))\n" }.joined()
    let cases = members.map { member in
      "    \(member.name))\n      _arguments -s -S : \\\n\(zshOptions(member.table))        \(zshOperands(member.table)) ;;\n"
    }
    return """
      #compdef \(name)
      # zsh completion for \(name). Made by: \(name) completion zsh
      # Use: \(name) completion zsh >DIRECTORY/_\(name), where DIRECTORY is one of $fpath

      _\(name)() {
        local -a commands
        commands=(
      \(commands)  )
        if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
          _describe command commands
          return
        fi
        local command=$words[2]
        if [[ $command == -* ]]; then
          _arguments -s -S : \\
      \(zshOptions(table))        '*: : '
          return
        fi
        # The remaining words belong to the command.
        shift words
        ((CURRENT--))
        case $command in
      \(cases.joined())  esac
      }

      if [[ $funcstack[1] == _\(name) ]]; then _\(name) "$@"; else compdef _\(name) \(name); fi

      """
  }

  private func zshOptions(_ table: OptionTable) -> String {
    table.options
      .map { option in
        let action = option.argument.map { ":\($0):\(zshAction(option.values))" } ?? ""
        let text = zshQuoted("[\(zshEscaped(option.brief))]\(action)")
        let long = "--\(option.name)" + (option.argument == nil ? "" : "=")
        let short = option.letter.map { "-\($0)" + (option.argument == nil ? "" : "+") }
        let forms = short.map { "{\($0),\(long)}" } ?? long
        let names = "--\(option.name)" + (option.letter.map { " -\($0)" } ?? "")
        return "        \(option.isRepeatable ? "'*'" : "'(\(names))'")\(forms)\(text) \\\n"
      }
      .joined()
  }

  private func zshOperands(_ table: OptionTable) -> String { zshQuoted("*:operand:\(zshAction(table.operands))") }

  private func zshAction(_ values: ArgumentValues) -> String {
    switch values {
    case .anything: " "
    case .words(let words): "(\(words.joined(separator: " ")))"
    case .file(let ending): "_files" + (ending.map { " -g \"*\($0)\"" } ?? "")
    case .directory: "_files -/"
    }
  }

  private func zshEscaped(_ text: String) -> String {
    text.replacing("\\", with: "\\\\").replacing("[", with: "\\[").replacing("]", with: "\\]")
  }

  private func zshQuoted(_ text: String) -> String { "'" + text.replacing("'", with: "'\\''") + "'" }
}
