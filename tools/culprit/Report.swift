import CulpritOptions
import CulpritReports
import CulpritStallRecord
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
    CommandOption("brief", letter: "b", help: "a line for each stall"),
    CommandOption("full", letter: "f", help: "all functions, the last stack, and what the evidence is worth"),
    CommandOption("explain", letter: "e", help: "say what can be done about the causes"),
    CommandOption("threads", letter: "t", help: "add the whole stacks of the other threads"),
    CommandOption(
      "color",
      argument: "WHEN",
      help: "auto, always or never; auto: on a terminal, unless NO_COLOR is set"
    ),
    CommandOption("ascii", help: "no characters but those of ASCII, as where the locale is not one of UTF-8"),
    CommandOption("open", letter: "o", help: "show them in a browser, as a page: with BROWSER, or xdg-open"),
    CommandOption("no-pager", help: "do not show the output with PAGER, or less, on a terminal"),
  ] + Stalls.choosingOptions + Stalls.namingOptions,
  epilogue: """
    Names are in the FILE, where the process or "culprit symbolize -o" has put them; others come from the files that were mapped
    into the process, as far as they are still there unchanged. Where they are not, files are looked for in the debug
    directories, by build-id (DIR/.build-id/ab/cdef.debug) or by name (DIR/shop, DIR/shop.debug), and then asked for from the
    servers in DEBUGINFOD_URLS; unset it, or interrupt, if that takes too long.

    Examples:
      $ culprit report stall.stall
      $ culprit report --width=80 --since=2h /var/lib/shop/culprit
      $ culprit report --brief /var/lib/shop/culprit | tail
      $ culprit report --open --since=1d /var/lib/shop/culprit
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
  let style = try style(parsed)
  if parsed.has("open") {
    guard !parsed.has("brief") else { throw UsageError("--open and --brief exclude each other") }
    return try openPage(parsed)
  }
  let stalls = try Stalls(parsed)
  let files = try Expansion(parsed.operands)
  if !parsed.has("no-pager") { Terminal.startPager() }
  var isFirst = true
  return stalls.forEach(files, withThreads: true) { name, recording, read in
    if recording.stalls.isEmpty { output.print("\(printable(name)): no stall was recorded\n") }
    for one in read {
      if parsed.has("brief") {
        output.print((style.isASCII ? one.report.summary.inASCII : one.report.summary) + "\n")
      } else {
        output.print((isFirst ? "" : "\n") + one.report.text(style))
      }
      isFirst = false
    }
    guard parsed.has("threads"), !parsed.has("brief") else { return }
    for threads in read.compactMap(\.report.otherThreads) where threads.count > 0 {
      let text = "\n" + threads.text(width: style.width)
      output.print(style.isASCII ? text.inASCII : text)
    }
  }
}

/// How reports are to be written, by the options `parsed` and where they are written to.
private func style(_ parsed: OptionTable.Arguments) throws -> StallReport.TextStyle {
  if parsed.has("brief"), parsed.has("full") { throw UsageError("--brief and --full exclude each other") }
  return StallReport.TextStyle(
    width: try parsed.number("width", in: 40...1000) ?? Terminal.width ?? 100,
    isFull: parsed.has("full"),
    explains: parsed.has("explain"),
    isASCII: parsed.has("ascii") || Terminal.isASCII,
    hasColor: try Terminal.hasColor(parsed.value("color"))
  )
}
