import CulpritOptions
import CulpritReports
import CulpritStallRecord

let reportTable = OptionTable(
  usage: ["culprit report [OPTION]... [FILE|DIRECTORY]..."],
  summary:
    "Prints who is to blame for each stall in the FILEs (standard input when there are none, or for \"-\"). Of a DIRECTORY all are printed, the newest first.",
  options: [
    CommandOption(
      "format",
      argument: "FORMAT",
      values: .words(["text", "json"]),
      help: "what is printed: text, or json, a line for each stall, by docs/internals/report-1.schema.json"
    ),
    CommandOption("brief", letter: "b", help: "a line for each stall"),
    CommandOption("full", letter: "f", help: "all functions, the last stack, and what the evidence is worth"),
    CommandOption("explain", letter: "e", help: "say what can be done about the causes"),
    CommandOption("threads", letter: "t", help: "add the whole stacks of the other threads"),
    CommandOption("open", letter: "o", help: "show them in a browser, as a page: with BROWSER, or xdg-open"),
  ] + TextOutput.options + [Progress.option] + Stalls.choosingOptions + Stalls.namingOptions,
  operands: .file(ending: ".stall"),
  epilogue: """
    Names are in the FILE, where the process or "culprit symbolize -o" has put them; others come from the files that were mapped
    into the process, as far as they are still there unchanged. Where they are not, files are looked for in the debug
    directories, by build-id (DIR/.build-id/ab/cdef.debug) or by name (DIR/shop, DIR/shop.debug), and then asked for from the
    servers in DEBUGINFOD_URLS; unset it, or interrupt, if that takes too long.
    """,
  examples: """
    $ culprit report stall.stall
    $ culprit report --width=80 --since=2h /var/lib/shop/culprit
    $ culprit report --brief /var/lib/shop/culprit | tail
    $ culprit report --open --since=1d /var/lib/shop/culprit
    $ culprit report --debug-dir=/srv/builds/41 --own=shop-core --wrapper='Lock.*' stall.stall
    $ culprit report --format=json /var/lib/shop/culprit | jq -r '.signature + " " + .culprit.function.name'
    $ ssh shop cat /var/lib/shop/last.stall | culprit report
    """,
  exitStatus: "0 all is well, 1 a file could not be read or only in part, 2 wrong usage"
)

/// Runs `culprit report`. Returns whether all files could be read completely.
func runReport(_ parsed: OptionTable.Arguments) throws -> Bool {
  if parsed.has("open") {
    let others = ["brief", "format", "full", "explain", "threads"] + TextOutput.styles
    try parsed.refuse(others, "and --open exclude each other: a page has all there is")
    return try openPage(parsed)
  }
  let isJSON = parsed.value("format") == "json"
  if isJSON { try parsed.refuse(["brief", "full", "explain", "threads"] + TextOutput.styles, TextOutput.isNoJSON) }
  if parsed.has("brief") {
    let others = ["full", "explain", "threads", "width", "color"]
    try parsed.refuse(others, "and --brief exclude each other: that has a line for each stall")
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
    tellEmpty: { text.print("\(printable($0)): no stall was recorded\n") },
    { _, read in
      FileText(
        reports: read.map { isBrief ? $0.report.summary + "\n" : $0.report.text(style) },
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
  stalls.tellWhereNoneIsChosen(reading)
  return reading.isWhole
}

/// The text for a file.
private struct FileText {
  var reports: [String]
  /// The sections with other threads, for stalls that have any.
  var threads: [String]
}

/// Prints each stall in `files` as a line of JSON. Returns whether all files could be read completely.
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
  stalls.tellWhereNoneIsChosen(reading)
  return reading.isWhole
}
