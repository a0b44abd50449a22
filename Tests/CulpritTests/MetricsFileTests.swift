import Dispatch
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct MetricsFileTests {
  @TemporaryDirectory private var directory: String

  private func file(_ path: String, _ problems: ProblemList = ProblemList()) -> MetricsFile {
    MetricsFile(path: path, interval: .seconds(15), problems)
  }

  private func content(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

  private func names(_ directory: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
  }

  @Test func replacesFileAtomically() throws {
    let path = "\(directory)/a.prom"
    let file = file(path)
    func content(_ letter: Int) -> String { String(repeating: ["a", "b", "c"][letter % 3], count: 100_000) }
    file.write(content(0))
    let damaged = Atomic<Int>(0)
    let read = Atomic<Int>(0)
    let isOver = Finished()
    let group = DispatchGroup()
    DispatchQueue.global().async(group: group) {
      while !isOver.isSet {
        let bytes = try? Data(contentsOf: URL(fileURLWithPath: path))
        if bytes.map({ $0.count == 100_000 && $0 == Data(repeating: $0[0], count: 100_000) }) != true {
          damaged.wrappingAdd(1, ordering: .relaxed)
        }
        read.wrappingAdd(1, ordering: .relaxed)
      }
    }
    var number = 0
    while number < 300 || read.load(ordering: .relaxed) < 20 {
      number += 1
      file.write(content(number))
    }
    isOver.set()
    group.wait()
    #expect(damaged.load(ordering: .relaxed) == 0)
    let left = try names(directory)
    #expect(left == ["a.prom"])
    #expect(file.presentProblem == nil)
  }

  @Test func otherUsersCanReadFile() throws {
    let before = umask(0o077)
    defer { umask(before) }
    file("\(directory)/a.prom").write("one\n")
    var found = stat()
    #expect(stat("\(directory)/a.prom", &found) == 0 && found.st_mode & 0o7777 == 0o644)
  }

  @Test func reportsFailuresAndLeavesNoFiles() throws {
    let missing = file("\(directory)/none/a.prom")
    missing.write("one\n")
    let sentence = "cannot write metrics to \(directory)/none/a.prom: No such file or directory"
    #expect(missing.presentProblem == sentence)
    try FileManager.default.createDirectory(atPath: "\(directory)/none", withIntermediateDirectories: false)
    missing.write("two\n")
    #expect(missing.presentProblem == nil)
    #expect(try content("\(directory)/none/a.prom") == "two\n")

    let occupied = "\(directory)/b.prom"
    try FileManager.default.createDirectory(atPath: occupied, withIntermediateDirectories: false)
    let other = file(occupied)
    other.write("one\n")
    #expect(other.presentProblem?.hasSuffix("Is a directory") == true)
    #expect(try names(directory) == ["b.prom", "none"])
  }

  @Test func reportsOtherWriters() throws {
    let path = "\(directory)/a.prom"
    let problems = ProblemList()
    let (ours, theirs) = (file(path, problems), file(path))
    ours.write("ours\n")
    theirs.write("theirs\n")
    ours.write("ours again\n")
    theirs.write("theirs again\n")
    ours.write("and again\n")
    let sentence = "\(path): another process writes metrics there, too; each needs a file and labels of its own"
    #expect(problems.all == [sentence])
    theirs.write("theirs\n")
    ours.write("last\n", isLast: true)
    let last = try content(path)
    #expect(last == "theirs\n")
  }

  @Test func replacesLinks() throws {
    try Data("theirs".utf8).write(to: URL(fileURLWithPath: "\(directory)/file"))
    symlink("file", "\(directory)/a.prom")
    file("\(directory)/a.prom").write("ours\n")
    #expect(try content("\(directory)/file") == "theirs")
    #expect(try content("\(directory)/a.prom") == "ours\n")
  }
}
