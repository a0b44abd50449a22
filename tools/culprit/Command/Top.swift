import CulpritBlackBox
import CulpritCounting
import CulpritOptions
import CulpritStallRecord

private let limitOption = CommandOption("limit", letter: "n", argument: "COUNT", help: "print at most COUNT rows")
private let formatOption = CommandOption(
  "format",
  argument: "FORMAT",
  values: .words(["text", "json"]),
  help: "output format: text (default), or json"
)

let topTable = OptionTable(
  usage: ["culprit top [OPTION]... [FILE|DIRECTORY]..."],
  summary:
    "Ranks the culprits of the stalls in the FILEs and DIRECTORYs by total stall time. Duplicate stalls count once.",
  options: [
    CommandOption(
      "by",
      letter: "b",
      argument: "WHAT",
      values: .words(Grouping.allCases.map(\.rawValue)),
      meanings: Dictionary(uniqueKeysWithValues: Grouping.allCases.map { ($0.rawValue, $0.meaning) }),
      help: "group by culprit (default), cause, source, service, host or version"
    ),
    limitOption,
    CommandOption("details", letter: "d", help: "show hosts, versions, causes and labels of each row"),
    formatOption,
  ] + TextOutput.options + [Progress.option] + Stalls.choosingOptions + Stalls.namingOptions,
  operands: .file(ending: ".stall"),
  epilogue: """
    All stalls with the same culprit share a signature, on every host and across builds.
    """,
  examples: """
    $ culprit top --since=7d /var/lib/shop/stalls
    9 stalls of 2 kinds, 45.17 s, from 2026-11-20T10:23:51.204Z to 2026-11-23T08:00:00.000Z

    COUNT    TOTAL   WORST  LAST SEEN                 CAUSE      SIGNATURE     CULPRIT …
        7  41.20 s  7.01 s  2026-11-23T08:00:00.000Z  computing  52ccabb68e2e  Catalog.rebuildIndex(for:) (Catalog.swift:29) …
        2   3.97 s  2.10 s  2026-11-21T14:05:12.871Z  computing  8c93e2227f4e  Basket.price() (Basket.swift:12) …
    $ culprit report --signature=52cc /var/lib/shop/stalls
    $ culprit top --by=host --format=json /srv/stalls/*
    """,
  exitStatus: "0 success; 1 a file was unreadable or incomplete; 2 wrong usage"
)

func runTop(_ parsed: OptionTable.Arguments) throws -> Bool {
  let isJSON = parsed.value("format") == "json"
  if isJSON { try parsed.refuse(["details"] + TextOutput.styles, TextOutput.isNoJSON) }
  let grouping = parsed.value("by").flatMap(Grouping.init) ?? .culprit
  let limit = try parsed.number("limit", in: 1...1_000_000) ?? .max
  let text = try TextOutput(parsed, width: .max)
  let reader = try Stalls(parsed)
  let (stalls, reading) = try reader.counted(parsed.operands)
  // An empty result is meaningful only if a file could be read.
  guard reading.fileCount > 0 else { return false }
  let groups = StallGroups(stalls, by: grouping)
  if isJSON {
    output.print(groups.json(limit: limit).text + "\n")
  } else {
    text.print(groups.text(limit: limit, details: parsed.has("details"), style: text.style))
  }
  reader.printAvailableValues(reading)
  return reading.isWhole
}

let diffTable = OptionTable(
  usage: ["culprit diff [OPTION]... BEFORE AFTER"],
  summary:
    "Lists new, gone, worse and better problems between two files or directories, by increase of stall time.",
  options: [limitOption, formatOption] + TextOutput.options + [Progress.option] + Stalls.choosingOptions
    + Stalls.namingOptions,
  operands: .file(ending: ".stall"),
  epilogue: """
    If BEFORE and AFTER are directories with the records of all runs, and every run is active or ended in an orderly way,
    times are compared per hour of watching. Otherwise, totals are compared.
    """,
  examples: """
    $ culprit diff /srv/stalls/build-41 /srv/stalls/build-42
    before: 41 stalls of 1 kind, 200 s, in 24 h 0 min of watching
    after:  12 stalls of 2 kinds, 50.10 s, in 24 h 0 min of watching

    CHANGE            TOTAL   COUNT            WORST  SIGNATURE     CULPRIT …
    new     +1.69 s an hour   - → 8       - → 6.02 s  8c93e2227f4e  Basket.price() (Basket.swift:12) …
    better  −7.94 s an hour  41 → 4  5.01 s → 2.50 s  52ccabb68e2e  Catalog.rebuildIndex(for:) (Catalog.swift:29) …
    """,
  exitStatus: "0 success, with or without differences; 1 a file was unreadable or incomplete; 2 wrong usage"
)

func runDiff(_ parsed: OptionTable.Arguments) throws -> Bool {
  guard parsed.operands.count == 2 else {
    throw UsageError("diff takes two files or directories, BEFORE and AFTER, not \(parsed.operands.count)")
  }
  let isJSON = parsed.value("format") == "json"
  if isJSON { try parsed.refuse(TextOutput.styles, TextOutput.isNoJSON) }
  let limit = try parsed.number("limit", in: 1...1_000_000) ?? .max
  let text = try TextOutput(parsed, width: .max)
  let reader = try Stalls(parsed)
  var isWhole = true
  let sides = parsed.operands.compactMap { operand -> StallComparison.Side? in
    do {
      let (side, isRead) = try side(operand, reader)
      isWhole = isWhole && isRead
      return side
    } catch {
      output.error("\(error)")
      return nil
    }
  }
  // With only one readable side, all problems would seem new or gone.
  guard sides.count == 2 else { return false }
  let comparison = StallComparison(sides[0], sides[1])
  if isJSON {
    output.print(comparison.json(limit: limit).text + "\n")
  } else {
    text.print(comparison.text(limit: limit, style: text.style))
  }
  return isWhole
}

/// Returns one side of a comparison, or `nil` if nothing could be read, and whether all files could be read.
private func side(_ operand: String, _ reader: Stalls) throws -> (StallComparison.Side?, isRead: Bool) {
  var watched: Duration?
  if isDirectory(operand) {
    let box = BlackBoxDirectory(path: operand)
    watched = box.watchedTime(until: Stalls.now, reader.selection.watched)
    // Run records without stalls mean that nothing stalled.
    if try stallNames(in: operand).isEmpty, try !box.names([".run", ".told"]).isEmpty {
      return (StallComparison.Side([], watched: watched), true)
    }
  }
  let (stalls, reading) = try reader.counted([operand])
  reader.printAvailableValues(reading, in: operand)
  return (reading.fileCount > 0 ? StallComparison.Side(stalls, watched: watched) : nil, reading.isWhole)
}
