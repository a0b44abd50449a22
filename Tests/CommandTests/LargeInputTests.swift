import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread, .needs("python3")) struct LargeInputTests {
  @TemporaryDirectory private var directory: String

  /// Writes a stall with 20 distinct stacks to `path`.
  private func write(samples: Int, depth: Int = 40, to path: String) throws {
    try #require(FileManager.default.createFile(atPath: path, contents: nil))
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    try SampleRecordings.largeFile(samples: samples, stacks: 20, depth: depth) { try file.write(contentsOf: $0) }
  }

  /// Runs the command with its output in `output`. Returns its peak memory in bytes.
  ///
  /// A small process starts the command, because a child's peak includes the memory of its parent up to exec(2).
  @discardableResult private func peak(_ words: [String], output: String = "/dev/null") throws -> Int {
    let measuring = """
      import resource, subprocess, sys
      with open(sys.argv[1], "wb") as out:
          subprocess.run(sys.argv[2:], stdout=out, check=True)
      print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
      """
    let measured = try run(
      URL(fileURLWithPath: "/usr/bin/python3"),
      ["-c", measuring, output, builtProgram("culprit").path] + words
    )
    #expect(measured.status == 0, "\(measured.error)")
    return try #require(Int(measured.out.trimmingCharacters(in: .newlines)))
  }

  @Test func memoryDoesNotGrowWithSamples() throws {
    let (few, many) = ("\(directory)/few.stall", "\(directory)/many.stall")
    try write(samples: 5000, to: few)
    try write(samples: 40_000, to: many)
    for words in [
      ["info"], ["export", "--format=collapsed"], ["export", "--format=pprof"],
      ["export", "--format=otlp"],
    ] {
      let (small, large) = (try peak(words + [few]), try peak(words + [many]))
      #expect(large - small < 12 << 20, "\(words): \(small) bytes, \(large) bytes")
    }
  }

  /// The rows of a large stall must contain every sample, although reports use a selection.
  @Test func rowsContainEverySample() throws {
    let (stall, rows) = ("\(directory)/large.stall", "\(directory)/rows.jsonl")
    // Shallow stacks, because the CPU time of blame grows with the depth.
    try write(samples: 120_000, depth: 3, to: stall)
    try peak(["export", "--format=jsonl", stall], output: rows)
    let text = try String(contentsOfFile: rows, encoding: .utf8)
    var (counts, seconds): ([String: Int], [String: Decimal]) = ([:], [:])
    for line in text.split(separator: "\n") {
      let row = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      let kind = try #require(row["row"] as? String)
      counts[kind, default: 0] += try #require(row["count"] as? Int)
      // Reads the digits as text, because a floating-point number would lose the last ones.
      let written = try #require(line.firstMatch(of: /"seconds":([0-9.]+)/)?.1)
      seconds[kind, default: 0] += try #require(Decimal(string: String(written)))
    }
    #expect(counts == ["stall": 120_000, "samples": 120_000])
    #expect(seconds["stall"] == seconds["samples"], "\(seconds)")
  }

  @Test func preservesOrderOfManyFiles() throws {
    let whole = Data(StallFileWriter.file(of: SampleRecordings.everyday()))
    try whole.write(to: URL(fileURLWithPath: "\(directory)/a.stall"))
    try Data(StallFileWriter.file(of: SampleRecordings.workers()))
      .write(to: URL(fileURLWithPath: "\(directory)/b.stall"))
    try write(samples: 200, to: "\(directory)/c.stall")
    try whole.prefix(whole.count - 7).write(to: URL(fileURLWithPath: "\(directory)/d.stall"))
    try Data("no stall".utf8).write(to: URL(fileURLWithPath: "\(directory)/e.stall"))
    let paths = (0..<40).map { number in "\(directory)/\("cabdecabbe".dropFirst(number % 10).first ?? "a").stall" }
    for words in [["--brief"], ["--format=json"]] {
      var alone: [String: Outcome] = [:]
      for path in Set(paths) { alone[path] = try culprit(["report"] + words + [path]) }
      let all = try culprit(["report"] + words + paths)
      #expect(all.status == 1)
      #expect(all.out == paths.compactMap { alone[$0]?.out }.joined())
      #expect(all.error == paths.compactMap { alone[$0]?.error }.joined())
    }
  }
}
