import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

/// What the command writes of made-up stalls, as it was looked at once: the formats that no other suite has files of.
@Suite struct FormatTests {
  private static let recordings = [
    "everyday": SampleRecordings.everyday(), "workers": SampleRecordings.workers(),
    "hostile": SampleRecordings.hostile(), "waits": SampleRecordings.waits(isDeadlock: false),
    "deadlock": SampleRecordings.waits(isDeadlock: true),
  ]

  private func run(_ words: [String], on recording: Recording) throws -> String {
    let outcome = try culprit(words, input: Data(StallFileWriter.file(of: recording)))
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome.error)")
    return outcome.out
  }

  /// Runs the command on two directories: what was before, and what came after.
  private func runOnDirectories(_ words: (_ before: String, _ after: String) -> [String]) throws -> String {
    try withTemporaryDirectory { directory in
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
  }

  @Test(arguments: recordings.keys.sorted()) func reportsAsJSON(name: String) throws {
    let recording = try #require(Self.recordings[name])
    try expectGolden(try run(["report", "--format=json"], on: recording), "\(name).report.json")
  }

  @Test(arguments: recordings.keys.sorted()) func rows(name: String) throws {
    let recording = try #require(Self.recordings[name])
    try expectGolden(try run(["export", "--format=jsonl"], on: recording), "\(name).rows.jsonl")
  }

  /// Without the script and the style, which are files of their own, and the samples, which zlib has packed.
  @Test(arguments: recordings.keys.sorted()) func pages(name: String) throws {
    let recording = try #require(Self.recordings[name])
    let page = try run(["export", "--format=html"], on: recording)
    let begin = try #require(page.range(of: "<article"))
    let end = try #require(page.range(of: "</article>", options: .backwards))
    let markup = page[begin.lowerBound..<end.upperBound].replacing(/id="profile-[0-9]+">[^<]*/, with: "")
    try expectGolden(markup.replacing("<li", with: "\n<li").replacing("<section", with: "\n<section") + "\n", "\(name).html")
  }

  @Test(arguments: [["--width=100"], ["--width=60", "--details"], ["--by=cause"], ["--format=json"]])
  func problems(words: [String]) throws {
    let text = try runOnDirectories { before, after in ["top"] + words + [before, after] }
    try expectGolden(text, "top\(words.joined().replacing("=", with: "-")).txt")
  }

  @Test(arguments: [["--width=100"], ["--width=60"], ["--format=json"]]) func changes(words: [String]) throws {
    let text = try runOnDirectories { before, after in ["diff"] + words + [before, after] }
    try expectGolden(text, "diff\(words.joined().replacing("=", with: "-")).txt")
  }
}
