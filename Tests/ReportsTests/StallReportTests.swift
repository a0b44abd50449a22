import CulpritStallRecord
import Foundation
import SampleRecordings
import Testing

@testable import CulpritBlame
@testable import CulpritReports

@Suite struct StallReportTests {
  private func decoded(_ report: StallReport) throws -> StallReport {
    try JSONDecoder().decode(StallReport.self, from: JSONEncoder().encode(report))
  }

  @Test func jsonRoundTripsReport() throws {
    var (stall, builder) = exampleStall()
    stall.notes = [
      StallNote(.hang, time: .seconds(9)), StallNote(.context, title: "orders", text: "17 waiting"),
      StallNote(.activity, title: "upload", time: .milliseconds(120)),
    ]
    let worker = ThreadSample(7, "worker", 0, .inSystemCall(202))
    stall.others = AllThreads(threads: [worker], leftOut: 2, isComplete: true)
    let report = builder.complete(builder.analysis(of: stall), repeats: 3)
    let again = try decoded(report)
    #expect(again == report)
    #expect(again.text(width: 100) == report.text(width: 100))
    #expect(again.metadata == report.metadata && again.headline == report.headline)
    #expect(again.otherThreads?.groups.first?.activity.systemCall == "futex")
    #expect(again.hang == .seconds(9))
  }

  /// The keys and forms documented in docs/internals/report-json.md.
  @Test func jsonMatchesDocumentedForm() throws {
    let (stall, builder) = exampleStall()
    let data = try JSONEncoder().encode(builder.report(of: stall))
    let json = try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
    #expect(json["version"] as? Int == 1)
    #expect(json["id"] as? String == "4242-1795170000000000000-1")
    #expect(json["durationSeconds"] as? Double == 5.01)
    #expect(json["began"] as? String == "2026-11-20T10:23:51.204000000Z")
    #expect(json["verdict"] as? String == "culprit")
    let culprit = try #require(json["culprit"] as? [String: Any])
    let function = try #require(culprit["function"] as? [String: Any])
    #expect(function["name"] as? String == "Catalog.rebuildIndex(for:)")
    #expect((function["location"] as? [String: Any])?["line"] as? Int == 42)
    #expect(culprit["share"] as? Double ?? 0 > 0.5)
    let documented = try String(
      contentsOf: URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(
        path: "../../docs/internals/report-json.md"
      ),
      encoding: .utf8
    )
    for key in json.keys { #expect(documented.contains("`\(key)`"), "\(key)") }
  }

  @Test func givesNamesakesDistinctDisplayNames() throws {
    let stacks = [1, 2].map { Stack(frames: [.programCounter(RuntimeAddress($0))], end: .outermost) }
    let recording = Recording(process: exampleProcess, stacks: stacks)
    let builder = ReportBuilder(recording) { frame in
      let module = "/opt/shop/plugin\(frame.address.value).so"
      return [ResolvedFrame("load()", raw: "load", in: module, at: frame.address.value)]
    }
    var (stall, _) = exampleStall()
    stall.samples = [0, 1, 0].enumerated()
      .map { Sample(age: .seconds($0 + 1), stack: $1, outcome: .captured, cpuTime: nil) }
    let report = builder.report(of: stall)
    #expect(Set(report.tree.map(\.function.name)) == ["load()"])
    #expect(Set(report.tree.map(\.function.displayName)) == ["load() (plugin1.so)", "load() (plugin2.so)"])
    #expect(report.text(width: 100).contains("load() (plugin2.so)"))
  }

  @Test func preservesUnknownCodes() throws {
    let (stall, builder) = exampleStall()
    var report = builder.report(of: stall)
    report.source.kind = StallReport.Source.Kind(rawValue: "coroutine")
    report.verdict = StallReport.Verdict(rawValue: "deadlock")
    let again = try decoded(report)
    #expect(again == report)
    #expect(again.source.description == "source of the kind coroutine \"http\"")
  }

  @Test func rejectsInvalidReports() throws {
    let (stall, builder) = exampleStall()
    let text = String(decoding: try JSONEncoder().encode(builder.report(of: stall)), as: UTF8.self)
    for (good, bad) in [
      (#""durationSeconds":5.01"#, #""durationSeconds":-1"#), (#""durationSeconds":5.01"#, #""durationSeconds":1e300"#),
      ("2026-11-20T10:23:51.204000000Z", "2026-02-30T10:23:51Z"), ("2026-11-20T10:23:51.204000000Z", "yesterday"),
    ] {
      #expect(text.contains(good))
      let broken = Data(text.replacingOccurrences(of: good, with: bad).utf8)
      #expect(throws: DecodingError.self) { try JSONDecoder().decode(StallReport.self, from: broken) }
    }
  }

  @Test func escapesAndTruncatesMetadata() {
    var (stall, builder) = exampleStall()
    stall.source.name = "a\u{1b}[31m"
    let report = builder.report(of: stall)
    #expect(report.metadata["code.function.name"] == "Catalog.rebuildIndex(for:)")
    #expect(report.metadata["code.line.number"] == "42")
    #expect(report.metadata["culprit.stall.duration"] == "5.010")
    #expect(report.metadata["process.pid"] == "4242")
    #expect(report.metadata.values.allSatisfy { $0.unicodeScalars.allSatisfy(isPrintable) })
    #expect(report.headline.hasPrefix("event loop \"a\\u{1b}[31m\" was stuck for 5.01 s: Catalog.rebuildIndex(for:)"))
    stall.source.name = "first " + String(repeating: "x", count: 5000) + " last"
    let name = builder.report(of: stall).metadata["culprit.source.name"] ?? ""
    #expect(name.count == 1000 && name.hasPrefix("first x") && name.contains("x…x") && name.hasSuffix("x last"))
  }

  @Test(arguments: [
    "1970-01-01T00:00:00.000000000Z", "2000-02-29T23:59:59.999999999Z", "2026-11-20T10:23:51.204000000Z",
    "2100-03-01T00:00:00.000000001Z", "2553-12-31T23:59:59.000000000Z",
  ])
  func roundTripsTimes(text: String) {
    #expect(WallTime(text: text)?.text(decimals: 9) == text)
  }

  @Test(arguments: ["2026-13-01T00:00:00Z", "2100-02-29T00:00:00Z", "2026-11-20 10:23:51Z", "2026-11-20T24:00:00Z", ""])
  func rejectsInvalidTimes(text: String) {
    #expect(WallTime(text: text) == nil)
  }
}
