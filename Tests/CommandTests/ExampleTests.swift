import CulpritBlackBox
import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread) struct ExampleTests {
  private static let rebuild = "Catalog.rebuildIndex(for:)"
  private static let price = "Basket.price()"

  private func time(_ text: String) throws -> WallTime { try #require(WallTime(text: text)) }

  /// Returns the output that the help of `command` shows for example `number`, from 0 on.
  private func example(_ command: String, _ number: Int = 0) throws -> [Substring] {
    let help = try culprit(["help", command]).out.split(separator: "\n", omittingEmptySubsequences: false)
    let starts = help.indices.filter { help[$0].hasPrefix("  $ ") }
    let lines = help[(starts[number] + 1)...].prefix { !$0.hasPrefix("  $ ") && !$0.hasPrefix("Exit status") }
    return lines.map { $0.dropFirst(2) }.reversed().drop { $0.isEmpty }.reversed()
  }

  /// Compares line by line. A line that ends in an ellipsis is compared up to there.
  private func compare(_ outcome: Outcome, _ example: [Substring]) {
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome)")
    let lines = outcome.out.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
    let cut = zip(lines, example).map { $1.hasSuffix(" …") ? "\($0.prefix($1.count - 2)) …" : String($0) }
    #expect(lines.count == example.count && cut == example.map(String.init), "\(outcome.out)")
  }

  /// Saves a stall of `function` with one stack in all samples.
  private func save(
    _ number: Int,
    _ function: String,
    _ place: CulpritStallRecord.SourceLocation,
    milliseconds: Int,
    began: WallTime,
    in directory: String
  ) throws {
    let address = RuntimeAddress(0x1234)
    let frame = ResolvedFrame(
      function: function,
      rawName: "raw",
      swiftModule: "Shop",
      module: "/usr/bin/shop",
      start: FileAddress(0x200),
      address: .file(FileAddress(0x234)),
      location: place
    )
    let stall = Stall(
      "http",
      id: UInt64(number),
      thread: (4242, "shop"),
      began: began,
      samples: [Sample(age: .seconds(1), stack: 0, outcome: .captured, cpuTime: nil, activity: .running)],
      duration: .milliseconds(milliseconds),
      hasEnded: true
    )
    let recording = Recording(
      process: try process(),
      modules: [module(0)],
      stacks: [Stack(frames: [.programCounter(address)], end: .outermost)],
      stalls: [stall],
      names: [address: [frame]]
    )
    try write(recording, "\(directory)/culprit-20261120T000000.000Z-4242-\(number).stall")
  }

  private func write(_ recording: Recording, _ path: String) throws {
    try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: path))
  }

  private func process() throws -> ObservedProcess {
    ObservedProcess(4242, "/usr/bin/shop", since: try time("2026-11-20T10:23:40Z"), host: "web-1")
  }

  private func module(_ number: UInt64) -> Module {
    let start = RuntimeAddress(0x1000 + number * 0x1000)
    let mapping = Module.Mapping(start: start, end: RuntimeAddress(start.value + 0x1000), fileOffset: 0)
    let path = number == 0 ? "/usr/bin/shop" : "/usr/lib/lib\(number).so"
    return Module(path: path, buildID: number == 20 ? [] : [UInt8(number), 1], mappings: [mapping])
  }

  /// Writes the record of a run that was watched for a day or killed, with `lines` at its end.
  private func run(in directory: String, _ name: String, _ lines: (RunRecord) -> String) throws {
    let record = RunRecord(
      identity: ProcessIdentity(process: 4242, start: 1, boot: "another", namespace: 1),
      executable: "/usr/bin/shop",
      since: try time("2026-11-20T10:23:40Z"),
      memoryKills: []
    )
    try Data((record.text + lines(record)).utf8).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
  }

  private let catalog = CulpritStallRecord.SourceLocation(file: "/src/Catalog.swift", line: 29)
  private let basket = CulpritStallRecord.SourceLocation(file: "/src/Basket.swift", line: 12)

  @Test func topMatchesHelpExample() throws {
    try withTemporaryDirectory { directory in
      for (number, length) in [7010, 5000, 6000, 6000, 6000, 6000, 5190].enumerated() {
        let began = try time(number == 6 ? "2026-11-23T08:00:00Z" : "2026-11-20T10:23:51.204Z")
        try save(number, Self.rebuild, catalog, milliseconds: length, began: began, in: directory)
      }
      for (number, length) in [2100, 1870].enumerated() {
        let began = try time("2026-11-21T14:05:12.871Z")
        try save(10 + number, Self.price, basket, milliseconds: length, began: began, in: directory)
      }
      compare(try culprit(["top", directory]), try example("top"))
    }
  }

  @Test func diffMatchesHelpExample() throws {
    try withTemporaryDirectory { directory in
      let began = try time("2026-11-20T10:23:51Z")
      let end = try time("2026-11-21T10:23:40Z")
      for side in ["before", "after"] {
        try FileManager.default.createDirectory(atPath: "\(directory)/\(side)", withIntermediateDirectories: true)
        try run(in: "\(directory)/\(side)", "culprit-20261120T102340.000Z-4242.run") { $0.end(at: end) }
      }
      for number in 0..<41 {
        let length = number == 0 ? 5010 : number < 40 ? 4875 : 4865
        try save(number, Self.rebuild, catalog, milliseconds: length, began: began, in: "\(directory)/before")
      }
      for (number, length) in [2500, 2500, 2500, 2040].enumerated() {
        try save(number, Self.rebuild, catalog, milliseconds: length, began: began, in: "\(directory)/after")
      }
      for (number, length) in [6020, 5000, 5000, 5000, 5000, 5000, 5000, 4540].enumerated() {
        try save(10 + number, Self.price, basket, milliseconds: length, began: began, in: "\(directory)/after")
      }
      compare(try culprit(["diff", "\(directory)/before", "\(directory)/after"]), try example("diff"))
    }
  }

  @Test func infoMatchesHelpExamples() throws {
    try withTemporaryDirectory { directory in
      func recording(hasEnded: Bool) throws -> Recording {
        let frame = ResolvedFrame(
          function: "load()",
          rawName: "raw",
          swiftModule: "Shop",
          module: "/usr/bin/shop",
          address: .file(FileAddress(0x100))
        )
        let addresses = (0..<24).map { RuntimeAddress(0x1100 + $0) }
        return Recording(
          process: try process(),
          modules: (0..<21).map(module),
          stacks: addresses.map { Stack(frames: [.programCounter($0)], end: .outermost) },
          stalls: [
            Stall(
              "http",
              thread: (4242, "shop"),
              threshold: .milliseconds(4500),
              began: try time("2026-11-20T10:23:51.204Z"),
              samples: (0..<25).map {
                Sample(age: .milliseconds(4500 + $0 * 20), stack: $0 % 24, outcome: .captured, cpuTime: nil)
              },
              duration: .milliseconds(5010),
              hasEnded: hasEnded,
              others: AllThreads(
                threads: (1...3).map {
                  ThreadSample(
                    thread: ObservedThread(id: 4242 + $0, name: "worker"),
                    stack: 0,
                    outcome: .captured,
                    cpuTime: nil,
                    activity: .running
                  )
                },
                isComplete: true
              )
            )
          ],
          names: Dictionary(uniqueKeysWithValues: addresses.map { ($0, [frame]) })
        )
      }
      let path = "\(directory)/stall.stall"
      try write(recording(hasEnded: true), path)
      var file = try culprit(["info", path])
      file.out = file.out.replacingOccurrences(of: path, with: "stall.stall")
      compare(file, try example("info"))

      let runs = "\(directory)/runs"
      try FileManager.default.createDirectory(atPath: runs, withIntermediateDirectories: true)
      try write(recording(hasEnded: false), "\(runs)/culprit-20261120T102351.204Z-4242-1.stall")
      try run(in: runs, "culprit-20261120T102340.000Z-4242.told") { $0.told(.fatalHang) }
      compare(try culprit(["info", runs]), try example("info", 1))
    }
  }
}
