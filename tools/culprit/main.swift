import CulpritOptions
import Glibc

// culprit: what saved stalls say, and whom they blame.

/// The commands, by name.
let commands: [String: ([String]) throws -> Bool] = [
  "report": runReport, "top": runTop, "diff": runDiff, "export": runExport, "symbolize": runSymbolize, "info": runInfo,
]

let table = OptionTable(
  usage: [
    "culprit report [OPTION]... [FILE|DIRECTORY]...", "culprit top [OPTION]... [FILE|DIRECTORY]...",
    "culprit diff [OPTION]... BEFORE AFTER", "culprit export [OPTION]... [FILE|DIRECTORY]...",
    "culprit symbolize [OPTION]... [ADDRESS]...",
    "culprit info [OPTION]... [FILE|DIRECTORY]...",
  ],
  summary: "Says what stalled a service, from the .stall files that its watchdog saved.",
  options: [CommandOption("version", letter: "V", help: "print the version and exit")],
  epilogue: """
    Commands:
      report      who is to blame for each saved stall, and the evidence
      top         which problems take most of the time
      diff        which problems are new, gone, worse and better
      export      stalls in forms that other tools read
      symbolize   what addresses are called, and where they are in the source
      info        what is in a file, or how the runs of a service ended

    "culprit COMMAND --help" tells more.

    Example:
      $ culprit report /var/lib/shop/culprit-20261120T102351.204Z-4242-1.stall
      STALL     event loop "http" was stuck for 5.01 s, 4.50 s are allowed
                example-service (process 4242), thread 4242 "example-service", since …
      CULPRIT   Catalog.rebuildIndex() 80 % of the stall, 4.01 s
      …

    Exit status: 0 all is well, 1 a file could not be read or only in part, 2 wrong usage.
    """
)

do {
  // The end of a pipe that the reader has closed (culprit report … | head) is no reason to die with a signal.
  signal(SIGPIPE, SIG_IGN)
  let arguments = CommandLine.arguments.dropFirst()
  if let name = arguments.first, let command = commands[name] {
    end(try command(Array(arguments.dropFirst())) ? 0 : 1)
  }
  if let name = arguments.first, !name.hasPrefix("-") {
    throw UsageError("there is no command \"\(name)\"; there are \(commands.keys.sorted().joined(separator: ", "))")
  }
  let parsed = try table.parse(arguments)
  if parsed.has("help") {
    output.print(table.help)
  } else if parsed.has("version") {
    output.print("culprit \(toolVersion)\n")
  } else {
    throw UsageError("a command is missing; there are \(commands.keys.sorted().joined(separator: ", "))")
  }
} catch let error as UsageError {
  output.usage(error)
} catch {
  output.error("\(error)")
  exit(1)
}
