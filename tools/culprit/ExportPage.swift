import CulpritOptions
import CulpritPages
import CulpritStallRecord

/// Writes a page of the stalls that `parsed` names to `destination`. Returns whether every file could be read in full, and there was a
/// stall.
func exportPage(_ parsed: OptionTable.Arguments, to destination: String) throws -> Bool {
  let stalls = try Stalls(parsed)
  let files = try Expansion(parsed.operands)
  // Nothing to read is not standard input.
  guard files.isWhole || !files.paths.isEmpty else { return false }
  let file = try OutputFile(destination)
  guard !file.isTerminal else { throw UsageError("html is for a browser, and not for a terminal: use -o OUT, or a pipe") }
  var page = PageWriter(version: toolVersion)
  let isRead = stalls.forEachRecording(files.paths, found: files.found) { name, recording, rules, resolve in
    if recording.stalls.isEmpty { output.error("\(name): no stall was recorded") }
    page.add(stalls.chosen(of: recording, rules, resolve), rules: rules, resolve: resolve)
  }
  guard page.stallCount > 0 else { return false }
  try page.write { try file.write($0) }
  try file.commit()
  return isRead && files.isWhole
}
