import CulpritExports
import CulpritOptions
import Glibc

let exportTable = OptionTable(
  usage: ["culprit export [OPTION]... [FILE|DIRECTORY]..."],
  summary:
    "Writes the stalls in the FILEs, or standard input if there are none or for \"-\", as one export in the format of another tool. For a DIRECTORY, writes all of its stalls.",
  options: [
    CommandOption(
      "format",
      letter: "f",
      argument: "FORMAT",
      values: .words(["html"] + ExportFormat.allCases.map(\.rawValue) + ["jsonl"]),
      aliases: ["perfetto"],
      help:
        "output format: html, collapsed, pprof, firefox, chrome (alias perfetto), otlp or jsonl; default: by the suffix of OUT, or collapsed"
    ),
    CommandOption(
      "output",
      letter: "o",
      argument: "OUT",
      values: .file(),
      help: "output file, written completely or not at all; a directory for jsonl; default: standard output"
    ),
    CommandOption("raw", letter: "r", help: "omit names; pprof looks them up itself"),
    Progress.option,
  ] + Stalls.choosingOptions + Stalls.namingOptions,
  operands: .file(ending: ".stall"),
  epilogue: """
    Formats and the suffixes of OUT that select them (upper or lower case); a name without a suffix selects collapsed:
      html         reports, flame graphs and timelines, as one self-contained page (.html)
      collapsed    stacks with milliseconds, for flamegraph.pl, inferno and speedscope (.folded, .collapsed, .txt)
      pprof        gzipped profile.proto with labels, for go tool pprof (.pb.gz)
      firefox      for profiler.firefox.com (.firefox.json)
      chrome       trace events, for ui.perfetto.dev and chrome://tracing (.trace.json)
      otlp         OpenTelemetry profiles in protobuf, opentelemetry-proto 1.9.0 to 1.11.0 (.otlp)
      jsonl        one JSON row per stall and per sampled stack, for DuckDB and Spark; OUT/day=…/host=…/part-….jsonl
    """,
  examples: """
    $ culprit export stall.stall
    event loop "http";_start;main;HTTPServer.rebuild();Catalog.rebuildIndex(for:) 4050
    event loop "http";_start;main;HTTPServer.rebuild();Catalog.writeSnapshot(for:) 957
    $ culprit export stall.stall | flamegraph.pl --countname=ms >stall.svg
    $ culprit export -o stall.html stall.stall
    $ culprit export -o shop.pb.gz /var/lib/shop/stalls && go tool pprof -http=: shop.pb.gz
    $ culprit export --format=jsonl --since=7d -o /srv/rows /var/lib/shop/stalls
    """,
  exitStatus: "0 success; 1 a file was unreadable or incomplete, or OUT could not be written; 2 wrong usage"
)

func runExport(_ parsed: OptionTable.Arguments) throws -> Bool {
  let destination = try ExportDestination(parsed.value("output"))
  let form = try ExportForm(format: parsed.value("format"), path: destination.path)
  if form != .profile(.pprof) { try parsed.refuse(["raw"], "requires --format=pprof") }
  switch form {
  case .rows: return try exportRows(parsed, to: destination)
  case .page: return try exportPage(parsed, to: destination)
  case .profile(let format): return try exportProfile(parsed, format, to: destination)
  }
}

private func exportProfile(
  _ parsed: OptionTable.Arguments,
  _ format: ExportFormat,
  to destination: ExportDestination
) throws -> Bool {
  let stalls = try Stalls(parsed)
  let files = try Expansion(parsed.operands)
  try destination.requireNone(of: files)
  // An empty list of paths would mean standard input.
  guard files.isWhole || !files.paths.isEmpty else { return false }
  let file = try OutputFile(destination.path)
  guard !format.isBinary || !file.isTerminal else {
    throw UsageError("\(format.rawValue) refusing to write binary data to a terminal: use -o OUT or a pipe")
  }
  var exporter = Exporter(format, isRaw: parsed.has("raw"), version: toolVersion) { try file.write($0) }
  var failure: (any Error)?
  var reading = Stalls.FileResult()
  // Exports are oldest first.
  let store = OverflowFile()
  let extent = stalls.extentForExports(store, includesBlame: exporter.includesBlame)
  let isRead = stalls.forEachRecording(files.inOrderOfTime, found: files.found, extent) { name, file, rules, resolve in
    guard failure == nil else { return }
    let (recording, logs) = stalls.chosen(of: file, name, rules, resolve, &reading)
    do {
      try exporter.add(recording, logs: logs, store: store, rules: rules, resolve: resolve)
    } catch { failure = error }
  }
  if let failure { throw failure }
  stalls.printAvailableValues(reading)
  guard exporter.stallCount > 0 else { return false }
  try exporter.finish()
  try file.commit()
  return isRead && files.isWhole
}

private enum ExportForm: Equatable {
  case rows
  case page
  case profile(ExportFormat)

  private static let pageEndings = [".html", ".htm"]

  /// Creates the form for `--format=FORMAT`, or without it, for the suffix of `path`.
  ///
  /// - Throws: ``UsageError`` if `format` is `nil` and the suffix of `path` is unknown.
  init(format: String?, path: String) throws(UsageError) {
    switch format {
    case "jsonl": self = .rows
    case "html": self = .page
    // The option table rejects unknown names.
    case let name?: self = .profile(ExportFormat(name: name) ?? .collapsed)
    case nil: self = try Self(path: path)
    }
  }

  private init(path: String) throws(UsageError) {
    if Self.pageEndings.contains(where: path.lowercased().hasSuffix) {
      self = .page
      return
    }
    let known = ExportFormat(path: path)
    let ending = known == nil ? Self.ending(of: path) : nil
    guard let ending, !isDirectory(path) else {
      self = .profile(known ?? .collapsed)
      return
    }
    guard ending.lowercased() != ".jsonl" else {
      throw UsageError(
        "--output=\(path) is a file, but jsonl needs a directory or standard output: use --format=jsonl -o DIRECTORY"
      )
    }
    let endings = (Self.pageEndings + ExportFormat.endings.map(\.text)).joined(separator: ", ")
    throw UsageError(
      "--output=\(path) has the unknown suffix \(ending): use --format=FORMAT, or one of the suffixes \(endings)"
    )
  }

  /// Returns the suffix with its dot. A dot at the start marks a hidden file, not a suffix.
  private static func ending(of path: String) -> Substring? {
    guard let name = path.split(separator: "/").last, let point = name.lastIndex(of: "."), point != name.startIndex,
      name.index(after: point) != name.endIndex
    else { return nil }
    return name[point...]
  }
}
