import CulpritCounting
import CulpritOptions
import CulpritReports
import CulpritStallRecord

/// Writes each stall once to a directory or standard output. Returns whether all files could be read completely and
/// contained a stall.
func exportRows(_ parsed: OptionTable.Arguments, to destination: ExportDestination) throws -> Bool {
  let reader = try Stalls(parsed)
  let files = try Expansion(parsed.operands)
  try destination.requireNone(of: files)
  var directory = try parsed.value("output").map { path throws(InputError) in try PartitionedOutput(directory: path) }
  // Written stall IDs by host, and by file.
  var known: [String: Set<String>] = [:]
  var ids: [String: [String]] = [:]
  var failure: InputError?
  let store = OverflowFile()
  let reading = reader.forEach(
    files,
    withThreads: false,
    store: store,
    { _, stalls in
      stalls.map { read in
        StallRows(CountedStall(read.report), read.builder.sampledStacks(of: read.stall, log: read.log, store: store))
      }
    },
    { all in
      for rows in all where failure == nil {
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
  )
  do throws(InputError) {
    if let failure { throw failure }
    reader.printAvailableValues(reading)
    guard reading.chosenCount > 0 else {
      directory?.abandon()
      return false
    }
    // A repeated export of equal stalls replaces the file.
    try directory?.finish { "part-\(StallRows.fileName(of: ids[$0] ?? [])).jsonl" }
  } catch {
    directory?.abandon()
    throw error
  }
  return reading.isWhole
}
