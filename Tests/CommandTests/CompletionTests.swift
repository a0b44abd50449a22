import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct CompletionTests {
  @TemporaryDirectory private var directory: String

  /// Command lines, and the completions of their last words.
  private static let cases: [(line: [String], offered: Set<String>)] = [
    (["to"], ["top"]), (["top", "--by", "c"], ["culprit", "cause"]), (["export", "-f", "p"], ["pprof"]),
    (["report", "--wi"], ["--width"]), (["completion", ""], ["bash", "zsh", "fish"]),
    (["export", "--format="], ["html", "collapsed", "pprof", "firefox", "chrome", "otlp", "jsonl"]),
    (["report", "a"], ["a b.stall"]), (["top", "--debug-dir", "s"], ["sub"]), (["report", "--width", ""], []),
  ]

  private func makeFiles() throws {
    for name in ["a b.stall", "a.txt"] { try Data().write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
    try FileManager.default.createDirectory(atPath: "\(directory)/sub", withIntermediateDirectories: true)
    for shell in ["bash", "zsh", "fish"] {
      let outcome = try culprit(["completion", shell])
      #expect(outcome.status == 0 && outcome.error == "")
      try outcome.out.write(toFile: "\(directory)/\(shell).sh", atomically: true, encoding: .utf8)
    }
  }

  @Test(.needs("bash")) func completesInBash() throws {
    try makeFiles()
    for (line, offered) in Self.cases {
      // readline splits words at `=`.
      let words = line.flatMap { $0.hasSuffix("=") ? [String($0.dropLast()), "="] : [$0] }
      let script =
        "source bash.sh; COMP_WORDS=(culprit \"$@\"); COMP_CWORD=$#; _culprit; "
        + "[[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\\n' \"${COMPREPLY[@]}\""
      let child = try ChildProcess("/bin/bash", ["-c", script, "bash"] + words, directory: directory)
      let found = child.output.split(separator: "\n").map { $0.hasSuffix("=") ? $0.dropLast() : $0 }
      #expect(Set(found.map(String.init)) == offered, "\(line): \(child)")
    }
  }

  @Test func completesInInteractiveBash() throws {
    try makeFiles()
    let keys = "source bash.sh\nculprit() { printf '<%s>' \"$@\"; echo; }\nculprit report a\t --col\tal\t\nexit\n"
    let child = try ChildProcess(
      "/usr/bin/script",
      ["-qec", "bash --norc -i", "/dev/null"],
      directory: directory,
      input: Data(keys.utf8)
    )
    #expect(child.output.contains("<report><a b.stall><--color=always>"), "\(child.output)")
  }

  @Test(.needs("fish")) func completesInFish() throws {
    try makeFiles()
    for (line, offered) in Self.cases {
      let script = "source fish.sh; complete -C \"culprit $argv\""
      let child = try ChildProcess(
        "/usr/bin/fish",
        ["-N", "-c", script] + line,
        environment: ["HOME": directory],
        directory: directory
      )
      let found = child.output.split(separator: "\n").map { line -> String in
        let word = line.prefix { $0 != "\t" }
        return String(word.hasPrefix("--format=") ? word.dropFirst(9) : word.hasSuffix("/") ? word.dropLast() : word)
      }
      #expect(Set(found).subtracting(["a.txt"]) == offered, "\(line): \(child)")
    }
  }

  @Test(.needs("fish")) func describesValuesInFish() throws {
    try makeFiles()
    func described(_ line: String) throws -> [String] {
      let child = try ChildProcess(
        "/usr/bin/fish",
        ["-N", "-c", "source fish.sh; complete -C 'culprit \(line)'"],
        environment: ["HOME": directory],
        directory: directory
      )
      return child.output.split(separator: "\n").map(String.init).sorted()
    }
    let values = [
      "cause\tthe reason for the stall", "culprit\tculprit", "host\tthe host", "service\tthe executable",
      "source\tthe stalled source", "version\tthe build-id of the executable",
    ]
    for (option, prefix) in [("--by ", ""), ("-b ", ""), ("--by=", "--by=")] {
      let found = try described("top \(option)")
      #expect(found == values.map { prefix + $0 }, "\(option)")
    }
    let formats = try described("top --format ")
    #expect(formats == ["json", "text"])
    let option = try described("top --by")
    #expect(option.contains { $0.hasPrefix("--by") && $0.hasSuffix("\tgroup by culprit") }, "\(option)")
  }

  @Test(.needs("zsh")) func completesInZsh() throws {
    try makeFiles()
    // zsh keeps no list of matches, so a replacement of `compadd` records them.
    let script = #"""
      autoload -U compinit && compinit -u -D
      source ./zsh.sh
      compadd() {
        local -a found
        builtin compadd -O found "$@"
        (( ${#found} )) && print -rl -- "OFFER "${^found} >>offers
        builtin compadd "$@"
      }
      PS1=; zle -C offer list-choices _main_complete; bindkey '^T' offer
      # Before the line editor starts, the terminal itself takes keys.
      zle-line-init() { print -n EDITING }; zle -N zle-line-init
      """#
    try script.write(toFile: "\(directory)/.zshrc", atomically: true, encoding: .utf8)
    for (line, offered) in Self.cases {
      try? FileManager.default.removeItem(atPath: "\(directory)/offers")
      let driver = #"""
        zmodload zsh/zpty
        zpty z "ZDOTDIR=$PWD zsh -i"
        zpty -r -m z text '*EDITING*'
        zpty -w -n z "culprit $*"$'\x14'$'\x15'
        zpty -w z 'print DO''NE'; zpty -r -m z text '*DONE*'
        """#
      _ = try ChildProcess(
        "/usr/bin/zsh",
        ["-f", "-c", driver, "zsh"] + line,
        environment: ["TERM": "xterm", "HOME": directory],
        directory: directory
      )
      let text = (try? String(contentsOfFile: "\(directory)/offers", encoding: .utf8)) ?? ""
      let found = text.split(separator: "\n").map { String($0.dropFirst(6)) }
        .map { $0.hasSuffix("=") ? String($0.dropLast()) : $0 }.map { $0.replacingOccurrences(of: "\\ ", with: " ") }
      #expect(Set(found) == offered, "\(line): \(text)")
    }
  }

  @Test(.needs("mandoc", "groff")) func writesWellFormedManualPages() throws {
    #expect(try culprit(["man", "--output=\(directory)/man/man1"]).status == 0)
    let pages = try FileManager.default.contentsOfDirectory(atPath: "\(directory)/man/man1").sorted()
    #expect(pages.count == 11 && pages.contains("culprit.1") && pages.contains("culprit-top.1"))
    for page in pages {
      let path = "\(directory)/man/man1/\(page)"
      // Pages have a date only in a release.
      let lint = try ChildProcess("/usr/bin/mandoc", ["-T", "lint", "-W", "warning", path])
      let complaints = lint.output.split(separator: "\n").filter { !$0.contains("missing date") }
      #expect(complaints.isEmpty, "\(complaints)")
      let shown = try ChildProcess("/usr/bin/groff", ["-ww", "-man", "-Tutf8", "-P-cbou", path], keepsErrors: true)
      #expect(shown.status == 0 && shown.errors.isEmpty, "\(shown.errors)")
      let command = page.dropLast(2).split(separator: "-").dropFirst().first.map(String.init)
      let help = try culprit(["help"] + [command].compactMap { $0 })
      let options = help.out.split(separator: "\n").compactMap { $0.firstMatch(of: /^  .{4}(--[a-z-]+)/)?.1 }
      for option in options { #expect(shown.output.contains(option), "\(page) lacks \(option)") }
      #expect(options.contains("--help") && shown.output.contains("EXIT STATUS"))
      #expect(try culprit(["man"] + [command].compactMap { $0 }).out == String(contentsOfFile: path, encoding: .utf8))
    }
  }

  @Test(arguments: [
    (["reprot", "x"], "unknown command \"reprot\"; did you mean report?"),
    (["report", "--widht=80"], "unknown option --widht; did you mean --width?"),
    (
      ["export", "--format=prof"],
      "--format is html, collapsed, pprof, firefox, chrome, otlp or jsonl, not \"prof\"; did you mean pprof?"
    ),
    (
      ["export", "-f", "perfett"],
      "--format is html, collapsed, pprof, firefox, chrome, otlp or jsonl, not \"perfett\"; did you mean perfetto?"
    ),
    (["top", "-format=json"], "unknown option -f; did you mean --format?"),
    (["help", "tpo"], "unknown command \"tpo\"; did you mean top?"),
    (["/etc/passwd"], "missing command before \"/etc/passwd\"; did you mean culprit report /etc/passwd?"),
    (["completion", "tcsh"], "no completion for \"tcsh\", only for bash, zsh and fish"),
    (["completion", "bsh"], "no completion for \"bsh\", only for bash, zsh and fish; did you mean bash?"),
    (["completion"], "completion takes one shell, bash, zsh or fish, not nothing"),
    (
      ["report", "--build=libshop", "x"],
      "--build takes the first digits of a build-id, such as 1f3a, or unknown, not \"libshop\""
    ),
    (["export", "--label=", "x"], "--label takes a TEXT, which must not be empty"),
    (
      ["report", "--signature=xyz", "x"], "--signature takes the first digits of a signature, such as 1f3a, not \"xyz\""
    ),
    (
      ["top", "--signature=52ccabb68e2e0", "x"],
      "--signature takes up to 12 digits, not the 13 of \"52ccabb68e2e0\""
    ),
  ])
  func suggestsCorrections(words: [String], sentence: String) throws {
    let outcome = try culprit(words)
    #expect(outcome.status == 2 && outcome.out == "" && outcome.error.hasPrefix("culprit: \(sentence)\n"), "\(outcome)")
  }
}
