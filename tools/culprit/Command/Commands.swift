import CulpritOptions
import CulpritReports
import Glibc

/// Runs a command and returns whether it succeeded.
private typealias Runner = @Sendable (OptionTable.Arguments) throws -> Bool

private let readers: [(CommandFamily.Member, Runner)] = [
  (.init("report", "show the culprit of each saved stall, with the evidence", reportTable), runReport),
  (.init("dump", "print all threads and the work under way of a process", dumpTable), runDump),
  (.init("top", "rank culprits by total stall time", topTable), runTop),
  (.init("diff", "compare the stalls of two builds or periods", diffTable), runDiff),
  (.init("export", "write stalls in the formats of other tools", exportTable), runExport),
  (.init("symbolize", "convert addresses to functions and source lines", symbolizeTable), runSymbolize),
  (.init("info", "describe a file, or list the runs of a service", infoTable), runInfo),
]

private let runners =
  readers + [
    (.init("completion", "print a shell completion script", completionTable), runCompletion),
    (.init("man", "show or write manual pages", manualTable), runManual),
    (.init("help", "show the help of a command", helpTable), runHelp),
  ]

private let commandNames = readers.map(\.0.name) + ["completion", "man", "help"]

let family = CommandFamily(
  name: "culprit",
  brief: "report the functions that stalled a service",
  version: toolVersion,
  table: OptionTable(
    usage: ["culprit --version"],
    summary: "Reports the functions that stalled a service, from the .stall files saved by its watchdog.",
    options: [CommandOption("version", letter: "V", help: "print the version and exit")],
    epilogue: "See \"culprit COMMAND --help\" for options, and \"culprit man COMMAND\" for the manual page.",
    examples: """
      $ culprit report /var/lib/shop/stalls/culprit-20261120T102351.204Z-4242-1.stall
      STALL     event loop "http" was stuck for 5.01 s, limit 4.50 s
                example-service (process 4242), thread 4242 "example-service", since …
      CULPRIT   Catalog.rebuildIndex() 80 % of the stall, 4.01 s
      …
      $ culprit top --since=7d /var/lib/shop/stalls
      """,
    exitStatus: "0 success; 1 a file was unreadable or incomplete; 2 wrong usage"
  ),
  members: runners.map(\.0)
)

private func help(_ table: OptionTable) -> String {
  (Terminal.isASCII ? table.inASCII : table).help(width: Terminal.width ?? 100)
}

func helpOfFamily() -> String {
  var family = family
  if Terminal.isASCII {
    family.table = family.table.inASCII
    for place in family.members.indices { family.members[place].brief = family.members[place].brief.inASCII }
  }
  return family.help(width: Terminal.width ?? 100)
}

extension OptionTable {
  /// The table in ASCII. The conversion can lengthen text, so it must precede the layout.
  fileprivate var inASCII: OptionTable {
    var table = self
    table.usage = usage.map(\.inASCII)
    for place in options.indices { table.options[place].help = options[place].help.inASCII }
    for text in [\OptionTable.summary, \.epilogue, \.examples, \.exitStatus] {
      table[keyPath: text] = table[keyPath: text].inASCII
    }
    return table
  }
}

func run(_ member: CommandFamily.Member, _ arguments: [String]) throws -> Bool {
  let parsed = try member.table.parse(arguments)
  if parsed.has("help") {
    output.print(help(member.table))
    return true
  }
  Progress.shared.isWanted = !parsed.has("no-progress")
  guard let (_, run) = runners.first(where: { $0.0.name == member.name }) else { return false }
  return try run(parsed)
}

private let helpTable = OptionTable(
  usage: ["culprit help [COMMAND]"],
  summary: "Prints the help of COMMAND, or the list of commands.",
  options: [],
  operands: .words(commandNames),
  examples: "$ culprit help top",
  exitStatus: "0 success; 2 wrong usage"
)

private func runHelp(_ parsed: OptionTable.Arguments) throws -> Bool {
  guard parsed.operands.count <= 1 else { throw UsageError("help takes one command, not \(parsed.operands.count)") }
  output.print(try parsed.operands.first.map { help(try family.member($0).table) } ?? helpOfFamily())
  return true
}

private let completionTable = OptionTable(
  usage: ["culprit completion bash|zsh|fish"],
  summary: "Prints a script for shell completion of commands, options, values and files.",
  options: [],
  operands: .words(["bash", "zsh", "fish"]),
  examples: """
    $ source <(culprit completion bash)
    $ culprit completion bash >~/.local/share/bash-completion/completions/culprit
    $ culprit completion zsh >/usr/local/share/zsh/site-functions/_culprit
    $ culprit completion fish >~/.config/fish/completions/culprit.fish
    """,
  exitStatus: "0 success; 2 wrong usage"
)

private func runCompletion(_ parsed: OptionTable.Arguments) throws -> Bool {
  guard parsed.operands.count == 1 else {
    let found = parsed.operands.isEmpty ? "nothing" : parsed.operands.map { "\"\($0)\"" }.joined(separator: " ")
    throw UsageError("completion takes one shell, bash, zsh or fish, not \(found)")
  }
  switch parsed.operands[0] {
  case "bash": output.print(family.bashCompletion)
  case "zsh": output.print(family.zshCompletion)
  case "fish": output.print(family.fishCompletion)
  case let shell:
    let near = suggestion(shell, among: ["bash", "zsh", "fish"])
    throw UsageError("no completion for \"\(shell)\", only for bash, zsh and fish\(near)")
  }
  return true
}

private let manualTable = OptionTable(
  usage: ["culprit man [COMMAND]", "culprit man --output=DIR"],
  summary:
    "Shows the manual page of COMMAND, or of culprit itself. If standard output is not a terminal, prints its source. With --output, writes all pages.",
  options: [
    CommandOption(
      "output",
      letter: "o",
      argument: "DIR",
      values: .directory,
      help: "write all pages to DIR, created if missing"
    )
  ],
  operands: .words(commandNames),
  examples: """
    $ culprit man report
    $ culprit man report | man -l -
    $ culprit man --output=/usr/local/share/man/man1 && man culprit-report
    """,
  exitStatus: "0 success; 1 a page could not be written; 2 wrong usage"
)

private func runManual(_ parsed: OptionTable.Arguments) throws -> Bool {
  if let directory = parsed.value("output") {
    guard parsed.operands.isEmpty else { throw UsageError("--output writes all pages: it takes no COMMAND") }
    // With an empty name, pages would be written to the root directory.
    guard !directory.isEmpty else { throw InputError(directory, ENOENT) }
    for path in directory.indices.filter({ directory[$0] == "/" }).map({ directory[..<$0] }) + [directory[...]] {
      guard !path.isEmpty, mkdir(String(path), 0o755) != 0, errno != EEXIST else { continue }
      throw InputError(String(path), errno)
    }
    for page in family.manualNames {
      try write(Array((family.manualPage(page) ?? "").utf8), to: "\(directory)/\(page).1")
    }
    return true
  }
  guard parsed.operands.count <= 1 else { throw UsageError("man takes one command, not \(parsed.operands.count)") }
  let page = try parsed.operands.first.map { "culprit-\(try family.member($0).name)" } ?? "culprit"
  if Terminal.isOutput, Pager.exists("man") { Pager.start("man -l -") }
  output.print(family.manualPage(page) ?? "")
  return true
}
