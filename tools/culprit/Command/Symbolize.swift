import CulpritOptions
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc

let symbolizeTable = OptionTable(
  usage: ["culprit symbolize -e FILE [OPTION]... [ADDRESS]...", "culprit symbolize -o OUT.stall SAVED.stall"],
  summary:
    "Converts addresses of a file to functions and source lines, or stores the names in saved samples, which can then be read without the binaries.",
  options: [
    CommandOption("exe", letter: "e", argument: "FILE", values: .file(), help: "the file that contains the addresses"),
    CommandOption("build-id", argument: "ID", help: "use the file with this build-id from the debug directories"),
    CommandOption("functions", letter: "f", help: "print the function's name"),
    CommandOption("inlines", letter: "i", help: "print the callers of inlined functions"),
    CommandOption("demangle", letter: "C", help: "demangle names of Swift, C++ and Rust (not D)"),
    CommandOption("addresses", letter: "a", help: "print the address"),
    CommandOption("pretty-print", letter: "p", help: "print one line per function"),
    CommandOption("basenames", letter: "s", help: "print file names without directories"),
    CommandOption(
      "format",
      argument: "FORMAT",
      values: .words(["addr2line", "json"]),
      help: "output format: addr2line (default), or json with one object per address"
    ),
    CommandOption(
      "output",
      letter: "o",
      argument: "FILE",
      values: .file(),
      help: "write the samples with their names to FILE"
    ),
    CommandOption(
      "debug-dir",
      argument: "DIR",
      values: .directory,
      isRepeatable: true,
      help: "also search DIR for debug information"
    ),
    Progress.option,
  ],
  operands: .file(ending: ".stall"),
  epilogue: """
    Addresses are hexadecimal, in the file's own address space. Without ADDRESS, they are read from standard input, one
    per line. The output is that of addr2line of the GNU binutils for the same options.

    Debug information comes from the file itself, then from a separate file found by build-id or debug link in the debug
    directories (/usr/lib/debug is last), then from the servers in DEBUGINFOD_URLS.
    """,
  examples: """
    $ culprit symbolize -e /usr/lib/libshop.so -fiC 0x1a2b0
    Catalog::find(int)
    /src/shop/catalog.cpp:31
    $ culprit symbolize -e shop --format=json <addresses
    $ culprit symbolize -o named.stall saved.stall
    """,
  exitStatus: "0 success; 1 a file could not be read; 2 wrong usage"
)

func runSymbolize(_ parsed: OptionTable.Arguments) throws -> Bool {
  let forAddresses = ["functions", "inlines", "demangle", "addresses", "pretty-print", "basenames"]
  if parsed.has("output") {
    try parsed.refuse(forAddresses + ["format"], "is for addresses, but -o is for saved samples")
  }
  if parsed.value("format") == "json" {
    try parsed.refuse(forAddresses, "requires --format=addr2line: JSON has everything")
  }
  let search = DebugSearch(directories: try debugDirectories(parsed), servers: servers)
  if let destination = parsed.value("output") { return try resolve(parsed, to: destination, search) }
  guard let path = try file(parsed, search) else { return false }
  let options = AddressText.Options(
    functions: parsed.has("functions"),
    inlines: parsed.has("inlines"),
    demangle: parsed.has("demangle"),
    addresses: parsed.has("addresses"),
    prettyPrint: parsed.has("pretty-print"),
    basenames: parsed.has("basenames")
  )
  do {
    let symbolizer = try AddressSymbolizer(path: path, search: search)
    var text = AddressText(options: options, symbolizer: symbolizer, isJSON: parsed.value("format") == "json")
    if parsed.operands.isEmpty {
      try text.answerStandardInput()
    } else {
      for operand in parsed.operands { Array(operand.utf8).withUnsafeBytes { text.answer($0[...]) } }
      text.flush()
    }
    for problem in symbolizer.problems { output.error(problem) }
    // The process ends after the output. Leaking the symbolizer avoids the cost of freeing its data.
    _ = Unmanaged.passRetained(symbolizer)
    return true
  } catch {
    output.error("\(error)")
    return false
  }
}

/// Writes the selected samples with the names of all addresses.
private func resolve(
  _ parsed: OptionTable.Arguments,
  to destination: String,
  _ search: DebugSearch
) throws -> Bool {
  guard !parsed.has("exe"), !parsed.has("build-id") else {
    throw UsageError("-o is for saved samples, but -e and --build-id are for addresses")
  }
  guard parsed.operands.count <= 1 else { throw UsageError("-o takes one saved file, not \(parsed.operands.count)") }
  var isWritten = true
  let isRead = forEachStallFile(parsed.operands) { _, file in
    var recording = file.recording
    let symbolizer = Symbolizer(modules: recording.modules, names: recording.names, search: search)
    for frame in Set(recording.stacks.flatMap(\.frames)) {
      recording.names[frame.lookupAddress] = symbolizer.resolve(frame)
    }
    for problem in symbolizer.problems { output.error(problem) }
    do { try write(StallFileWriter.file(of: recording), to: destination) } catch {
      output.error("\(error)")
      isWritten = false
    }
  }
  return isRead && isWritten
}

private func file(_ parsed: OptionTable.Arguments, _ search: DebugSearch) throws -> String? {
  if let path = parsed.value("exe") {
    guard !parsed.has("build-id") else { throw UsageError("-e and --build-id exclude each other") }
    return path
  }
  guard let text = parsed.value("build-id") else {
    throw UsageError("missing -e FILE or --build-id=ID, or -o FILE for saved samples")
  }
  guard let id = buildID(text) else { throw UsageError("--build-id is hexadecimal, not \"\(text)\"") }
  if let path = search.file(withBuildID: id) { return path }
  output.error("no file with the build-id \(text) in \(search.directories.joined(separator: ", "))")
  return nil
}

/// Returns the bytes of a hexadecimal build ID; `nil` for other text.
private func buildID(_ text: String) -> [UInt8]? {
  let digits = text.compactMap(\.hexDigitValue)
  guard !digits.isEmpty, digits.count == text.count, digits.count % 2 == 0 else { return nil }
  return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] * 16 + digits[$0 + 1]) }
}
