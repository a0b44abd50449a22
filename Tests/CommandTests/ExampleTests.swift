import CulpritBlackBox
import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread) struct ExampleTests {
  @TemporaryDirectory private var directory: String
  private let stalls = ExampleStalls()

  /// Returns the output that the help of `command` shows for example `number`, from 0 on.
  private func example(_ command: String, _ number: Int = 0) throws -> [Substring] {
    let help = try culprit(["help", command]).out.split(separator: "\n", omittingEmptySubsequences: false)
    let starts = help.indices.filter { help[$0].hasPrefix("  $ ") }
    let lines = help[(starts[number] + 1)...].prefix { !$0.hasPrefix("  $ ") && !$0.hasPrefix("Exit status") }
    return lines.map { $0.dropFirst(2) }.reversed().drop { $0.isEmpty }.reversed()
  }

  /// Compares line by line. A line that ends in an ellipsis is compared up to the ellipsis.
  private func compare(_ outcome: Outcome, _ example: [Substring]) {
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome)")
    let lines = outcome.out.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
    let cut = zip(lines, example).map { $1.hasSuffix(" …") ? "\($0.prefix($1.count - 2)) …" : String($0) }
    #expect(lines.count == example.count && cut == example.map(String.init), "\(outcome.out)")
  }

  @Test func topMatchesHelpExample() throws {
    try stalls.saveWeek(in: directory)
    compare(try culprit(["top", directory]), try example("top"))
  }

  @Test func diffMatchesHelpExample() throws {
    let (before, after) = ("\(directory)/before", "\(directory)/after")
    for side in [before, after] {
      try FileManager.default.createDirectory(atPath: side, withIntermediateDirectories: true)
    }
    try stalls.saveBuilds(before: before, after: after)
    compare(try culprit(["diff", before, after]), try example("diff"))
  }

  @Test func infoMatchesHelpExamples() throws {
    func recording(hasEnded: Bool) throws -> Recording {
      let frame = ResolvedFrame("load()", raw: "raw", swiftModule: "Shop", in: "/usr/bin/shop", at: 0x100)
      let addresses = (0..<24).map { RuntimeAddress(0x1100 + $0) }
      return Recording(
        process: try stalls.process(),
        modules: (0..<21).map(stalls.module),
        stacks: addresses.map { Stack(frames: [.programCounter($0)], end: .outermost) },
        stalls: [
          Stall(
            "http",
            thread: (4242, "shop"),
            threshold: .milliseconds(4500),
            began: try stalls.time("2026-11-20T10:23:51.204Z"),
            samples: (0..<25).map { Sample(.milliseconds(4500 + $0 * 20), $0 % 24) },
            duration: .milliseconds(5010),
            hasEnded: hasEnded,
            others: AllThreads(
              threads: (1...3).map { ThreadSample(4242 + $0, "worker", 0, .running) },
              isComplete: true
            )
          )
        ],
        names: Dictionary(uniqueKeysWithValues: addresses.map { ($0, [frame]) })
      )
    }
    let path = "\(directory)/stall.stall"
    try stalls.write(recording(hasEnded: true), path)
    var file = try culprit(["info", path])
    file.out = file.out.replacingOccurrences(of: path, with: "stall.stall")
    compare(file, try example("info"))

    let runs = "\(directory)/runs"
    try FileManager.default.createDirectory(atPath: runs, withIntermediateDirectories: true)
    try stalls.write(recording(hasEnded: false), "\(runs)/culprit-20261120T102351.204Z-4242-1.stall")
    try stalls.run(in: runs, "culprit-20261120T102340.000Z-4242.told") { $0.told(.fatalHang) }
    compare(try culprit(["info", runs]), try example("info", 1))
  }
}
