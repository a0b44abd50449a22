import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritBlame
@testable import CulpritCounting
@testable import CulpritReports

@Suite struct StallRowsTests {
  private let hostile = "a\u{1b}[2J\"\\\nb\u{0}\u{202e}\u{7f}é" + String(repeating: "std::pair<int, ", count: 700)

  private func rows(_ stall: CountedStall, isPartitioned: Bool = false) throws -> [[String: Any]] {
    let stack = SampledStack(
      functions: [hostile, "main"],
      activity: StallReport.Activity(kind: .inSystemCall, systemCall: "read"),
      time: .nanoseconds(1_000_000_001),
      count: 3
    )
    let lines = StallRows(stall, [stack]).lines(isPartitioned: isPartitioned)
    #expect(lines.utf8.allSatisfy { $0 == UInt8(ascii: "\n") || $0 >= 0x20 && $0 != 0x7f })
    return try lines.split(separator: "\n").map {
      try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
    }
  }

  @Test func preservesHostileNames() throws {
    var stall = counted("7", seconds: 5.25, at: 86_399, host: hostile, labels: [hostile])
    stall.source.name = hostile
    let rows = try rows(stall)
    #expect(rows.map { $0["row"] as? String } == ["stall", "samples"])
    #expect(rows[0]["source"] as? String == hostile && rows[0]["labels"] as? [String] == [hostile])
    #expect(rows[0]["host"] as? String == hostile && rows[0]["day"] as? String == "1970-01-01")
    #expect(rows[0]["seconds"] as? Double == 5.25 && rows[0]["began"] as? String == "1970-01-01T23:59:59.000000000Z")
    #expect(rows[1]["stack"] as? [String] == [hostile, "main"] && rows[1]["count"] as? Int == 3)
    #expect(rows[1]["state"] as? String == "inSystemCall" && rows[1]["system_call"] as? String == "read")
    #expect(rows[1]["signature"] as? String == stall.signature && rows[1]["stall"] as? String == "7")
  }

  /// The path contains the day and the escaped host, and the rows omit both.
  @Test func encodesHostsInPartitionPaths() throws {
    let names = [
      "web-1.example.org": "web-1.example.org", "": "unknown", "../a b%": "..%2Fa%20b%25", "é\n": "%C3%A9%0A",
    ]
    for (host, part) in names {
      let stall = counted(at: 86_400, host: host)
      #expect(StallRows(stall, []).partition == "day=1970-01-02/host=\(part)")
      let row = try rows(stall, isPartitioned: true)[0]
      #expect(row["host"] == nil && row["day"] == nil)
    }
  }

  @Test func writesExactSeconds() {
    var object = JSONObject()
    for (key, time) in [
      ("a", Duration.nanoseconds(1)), ("b", .zero), ("c", .milliseconds(1_500)), ("d", .nanoseconds(-1_000_000_010)),
      ("e", .seconds(10)),
    ] { object.add(key, time) }
    object.add("f", Double.infinity)
    #expect(object.text == #"{"a":0.000000001,"b":0,"c":1.5,"d":-1.00000001,"e":10}"#)
  }
}
