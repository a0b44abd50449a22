import CulpritStallRecord
import SampleRecordings
import TestSupport
import Testing

@testable import CulpritExports

@Suite struct GoldenTests {
  private static let recordings: [String: [Recording]] = [
    "everyday": [SampleRecordings.everyday()], "workers": [SampleRecordings.workers()],
    "hostile": [SampleRecordings.hostile()], "waits": [SampleRecordings.waits(isDeadlock: false)],
    "deadlock": [SampleRecordings.waits(isDeadlock: true)],
    "several": [
      SampleRecordings.everyday(), SampleRecordings.everyday(stall: 2, began: 67), SampleRecordings.workers(),
    ],
  ]

  @Test(arguments: recordings.keys.sorted(), [ExportFormat.collapsed, .firefox, .chrome])
  func textFormats(name: String, format: ExportFormat) throws {
    let recordings = try #require(Self.recordings[name])
    try expectGolden(try text(try export(recordings, format)), "\(name).\(format.rawValue)")
  }

  @Test(arguments: recordings.keys.sorted()) func openTelemetryProfiles(name: String) throws {
    let recordings = try #require(Self.recordings[name])
    try expectGolden(try OTLP(try export(recordings, .otlp)).text, "\(name).otlp.txt")
  }

  /// Compares uncompressed profiles, because the compressed bytes depend on the version of zlib.
  @Test(arguments: recordings.keys.sorted(), [false, true])
  func pprofProfiles(name: String, isRaw: Bool) throws {
    let recordings = try #require(Self.recordings[name])
    let profile = try Pprof(try export(recordings, .pprof, isRaw: isRaw))
    try expectGolden(profile.text, "\(name)\(isRaw ? "-raw" : "").pprof.txt")
  }
}
