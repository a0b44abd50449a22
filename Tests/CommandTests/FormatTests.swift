import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

/// Compares formats that no other suite covers with golden files.
@Suite(.ownThread) struct FormatTests {
  @TemporaryDirectory private var directory: String

  private static let recordings = [
    "everyday": SampleRecordings.everyday(), "workers": SampleRecordings.workers(),
    "hostile": SampleRecordings.hostile(), "waits": SampleRecordings.waits(isDeadlock: false),
    "deadlock": SampleRecordings.waits(isDeadlock: true),
  ]

  private func written(_ words: [String], on recording: Recording) throws -> String {
    let outcome = try culprit(words, input: Data(StallFileWriter.file(of: recording)))
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome.error)")
    return outcome.out
  }

  private func runOnDirectories(_ words: (_ before: String, _ after: String) -> [String]) throws -> String {
    let (before, after) = ("\(directory)/before", "\(directory)/after")
    for (path, recordings) in [
      (before, [SampleRecordings.everyday(), SampleRecordings.everyday(stall: 2, began: 67)]),
      (after, [SampleRecordings.everyday(stall: 3, began: 90), SampleRecordings.workers()]),
    ] {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
      for (number, recording) in recordings.enumerated() {
        let file = URL(fileURLWithPath: "\(path)/culprit-20251120T11243\(number).000Z-4242-\(number).stall")
        try Data(StallFileWriter.file(of: recording)).write(to: file)
      }
    }
    let outcome = try culprit(words(before, after))
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome.error)")
    return outcome.out.replacingOccurrences(of: directory, with: "DIR")
  }

  @Test(arguments: recordings.keys.sorted()) func jsonReports(name: String) throws {
    let recording = try #require(Self.recordings[name])
    try expectGolden(try written(["report", "--format=json"], on: recording), "\(name).report.json")
  }

  @Test(arguments: recordings.keys.sorted()) func exportedRows(name: String) throws {
    let recording = try #require(Self.recordings[name])
    try expectGolden(try written(["export", "--format=jsonl"], on: recording), "\(name).rows.jsonl")
  }

  /// The golden pages leave out scripts and styles, which are separate files, and samples, which zlib compresses.
  @Test(arguments: recordings.keys.sorted()) func exportedPages(name: String) throws {
    let recording = try #require(Self.recordings[name])
    let page = try written(["export", "--format=html"], on: recording)
    let begin = try #require(page.range(of: "<article"))
    let end = try #require(page.range(of: "</article>", options: .backwards))
    let markup = page[begin.lowerBound..<end.upperBound].replacing(/id="profile-[0-9]+">[^<]*/, with: "")
    let lines = markup.replacing("<li", with: "\n<li").replacing("<section", with: "\n<section")
    try expectGolden(lines + "\n", "\(name).html")
  }

  @Test(arguments: [["--width=100"], ["--width=60", "--details"], ["--by=cause"], ["--format=json"]])
  func topOutput(words: [String]) throws {
    let text = try runOnDirectories { before, after in ["top"] + words + [before, after] }
    try expectGolden(text, "top\(words.joined().replacing("=", with: "-")).txt")
  }

  @Test(arguments: [["--width=100"], ["--width=60"], ["--format=json"]]) func diffOutput(words: [String]) throws {
    let text = try runOnDirectories { before, after in ["diff"] + words + [before, after] }
    try expectGolden(text, "diff\(words.joined().replacing("=", with: "-")).txt")
  }

  /// Names in files and symbol tables can contain any bytes. The output must be UTF-8 and mark invalid bytes.
  @Test(arguments: [
    ["report"], ["report", "--brief"], ["report", "--format=json"], ["info"], ["top"], ["top", "--format=json"],
    ["export", "--format=html"], ["export", "--format=jsonl"], ["export", "--format=collapsed"],
    ["export", "--format=firefox"], ["export", "--format=chrome"],
    ["export", "--format=pprof"], ["export", "--format=otlp"],
  ])
  func replacesInvalidUTF8InNames(words: [String]) throws {
    let file = StallFileWriter.file(of: SampleRecordings.everyday())
    let header = StallFileWriter.header().count
    var records = Array(file[header...])
    // A byte that UTF-8 never contains, the start of an incomplete sequence, and a surrogate.
    let (name, other) = (Array("Catalog".utf8), [0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0x41] as [UInt8])
    for place in records.indices.dropLast(name.count) where records[place...].starts(with: name) {
      records.replaceSubrange(place..<place + name.count, with: other)
    }
    StallFileWriter.tag(&records, 0)
    let out = "\(directory)/out"
    let outcome = try run(
      URL(fileURLWithPath: "/bin/sh"),
      ["-c", #"exec "$@" >"$0""#, out, builtProgram("culprit").path] + words,
      input: Data(file[..<header] + records)
    )
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome.error)")
    guard words.last?.hasSuffix("pprof") == false, words.last?.hasSuffix("otlp") == false else { return }
    let bytes = try Data(contentsOf: URL(fileURLWithPath: out))
    let text = try #require(String(validating: bytes, as: UTF8.self))
    #expect(words.first == "info" || text.contains("\u{fffd}"), "\(text)")
  }
}
