import CulpritCounting
import CulpritOptions
import CulpritReports
import CulpritStallRecord

private let exportTable = OptionTable(
  usage: ["culprit export --format=jsonl [OPTION]... [FILE|DIRECTORY]..."],
  summary: "Writes the stalls in the FILEs and DIRECTORYs in forms that other tools read.",
  options: [
    CommandOption("format", argument: "FORMAT", help: "jsonl: a row of JSON for each stall and each sampled stack"),
    CommandOption(
      "output",
      letter: "o",
      argument: "DIRECTORY",
      help: "where rows go, by day and host; standard output without this"
    ),
  ] + Stalls.choosingOptions + Stalls.namingOptions,
  epilogue: """
    Examples:
      $ culprit export --format=jsonl -o /srv/rows /var/lib/shop/culprit
      $ duckdb -c "SELECT sum(seconds) FROM read_json('/srv/rows/*/*/*.jsonl', hive_partitioning=true) WHERE row = 'stall'"
      $ culprit export --format=jsonl stall.stall | jq .stack
    """
)

/// `culprit export`: returns whether every file could be read, and all was written.
func runExport(_ arguments: [String]) throws -> Bool {
  let parsed = try exportTable.parse(arguments)
  if parsed.has("help") {
    output.print(exportTable.help)
    return true
  }
  guard parsed.value("format") == "jsonl" else {
    throw UsageError("--format is jsonl, not \"\(parsed.value("format") ?? "")\"")
  }
  return try exportRows(parsed)
}

/// Writes rows of the stalls that `parsed` names, each stall once.
private func exportRows(_ parsed: OptionTable.Arguments) throws -> Bool {
  let reader = try Stalls(parsed)
  let files = try Expansion(parsed.operands)
  var directory = try parsed.value("output").map { path throws(InputError) in try PartitionedOutput(directory: path) }
  // Each stall once, by host, and which of them each file has.
  var known: [String: Set<String>] = [:]
  var ids: [String: [String]] = [:]
  var failure: InputError?
  let isWhole = reader.forEach(files, withThreads: false) { _, _, stalls in
    for read in stalls where failure == nil {
      let rows = StallRows(CountedStall(read.report), read.builder.sampledStacks(of: read.stall))
      guard known[rows.host, default: []].insert(rows.id).inserted else { continue }
      if directory == nil {
        output.print(rows.lines(isPartitioned: false))
        continue
      }
      ids[rows.partition, default: []].append(rows.id)
      do throws(InputError) { try directory?.add(rows.lines(isPartitioned: true), to: rows.partition) } catch {
        failure = error
      }
    }
  }
  do throws(InputError) {
    if let failure { throw failure }
    // The same stalls, exported again, take the place of what is there.
    try directory?.finish { "part-\(StallRows.fileName(of: ids[$0] ?? [])).jsonl" }
  } catch {
    directory?.abandon()
    throw error
  }
  return isWhole
}
