import CulpritBlame
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc

private let reportTable = OptionTable(
  usage: ["culprit report [OPTION]... [FILE|DIRECTORY]..."],
  summary:
    "Prints who is to blame for each stall in the FILEs (standard input when there are none, or for \"-\"). Of a DIRECTORY all are printed, the newest first.",
  options: [
    CommandOption(
      "width",
      letter: "w",
      argument: "COLUMNS",
      help: "length of a line, 40 to 1000; the terminal's, or 100"
    ),
    CommandOption("explain", letter: "e", help: "say what can be done about the causes"),
    CommandOption("threads", letter: "t", help: "add the whole stacks of the other threads"),
    CommandOption(
      "debug-dir",
      argument: "DIR",
      help: "look for the files that ran, or their debug information, in DIR too; may be repeated"
    ),
    CommandOption(
      "own",
      argument: "NAME",
      help: "count the module, package, library or path NAME as own code; may be repeated"
    ),
    CommandOption(
      "wrapper",
      argument: "NAME",
      help: "pass over the own function NAME, so that its caller is to blame; may be repeated"
    ),
  ],
  epilogue: """
    Names are in the FILE, where the process or "culprit symbolize -o" has put them; others come from the files that were mapped
    into the process, as far as they are still there unchanged. Where they are not, files are looked for in the debug
    directories, by build-id (DIR/.build-id/ab/cdef.debug) or by name (DIR/shop, DIR/shop.debug), and then asked for from the
    servers in DEBUGINFOD_URLS; unset it, or interrupt, if that takes too long.

    Examples:
      $ culprit report stall.stall
      $ culprit report --width=80 /var/lib/shop/culprit
      $ culprit report --debug-dir=/srv/builds/41 --own=shop-core --wrapper='Lock.*' stall.stall
      $ ssh shop cat /var/lib/shop/last.stall | culprit report
    """
)

/// `culprit report`: returns whether every file could be read in full.
func runReport(_ arguments: [String]) throws -> Bool {
  let parsed = try reportTable.parse(arguments)
  if parsed.has("help") {
    output.print(reportTable.help)
    return true
  }
  let width = try parsed.number("width", in: 40...1000) ?? terminalWidth() ?? 100
  let search = DebugSearch(directories: parsed.values("debug-dir"), servers: servers)
  var isFirst = true
  let files = try Expansion(parsed.operands)
  // Nothing to read is not standard input.
  guard files.isWhole || !files.paths.isEmpty else { return false }
  return forEachStallFile(files.paths, found: files.found) { name, file in
    if file.recording.stalls.isEmpty { output.print("\(printable(name)): no stall was recorded\n") }
    // What the service counts as its own is its own here, too.
    let process = file.recording.process
    let rules = OwnershipRules(
      own: (process?.ownModules ?? []) + parsed.values("own"),
      wrappers: (process?.wrappers ?? []) + parsed.values("wrapper")
    )
    let symbolizer = Symbolizer(modules: file.recording.modules, names: file.recording.names, search: search)
    let builder = ReportBuilder(file.recording, rules: rules, resolve: symbolizer.resolve)
    let reports = file.recording.stalls.map { builder.report(of: $0) }
    for report in reports {
      output.print((isFirst ? "" : "\n") + report.text(width: width, explains: parsed.has("explain")))
      isFirst = false
    }
    guard parsed.has("threads") else { return }
    for threads in reports.compactMap(\.otherThreads) where threads.count > 0 {
      output.print("\n" + threads.text(width: width))
    }
  } && files.isWhole
}

/// The width of the terminal that standard output is, or `nil` when it is none.
private func terminalWidth() -> Int? {
  var size = winsize()
  guard isatty(STDOUT_FILENO) == 1, ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col >= 40 else {
    return nil
  }
  return min(Int(size.ws_col), 1000)
}
