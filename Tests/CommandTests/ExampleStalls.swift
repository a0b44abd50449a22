import CulpritBlackBox
import CulpritStallRecord
import Foundation
import SampleRecordings
import Testing

/// The saved stalls of the examples in the command's help and in the documentation.
struct ExampleStalls {
  /// Days added to all times of stalls.
  var days = 0

  private let catalog = CulpritStallRecord.SourceLocation(file: "/src/Catalog.swift", line: 29)
  private let basket = CulpritStallRecord.SourceLocation(file: "/src/Basket.swift", line: 12)

  /// Saves the nine stalls of two problems that the example of `culprit top` counts.
  func saveWeek(in directory: String) throws {
    for (number, length) in [7010, 5000, 6000, 6000, 6000, 6000, 5190].enumerated() {
      let began = number == 6 ? "2026-11-23T08:00:00Z" : "2026-11-20T10:23:51.204Z"
      try save(number, "Catalog.rebuildIndex(for:)", catalog, milliseconds: length, began: began, in: directory)
    }
    for (number, length) in [2100, 1870].enumerated() {
      let began = "2026-11-21T14:05:12.871Z"
      try save(10 + number, "Basket.price()", basket, milliseconds: length, began: began, in: directory)
    }
  }

  /// Saves the last stall of ``saveWeek(in:)``.
  func saveLast(in directory: String) throws {
    let began = "2026-11-23T08:00:00Z"
    try save(6, "Catalog.rebuildIndex(for:)", catalog, milliseconds: 5190, began: began, in: directory)
  }

  /// Saves the two builds that the example of `culprit diff` compares, each watched for a day.
  func saveBuilds(before: String, after: String) throws {
    let began = "2026-11-20T10:23:51Z"
    let end = try time("2026-11-21T10:23:40Z")
    for side in [before, after] {
      try run(in: side, "culprit-20261120T102340.000Z-4242.run") { $0.end(at: end) }
    }
    for number in 0..<41 {
      let length = number == 0 ? 5010 : number < 40 ? 4875 : 4865
      try save(number, "Catalog.rebuildIndex(for:)", catalog, milliseconds: length, began: began, in: before)
    }
    for (number, length) in [2500, 2500, 2500, 2040].enumerated() {
      try save(number, "Catalog.rebuildIndex(for:)", catalog, milliseconds: length, began: began, in: after)
    }
    for (number, length) in [6020, 5000, 5000, 5000, 5000, 5000, 5000, 4540].enumerated() {
      try save(10 + number, "Basket.price()", basket, milliseconds: length, began: began, in: after)
    }
  }

  /// Saves a stall of `function` with one stack in all samples.
  private func save(
    _ number: Int,
    _ function: String,
    _ place: CulpritStallRecord.SourceLocation,
    milliseconds: Int,
    began: String,
    in directory: String
  ) throws {
    let address = RuntimeAddress(0x1234)
    let shop = "/usr/bin/shop"
    let frame = ResolvedFrame(function, raw: "raw", swiftModule: "Shop", in: shop, start: 0x200, at: 0x234, place)
    let later = UInt64(days) * 86_400_000_000_000
    let stall = Stall(
      "http",
      id: UInt64(number),
      thread: (4242, "shop"),
      began: WallTime(nanosecondsSince1970: try time(began).nanosecondsSince1970 + later),
      samples: [Sample(.seconds(1), 0, .running)],
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

  func write(_ recording: Recording, _ path: String) throws {
    try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: path))
  }

  func process() throws -> ObservedProcess {
    ObservedProcess(4242, "/usr/bin/shop", since: try time("2026-11-20T10:23:40Z"), host: "web-1")
  }

  func module(_ number: UInt64) -> Module {
    let start = 0x1000 + number * 0x1000
    let path = number == 0 ? "/usr/bin/shop" : "/usr/lib/lib\(number).so"
    return Module(path, number == 20 ? [] : [UInt8(number), 1], at: start..<start + 0x1000)
  }

  /// Writes the record of a run, with `lines` at its end.
  func run(in directory: String, _ name: String, _ lines: (RunRecord) -> String) throws {
    let record = RunRecord(
      identity: ProcessIdentity(process: 4242, start: 1, boot: "another", namespace: 1),
      executable: "/usr/bin/shop",
      since: try time("2026-11-20T10:23:40Z"),
      memoryKills: []
    )
    try Data((record.text + lines(record)).utf8).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
  }

  func time(_ text: String) throws -> WallTime { try #require(WallTime(text: text)) }
}
