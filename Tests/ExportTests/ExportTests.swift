import CulpritStallRecord
import SampleRecordings
import Testing

@testable import CulpritExports

@Suite struct ExportTests {
  @Test(arguments: [
    (UInt64(0), 6, "0"), (1, 6, "0.000001"), (1_500_000, 6, "1.5"), (2_000_000, 6, "2"),
    (1_763_637_865_103_000_001, 6, "1763637865103.000001"), (UInt64.max, 3, "18446744073709551.615"),
  ])
  func writesExactDecimals(nanoseconds: UInt64, decimals: Int, text: String) {
    #expect(decimal(nanoseconds, decimals) == text)
  }

  @Test(arguments: [
    ([UInt64](), [UInt64]()), ([400_000], [0]), ([600_000], [1]), ([400_000, 400_000, 400_000], [1, 0, 0]),
    ([1_400_000, 2_500_000, 100_000], [1, 3, 0]), ([999_999_999], [1000]),
  ])
  func roundingPreservesSum(nanoseconds: [UInt64], milliseconds: [UInt64]) {
    #expect(CollapsedWriter.rounded(nanoseconds) == milliseconds)
  }

  @Test(arguments: [
    ("stall.folded", ExportFormat.collapsed), ("a/b.pprof", .pprof), ("x.pb.gz", .pprof),
    ("x.firefox.json", .firefox), ("x.trace.json", .chrome), ("x.json", nil), ("-", nil),
  ])
  func infersFormatFromPath(path: String, format: ExportFormat?) {
    #expect(ExportFormat(path: path) == format)
  }

  @Test(arguments: ExportFormat.allCases) func writesNothingWithoutStalls(format: ExportFormat) throws {
    var recording = SampleRecordings.everyday()
    recording.stalls = []
    #expect(try export([recording], format).isEmpty)
    #expect(try export([], format).isEmpty)
  }

  @Test(arguments: ExportFormat.allCases) func exportsAreDeterministic(format: ExportFormat) throws {
    let recordings = [SampleRecordings.everyday(), SampleRecordings.workers()]
    let once = try export(recordings, format)
    #expect(try export(recordings, format) == once)
  }

  /// A failed write throws. Otherwise a truncated file would look complete.
  @Test(arguments: ExportFormat.allCases) func rethrowsWriteErrors(format: ExportFormat) throws {
    struct Full: Error {}
    var exporter = Exporter(format, version: "0.1.0") { _ in throw Full() }
    #expect(throws: Full.self) {
      try exporter.add(SampleRecordings.everyday()) { names($0, in: SampleRecordings.everyday()) }
      try exporter.finish()
    }
  }

  @Test(arguments: ExportFormat.allCases) func writesSmallChunks(format: ExportFormat) throws {
    let recording = SampleRecordings.large(samples: 1500, stacks: 100)
    var sizes: [Int] = []
    var exporter = Exporter(format, version: "0.1.0") { sizes.append($0.count) }
    try exporter.add(recording) { names($0, in: recording) }
    try exporter.finish()
    // The threshold of the buffer, plus the last element.
    #expect(try #require(sizes.max()) < 128 << 10)
  }

  /// In containers, many processes and threads have equal ids.
  @Test func distinguishesProcessesWithEqualID() throws {
    var other = SampleRecordings.everyday()
    other.process?.watchedSince = WallTime(nanosecondsSince1970: 1)
    let recordings = [SampleRecordings.everyday(), other]
    let events = try JSON(bytes: try export(recordings, .chrome))["traceEvents"].array
    let processes = events.filter { $0["name"].string == "process_name" }.compactMap { $0["pid"].integer }
    #expect(processes.count == 2 && Set(processes).count == 2)
    let threads = try JSON(bytes: try export(recordings, .firefox))["threads"].array
    #expect(Set(threads.compactMap { $0["pid"].string }).count == 2)
    #expect(Set(threads.compactMap { $0["tid"].integer }).count == threads.count)
  }

  /// Stalls of one process share a process entry, but each has its own tracks.
  @Test func groupsStallsOfOneProcess() throws {
    let recordings = [SampleRecordings.everyday(), SampleRecordings.everyday(stall: 2, began: 66)]
    let profile = try Pprof(try export(recordings, .pprof))
    #expect(Set(profile.samples.compactMap { $0.labels["stall"] }).count == 2)
    #expect(Set(profile.mappings.values).count == profile.mappings.count)
    #expect(Set(profile.functions.values).count == profile.functions.count)
    #expect(profile.timeNanos == recordings[0].stalls[0].began.nanosecondsSince1970)
    let events = try JSON(bytes: try export(recordings, .chrome))["traceEvents"].array
    #expect(events.filter { $0["name"].string == "process_name" }.count == 1)
    let tracks = events.filter { $0["cat"].string == "stall" && $0["ph"].string == "B" }.map { $0["tid"].integer }
    #expect(Set(tracks).count == 2)
  }

  /// A truncated stack is completed as in a report. Raw exports have no names, and contain only captured frames.
  @Test func completesTruncatedStacks() throws {
    let recording = SampleRecordings.everyday()
    let profile = try Pprof(try export([recording], .pprof))
    #expect(!profile.samples.contains { profile.names($0).contains("(callers are missing)") })
    let raw = try Pprof(try export([recording], .pprof, isRaw: true))
    let cut = raw.samples.filter { raw.names($0).last == "(callers are missing)" }
    #expect(cut.count == 1)
    #expect(raw.mappings.values.allSatisfy { !$0.hasNames } && profile.mappings.values.allSatisfy(\.hasNames))
    let addresses = Set(raw.locations.values.map(\.address))
    #expect(addresses == Set(profile.locations.values.map(\.address)))
  }

  @Test func storesInlinedFunctionsInOneLocation() throws {
    let profile = try Pprof(try export([SampleRecordings.everyday()], .pprof))
    let inlined = profile.locations.values.filter { $0.lines.count > 1 }
    #expect(inlined.count == 1)
    #expect(
      inlined[0].lines.map { profile.functions[$0.function]?.name } == ["Catalog.hash(_:)", "Catalog.insert(_:)"]
    )
    #expect(inlined[0].lines.map(\.line) == [12, 77])
  }
}
