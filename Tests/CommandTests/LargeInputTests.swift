import CulpritStallRecord
import Foundation
import TestSupport
import Testing

/// Many samples, and many files.
@Suite struct LargeInputTests {
  private func withDirectory(_ body: (String) throws -> Void) throws {
    let path = NSTemporaryDirectory() + "culprit-large-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: path) }
    try body(path)
  }

  /// Runs the built program to its end, and has what it prints at `output`. Returns the most memory that it had, in bytes.
  ///
  /// A small process starts it: what the kernel tells of a child counts what its parent has, too, up to exec(2).
  @discardableResult private func peak(_ program: String, _ words: [String], output: String = "/dev/null") throws -> Int
  {
    let measuring = """
      import resource, subprocess, sys
      with open(sys.argv[1], "wb") as out:
          subprocess.run(sys.argv[2:], stdout=out, check=True)
      print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
      """
    let measured = try run(
      URL(fileURLWithPath: "/usr/bin/python3"),
      ["-c", measuring, output, builtProgram(program).path] + words
    )
    #expect(measured.status == 0, "\(measured.error)")
    return try #require(Int(measured.out.trimmingCharacters(in: .newlines)))
  }

  /// Neither reading nor an export keeps something of each sample: 90,000 more of them took 74 MiB more when they did.
  @Test func memoryDoesNotGrowWithSamples() throws {
    try withDirectory { directory in
      let (few, many) = ("\(directory)/few.stall", "\(directory)/many.stall")
      try peak("stall-samples", ["large", "10000", "20"], output: few)
      try peak("stall-samples", ["large", "100000", "20"], output: many)
      for words in [
        ["info"], ["export", "--format=collapsed"], ["export", "--format=speedscope"], ["export", "--format=pprof"],
        ["export", "--format=otlp"],
      ] {
        let (small, large) = (try peak("culprit", words + [few]), try peak("culprit", words + [many]))
        #expect(large - small < 12 << 20, "\(words): \(small) bytes, \(large) bytes")
      }
    }
  }

  /// Reports are made of a choice of so many samples; rows have all, and their times are the stall's to the nanosecond.
  @Test func rowsHaveEverySample() throws {
    try withDirectory { directory in
      let (stall, rows) = ("\(directory)/large.stall", "\(directory)/rows.jsonl")
      try peak("stall-samples", ["large", "120000", "20"], output: stall)
      try peak("culprit", ["export", "--format=jsonl", stall], output: rows)
      let text = try String(contentsOfFile: rows, encoding: .utf8)
      var (counts, seconds): ([String: Int], [String: Decimal]) = ([:], [:])
      for line in text.split(separator: "\n") {
        let row = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
        let kind = try #require(row["row"] as? String)
        counts[kind, default: 0] += try #require(row["count"] as? Int)
        // As it is written: a floating-point number would lose the last digits.
        let written = try #require(line.firstMatch(of: /"seconds":([0-9.]+)/)?.1)
        seconds[kind, default: 0] += try #require(Decimal(string: String(written)))
      }
      #expect(counts == ["stall": 120_000, "samples": 120_000])
      #expect(seconds["stall"] == seconds["samples"], "\(seconds)")
    }
  }

  /// Files are worked on by several threads; what comes of them is in the order of the files, and so is what was wrong with them.
  @Test func manyFilesStayInOrder() throws {
    try withDirectory { directory in
      try peak("stall-samples", ["everyday"], output: "\(directory)/a.stall")
      try peak("stall-samples", ["workers"], output: "\(directory)/b.stall")
      try peak("stall-samples", ["large", "3000", "20"], output: "\(directory)/c.stall")
      let whole = try Data(contentsOf: URL(fileURLWithPath: "\(directory)/a.stall"))
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
}
