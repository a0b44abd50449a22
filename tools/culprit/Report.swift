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
      help: "text, or json: a line for each stall, by docs/report-1.schema.json"
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

/// `culprit report`: returns whether every file could be read in full.
func runReport(_ parsed: OptionTable.Arguments) throws -> Bool {
  if parsed.has("brief"), parsed.has("full") { throw UsageError("--brief and --full exclude each other") }
  if parsed.has("open") {
    if let other = ["brief", "format"].first(where: parsed.has) {
      throw UsageError("--open and --\(other) exclude each other")
    }
    return try openPage(parsed)
  }
  let text = try TextOutput(parsed, width: 100)
  let stalls = try Stalls(parsed)
  let files = try Expansion(parsed.operands)
  if parsed.value("format") == "json" { return try printJSON(parsed, stalls, files) }
  let (isBrief, withThreads) = (parsed.has("brief"), parsed.has("threads") && !parsed.has("brief"))
  let style = text.style
  var (isFirst, hasSaid) = (true, false)
  let isRead = stalls.forEach(
    files,
    withThreads: true,
    { name, recording, read in
      FileText(
        remark: recording.stalls.isEmpty ? "\(printable(name)): no stall was recorded\n" : nil,
        reports: read.map { isBrief ? $0.report.summary + "\n" : $0.report.text(style) },
        threads: withThreads
          ? read.compactMap(\.report.otherThreads).filter { $0.count > 0 }.map { "\n" + $0.text(style) }
          : []
      )
    },
    { made in
      if let remark = made.remark { text.print(remark) }
      hasSaid = hasSaid || made.remark != nil
      for report in made.reports {
        text.print((isFirst || isBrief ? "" : "\n") + report)
        isFirst = false
      }
      for threads in made.threads { text.print(threads) }
    }
  )
  // What could not be read has been told.
  if isFirst, !hasSaid, isRead, files.isWhole { output.error(Stalls.noneIsChosen) }
  return isRead
}

/// What is printed of a file.
private struct FileText {
  /// What is said instead of reports; `nil` where there are some.
  var remark: String?
  var reports: [String]
  /// The other threads of the stalls that have some.
  var threads: [String]
}

/// Prints each stall in `files` as a line of JSON. Returns whether every file could be read in full.
private func printJSON(_ parsed: OptionTable.Arguments, _ stalls: Stalls, _ files: Expansion) throws -> Bool {
  if let other = ["brief", "full", "explain", "threads", "width", "color", "ascii"].first(where: parsed.has) {
    throw UsageError("--\(other) is for --format=text: JSON has all there is")
  }
  var failure: (any Error)?
  let isRead = stalls.forEach(
    files,
    withThreads: true,
    { name, recording, read in
      (name: name, isEmpty: recording.stalls.isEmpty, lines: Result { try read.map { try $0.report.json() + "\n" } })
    },
    { made in
      if made.isEmpty { output.error("\(made.name): no stall was recorded") }
      do { for line in try made.lines.get() { output.print(line) } } catch { failure = error }
    }
  )
  if let failure { throw failure }
  return isRead
}
