import CulpritOptions
import CulpritPages
import CulpritStallRecord
import Glibc

/// Exports a page. Returns whether all files could be read completely and contained a stall.
func exportPage(_ parsed: OptionTable.Arguments, to destination: ExportDestination) throws -> Bool {
  let stalls = try Stalls(parsed)
  let files = try Expansion(parsed.operands)
  try destination.requireNone(of: files)
  // Output errors are reported before reading.
  let file = try OutputFile(destination.path)
  guard !file.isTerminal else {
    throw UsageError("refusing to write HTML to a terminal: use -o OUT or a pipe")
  }
  let (page, isWhole) = try page(stalls, files)
  guard page.stallCount > 0 else { return false }
  try page.write { try file.write($0) }
  try file.commit()
  return isWhole
}

/// Opens a page in the browser. Returns whether all files could be read completely and contained a stall.
func openPage(_ parsed: OptionTable.Arguments) throws -> Bool {
  guard let browser = Browser.command else {
    throw InputError(
      description:
        "there is no browser: set BROWSER to a command, install xdg-utils, or use \"culprit export -o OUT.html\""
    )
  }
  let (page, isWhole) = try page(Stalls(parsed), Expansion(parsed.operands))
  guard page.stallCount > 0 else { return false }
  let path = try privateFile { write throws in try page.write(to: write) }
  output.print("The page is \(printable(path))\n")
  try Browser.open(path, browser)
  return isWhole
}

/// Returns the page, and whether all files could be read completely.
private func page(_ stalls: Stalls, _ files: Expansion) throws -> (page: PageWriter, isWhole: Bool) {
  let store = OverflowFile()
  var page = PageWriter(version: toolVersion, store: store)
  // An empty list of paths would mean standard input.
  guard files.isWhole || !files.paths.isEmpty else { return (page, false) }
  let extent = stalls.extentForExports(store, includesBlame: true)
  var reading = Stalls.FileResult()
  let isRead = stalls.forEachRecording(files.paths, found: files.found, extent) { name, file, rules, resolve in
    let (recording, logs) = stalls.chosen(of: file, name, rules, resolve, &reading)
    page.add(recording, logs: logs, rules: rules, resolve: resolve)
  }
  stalls.printAvailableValues(reading)
  return (page, isRead && files.isWhole)
}

/// Creates a temporary file that only this user can read. Returns its path.
private func privateFile(_ body: (@escaping ([UInt8]) throws -> Void) throws -> Void) throws -> String {
  let directory = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
  let ending = ".html"
  var template = Array("\(directory)/culprit-XXXXXX\(ending)".utf8CString)
  let descriptor = mkstemps(&template, Int32(ending.utf8.count))
  guard descriptor >= 0 else {
    throw InputError(description: "\(directory): cannot create a file: \(String(cString: strerror(errno)))")
  }
  _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  defer { close(descriptor) }
  let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  do {
    try body { bytes in
      let error = writeAll(bytes, to: descriptor)
      guard error == 0 else { throw InputError(path, error) }
    }
  } catch {
    unlink(path)
    throw error
  }
  return path
}
