import CulpritOptions
import CulpritReports
import CulpritStallRecord

let reportTable = OptionTable(
  usage: ["culprit report [OPTION]... [FILE|DIRECTORY]...", "culprit report [OPTION]... PID"],
  summary:
    "Prints a report for each stall in the FILEs, or standard input if there are none or for \"-\". For a DIRECTORY, prints all of its stalls, the newest first. For the PID of a process started with CULPRIT_CONTROL=yes, prints its stalls under way.",
  options: [
    CommandOption(
      "format",
      argument: "FORMAT",
      values: .words(["text", "json", "markdown"]),
      help:
        "output format: text, markdown for an issue, or json with one line per stall (schema: docs/internals/report-1.schema.json)"
    ),
    CommandOption("brief", letter: "b", help: "one line per stall"),
    CommandOption("full", letter: "f", help: "show all functions, the last stack and the confidence"),
    CommandOption("explain", letter: "e", help: "add advice for each cause"),
    CommandOption("threads", letter: "t", help: "add the complete stacks of the other threads"),
    CommandOption("open", letter: "o", help: "open the reports as a page in BROWSER, or with xdg-open"),
  ] + TextOutput.options + [Progress.option] + Stalls.choosingOptions + Stalls.namingOptions,
  operands: .file(ending: ".stall"),
  epilogue: """
    Names stored in the FILE by the process or by "culprit symbolize -o" are used first. Other names come from the files
    that were mapped into the process, if these files are unchanged. Missing files are searched for in the debug
    directories, by build-id (DIR/.build-id/ab/cdef.debug) or by name (DIR/shop, DIR/shop.debug), and then on the
    servers in DEBUGINFOD_URLS. If the servers take too long, unset DEBUGINFOD_URLS or interrupt the command.
    """,
  examples: """
    $ culprit report stall.stall
    $ culprit report --width=80 --since=2h /var/lib/shop/stalls
    $ culprit report --brief /var/lib/shop/stalls | tail
    $ culprit report --open --since=1d /var/lib/shop/stalls
    $ culprit report --debug-dir=/srv/builds/41 --own=shop-core --wrapper='Lock.*' stall.stall
    $ culprit report --format=json /var/lib/shop/stalls | jq -r '.signature + " " + .culprit.function.name'
    $ ssh shop cat /var/lib/shop/stalls/last.stall | culprit report
    """,
  exitStatus: "0 success; 1 a file was unreadable or incomplete; 2 wrong usage"
)

func runReport(_ parsed: OptionTable.Arguments) throws -> Bool {
  var parsed = parsed
  if let id = process(namedBy: parsed.operands) {
    parsed.operands = try stallsUnderWay(in: id)
    if parsed.operands.isEmpty {
      output.error("process \(id): no stall is under way")
      return true
    }
  }
  if let picture = parsed.operands.first(where: { $0.hasSuffix(".svg") }) {
    let page = picture.dropLast(4) + ".html"
    throw UsageError("report writes no SVG: \"culprit export -o \(page)\" writes a page with a flame graph")
  }
  if parsed.has("open") {
    let others = ["brief", "format", "full", "explain", "threads"] + TextOutput.styles
    try parsed.refuse(others, "and --open exclude each other: a page has everything")
    return try openPage(parsed)
  }
  let isJSON = parsed.value("format") == "json"
  if isJSON { try parsed.refuse(["brief", "full", "explain", "threads"] + TextOutput.styles, TextOutput.isNoJSON) }
  if parsed.has("brief") {
    let others = ["full", "explain", "threads", "width", "color"]
    try parsed.refuse(others, "and --brief exclude each other: --brief prints one line per stall")
  }
  let isMarkdown = parsed.value("format") == "markdown"
  if isMarkdown {
    try parsed.refuse(["brief", "full", "explain", "threads"] + TextOutput.styles, TextOutput.isNoMarkdown)
  }
  let text = try TextOutput(parsed, width: 100)
  let stalls = try Stalls(parsed)
  let files = try Expansion(parsed.operands)
  if isJSON { return try printJSON(stalls, files) }
  let (isBrief, withThreads) = (parsed.has("brief"), parsed.has("threads"))
  let style = text.style
  var isFirst = true
  let reading = stalls.forEach(
    files,
    withThreads: true,
    noteEmpty: { text.print("\(printable($0)): no stalls\n") },
    { _, read in
      FileText(
        reports: read.map {
          isMarkdown ? $0.report.markdown : isBrief ? $0.report.summary + "\n" : $0.report.text(style)
        },
        threads: withThreads
          ? read.compactMap(\.report.otherThreads).filter { $0.count > 0 }.map { "\n" + $0.text(style) }
          : []
      )
    },
    { made in
      for report in made.reports {
        text.print((isFirst || isBrief ? "" : "\n") + report)
        isFirst = false
      }
      for threads in made.threads { text.print(threads) }
    }
  )
  stalls.printAvailableValues(reading)
  return reading.isWhole
}

private struct FileText {
  var reports: [String]
  var threads: [String]
}

private func printJSON(_ stalls: Stalls, _ files: Expansion) throws -> Bool {
  var failure: (any Error)?
  let reading = stalls.forEach(
    files,
    withThreads: true,
    { _, read in
      Result { try read.map { try $0.report.json() + "\n" } }
    },
    { lines in
      do { for line in try lines.get() { output.print(line) } } catch { failure = error }
    }
  )
  if let failure { throw failure }
  stalls.printAvailableValues(reading)
  return reading.isWhole
}
