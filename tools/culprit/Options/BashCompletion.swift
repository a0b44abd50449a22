extension CommandFamily {
  /// The completion script for bash, to be sourced or installed in a directory of bash-completion.
  package var bashCompletion: String {
    """
    # bash completion for \(name). Made by: \(name) completion bash
    # Use: source <(\(name) completion bash)

    _\(name)_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word"); }

    _\(name)_files() {
      compopt -o filenames 2>/dev/null
      # Readline completes quoted words.
      if [[ $word == *[\\'\\"\\\\~\\$]* ]]; then compopt -o default 2>/dev/null; return; fi
      [[ -z $1 ]] || mapfile -t COMPREPLY < <(compgen -f -X "!*$1" -- "$word"; compgen -d -- "$word")
      ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$word")
    }

    _\(name)_directories() {
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
    }

    _\(name)_operands() {
      case $command in
        "") _\(name)_words "\(members.map(\.name).joined(separator: " "))" ;;
    \(bashOperands)  esac
    }

    _\(name)() {
      local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} prefix= command= place
      COMPREPLY=()
      ((COMP_CWORD == 1)) || command=${COMP_WORDS[1]}
      # By default, readline splits --option=word at the equals sign.
      if [[ $word == = ]]; then
        word=
      elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
      elif [[ $word == --*=* ]]; then
        option=${word%%=*} prefix=${word%%=*}= word=${word#*=}
      fi
      for ((place = 2; place < COMP_CWORD; place++)); do
        [[ ${COMP_WORDS[place]} != -- ]] || option=--
      done
      case $command:$option in
    \(bashArguments)    *)
          case $command:$option:$word in
            *:--:*) _\(name)_operands ;;
    \(bashOptions)        *) _\(name)_operands ;;
          esac
          [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
          return
          ;;
      esac
      # If readline keeps --option=word as one word, each completion must begin with the option.
      for place in "${!COMPREPLY[@]}"; do COMPREPLY[place]=$prefix${COMPREPLY[place]}; done
    }

    complete -F _\(name) \(name)

    """
  }

  private var bashArguments: String {
    var text = ""
    for member in members {
      for option in member.table.options where option.argument != nil {
        let letter = option.letter.map { "|\(member.name):-\($0)" } ?? ""
        text += "    \(member.name):--\(option.name)\(letter)) \(bashAction(option.values)) ;;\n"
      }
    }
    return text
  }

  private var bashOptions: String {
    func words(_ options: [CommandOption]) -> String {
      options.map { "--\($0.name)" + ($0.argument == nil ? "" : "=") }.joined(separator: " ")
    }
    let own = "        :*:-*) _\(name)_words \"\(words(table.options))\" ;;\n"
    return own + members.map { "        \($0.name):*:-*) _\(name)_words \"\(words($0.table.options))\" ;;\n" }.joined()
  }

  private var bashOperands: String {
    members.map { "    \($0.name)) \(bashAction($0.table.operands)) ;;\n" }.joined()
  }

  private func bashAction(_ values: ArgumentValues) -> String {
    switch values {
    case .anything: ":"
    case .words(let words): "_\(name)_words \"\(words.joined(separator: " "))\""
    case .file(let ending): "_\(name)_files \(ending.map { "'\($0)'" } ?? "''")"
    case .directory: "_\(name)_directories"
    }
  }
}
