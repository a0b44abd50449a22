import CulpritBlame
import CulpritStallRecord
import SampleRecordings
import SplitMix
import Testing

@testable import CulpritExports

/// In every format, the times of a stall add up to its duration.
@Suite struct TotalsTests {
  private static let seeds = Array(UInt64(1)...40)

  /// The total duration of all stalls. An unfinished stall lasts at least until its last sample.
  private func duration(_ recording: Recording) -> UInt64 {
    recording.stalls.reduce(0) { sum, stall in
      let last = stall.samples.map(\.age).max() ?? .zero
      return sum + (stall.hasEnded ? stall.duration : max(stall.duration, last)).wholeNanoseconds
    }
  }

  @Test(arguments: seeds) func pprofTotalsMatchStall(seed: UInt64) throws {
    let recording = RandomRecording(seed: seed).recording
    for isRaw in [false, true] {
      let profile = try Pprof(try export([recording], .pprof, isRaw: isRaw))
      #expect(profile.sampleTypes == ["samples/count", "time/nanoseconds"])
      #expect(profile.totals[1] == Int64(duration(recording)))
      #expect(profile.totals[0] == Int64(recording.stalls.reduce(0) { $0 + $1.samples.count }))
      #expect(profile.durationNanos == duration(recording))
    }
  }

  @Test(arguments: seeds) func otlpTotalsMatchStall(seed: UInt64) throws {
    let recording = RandomRecording(seed: seed).recording
    let profiles = try OTLP(try export([recording], .otlp)).profiles
    #expect(profiles.allSatisfy { $0.type == "wall/nanoseconds" })
    let samples = profiles.flatMap(\.samples)
    #expect(samples.flatMap(\.values).reduce(0, +) == duration(recording))
    for profile in profiles {
      // OpenTelemetry requires that equal identities share a sample, and that times are within the profile.
      #expect(Set(profile.samples.map(\.identity)).count == profile.samples.count)
      for sample in profile.samples {
        #expect(sample.values.count == sample.times.count && !sample.values.isEmpty)
        #expect(sample.times.allSatisfy { $0 >= profile.began && $0 < profile.began + max(profile.duration, 1) })
      }
    }
  }

