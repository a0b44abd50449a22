import CulpritReports
import CulpritStallRecord
import CulpritSymbols

/// Reads any bytes as a saved stall, resolves and reports it, writes it, and reads it again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzStall(_ data: UnsafePointer<UInt8>, _ count: Int) -> Int32 {
  let bytes = (0..<count).map { data[$0] }
  guard let file = try? StallFile(bytes: bytes) else { return 0 }
  let symbolizer = Symbolizer(modules: file.recording.modules)
  let builder = ReportBuilder(file.recording, architecture: "x86_64", resolve: symbolizer.resolve)
  for stall in file.recording.stalls { _ = builder.report(of: stall).text(width: 80, explains: true) }
  let written = StallFileWriter.file(of: file.recording)
  guard let again = try? StallFile(bytes: written), again.problems.isEmpty else {
    fatalError("the written stall cannot be read")
  }
  return 0
}