  @Test(arguments: seeds) func collapsedTotalsMatchStall(seed: UInt64) throws {
    let recording = RandomRecording(seed: seed).recording
    let lines = try text(try export([recording], .collapsed)).split(separator: "\n")
    let sum = try lines.reduce(0) { sum, line in sum + (try #require(Int(line.split(separator: " ").last ?? ""))) }
    #expect(sum == Int((duration(recording) + 500_000) / 1_000_000))
    #expect(Set(lines.map { $0.split(separator: " ").dropLast().joined(separator: " ") }).count == lines.count)
  }

  @Test(arguments: seeds) func firefoxTotalsMatchStall(seed: UInt64) throws {
    let recording = RandomRecording(seed: seed).recording
    let profile = try JSON(bytes: try export([recording], .firefox))
    try checkFirefox(profile)
    var sum = 0.0
    for thread in profile["threads"].array where thread["samples"]["weightType"].string == "tracing-ms" {
      sum += thread["samples"]["weight"].array.compactMap(\.number).reduce(0, +)
      let times = thread["samples"]["time"].array.compactMap(\.number)
      #expect(zip(times, times.dropFirst()).allSatisfy(<=))
    }
    #expect(abs(sum - Double(duration(recording)) / 1e6) < 0.001)
  }

  /// Slices are nested and closed. The stall's slice is as long as the stall.
  @Test(arguments: seeds) func chromeSlicesMatchStall(seed: UInt64) throws {
    let recording = RandomRecording(seed: seed).recording
    let events = try JSON(bytes: try export([recording], .chrome))["traceEvents"].array
    var open: [[Int?]: [(name: String, since: Int)]] = [:]
    var lengths: [Int] = []
    for event in events {
      let (track, time) = ([event["pid"].integer, event["tid"].integer], event["ts"].integer ?? 0)
      switch event["ph"].string {
      case "B":
        if let outer = open[track]?.last { #expect(outer.since <= time) }
        open[track, default: []].append((try #require(event["name"].string), time))
      case "E":
        let last = open[track]?.popLast()
        let slice = try #require(last)
        #expect(slice.since <= time)
        if slice.name.hasPrefix("stall of") { lengths.append(time - slice.since) }
      default: break
      }
    }
    #expect(!open.values.contains { !$0.isEmpty })
    guard recording.stalls[0].samples.allSatisfy({ $0.threadID == nil }) else { return }
    #expect(lengths.count == 1 && abs(lengths[0] - Int(duration(recording) / 1000)) <= 1)
  }

  /// The culprit has the same time in a report and in an export.
  @Test(arguments: seeds) func culpritTimeMatchesReport(seed: UInt64) throws {
    let recording = RandomRecording(seed: seed).recording
    let blame = StallReport(of: recording.stalls[0], in: recording) { names($0, in: recording) }
    guard let culprit = blame.culprit, let name = culprit.function.frame?.function else { return }
    let profile = try Pprof(try export([recording], .pprof))
    let time = profile.samples.filter { profile.names($0).contains(name) }.reduce(0) { $0 + $1.values[1] }
    // Each sample's time is rounded to a nanosecond.
    #expect(abs(time - Int64(culprit.time.wholeNanoseconds)) <= Int64(recording.stalls[0].samples.count))
  }
}

/// Requires that all indices in a Firefox profile are within their tables, and that all columns of a table have its
/// length.
func checkFirefox(_ profile: JSON) throws {
  let shared = profile["shared"]
  func length(_ table: JSON) throws -> Int {
    let count = try #require(table["length"].integer)
    for (key, column) in try #require(table.value as? [String: Any]) where key != "length" {
      if let column = column as? [Any] { #expect(column.count == count, "\(key)") }
    }
    return count
  }
  func expect(_ column: JSON, below limit: Int, _ name: String, sentinel: Int? = nil) {
    for value in column.array where !value.isNull && value.integer != sentinel {
      #expect((0..<limit).contains(value.integer ?? -1), "\(name)")
    }
  }
  let (stacks, frames) = (try length(shared["stackTable"]), try length(shared["frameTable"]))
  let (functions, resources) = (try length(shared["funcTable"]), try length(shared["resourceTable"]))
  let (strings, sources) = (shared["stringArray"].array.count, try length(shared["sources"]))
  #expect(Set(shared["stringArray"].array.map(\.string)).count == strings)
  expect(shared["stackTable"]["frame"], below: frames, "frame")
  for (place, prefix) in shared["stackTable"]["prefix"].array.enumerated() where !prefix.isNull {
    #expect((0..<place).contains(prefix.integer ?? -1))
  }
  expect(shared["frameTable"]["func"], below: functions, "func")
  expect(shared["frameTable"]["category"], below: profile["meta"]["categories"].array.count, "category")
  expect(shared["funcTable"]["name"], below: strings, "name")
  expect(shared["funcTable"]["resource"], below: resources, "resource", sentinel: -1)
  expect(shared["funcTable"]["source"], below: sources, "source")
  expect(shared["resourceTable"]["name"], below: strings, "resource name")
  expect(shared["resourceTable"]["lib"], below: profile["libs"].array.count, "lib")
  expect(shared["sources"]["filename"], below: strings, "filename")
  let schemas = Set(profile["meta"]["markerSchema"].array.compactMap { $0["name"].string })
  for thread in profile["threads"].array {
    _ = try length(thread["samples"])
    _ = try length(thread["markers"])
    expect(thread["samples"]["stack"], below: stacks, "stack")
    expect(thread["markers"]["name"], below: strings, "marker name")
    for data in thread["markers"]["data"].array { #expect(schemas.contains(data["type"].string ?? "")) }
  }
}
