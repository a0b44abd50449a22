import Foundation
import TestSupport
import Testing

/// The queries in tools/fleet/ tell of a made-up fleet's rows what `culprit top` tells of its stalls. `tools/check-fleet` does the same
/// with ten times as many, and takes the time.
@Suite(.serialized) struct FleetTests {
  private static let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
  private static let fleet = package.appendingPathComponent("Tests/Proofs/Fleet")
  /// Spark runs on it.
  private static let hasJava = [
    "/usr/bin/java", (ProcessInfo.processInfo.environment["JAVA_HOME"] ?? "") + "/bin/java",
  ]
  .contains { FileManager.default.isExecutableFile(atPath: $0) }

  /// Has 1,000 hosts' stalls counted by `count`, which is given the engines' Python, the directory of the rows and the file for what
  /// it finds.
  private func compare(_ engines: [String], _ count: (URL, String, String) throws -> Outcome) throws {
    let installed = try run(Self.fleet.appendingPathComponent("engines"), engines)
    try #require(installed.status == 0, "\(engines) are not installed, and cannot be: \(installed.error)")
    let python = URL(fileURLWithPath: installed.out.trimmingCharacters(in: .newlines))

    let work = NSTemporaryDirectory() + "culprit-fleet-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: work) }
    #expect(try run("fleet-stalls", ["--hosts=1000", "--stalls=1", "\(work)/fleet"]).status == 0)
    let hosts = try FileManager.default.contentsOfDirectory(atPath: "\(work)/fleet").map { "\(work)/fleet/\($0)" }
    #expect(hosts.count == 1000)
    let top = try culprit(["top", "--format=json"] + hosts)
    #expect(top.status == 0, "\(top.error)")
    try Data(top.out.utf8).write(to: URL(fileURLWithPath: "\(work)/top.json"))
    // A part of them twice: a stall that has been exported again counts once.
    for part in [hosts, Array(hosts.prefix(50))] {
      let rows = try culprit(["export", "--format=jsonl", "-o", "\(work)/rows"] + part)
      #expect(rows.status == 0, "\(rows.error)")
    }
    let counted = try count(python, "\(work)/rows", "\(work)/found.csv")
    try #require(counted.status == 0, "\(counted.error)")
    let compared = try run(
      python,
      [Self.fleet.appendingPathComponent("compare.py").path, "\(work)/top.json", "\(work)/found.csv"]
    )
    #expect(compared.status == 0, "\(compared.error)")
    #expect(compared.out.contains("1000 stalls"), "\(compared.out)")
  }

  @Test func duckDBCountsAsTopDoes() throws {
    let query = Self.package.appendingPathComponent("tools/fleet/top.duckdb.sql").path
    try compare(["duckdb"]) { python, rows, found in
      try run(python, [Self.fleet.appendingPathComponent("duckdb_top.py").path, query, rows, found])
    }
  }

  @Test(.enabled(if: hasJava, "Spark needs Java: apt-get install openjdk-17-jre-headless")) func sparkCountsAsTopDoes()
    throws
  {
    let program = Self.package.appendingPathComponent("tools/fleet/top.spark.py").path
    try compare(["pyspark"]) { python, rows, found in
      // What it prints goes to the file; of its own words only those of a failure are wanted.
      let script = #"PYSPARK_PYTHON="$1" exec "$1" "$2" "$3" >"$4""#
      return try run(URL(fileURLWithPath: "/bin/sh"), ["-c", script, "spark", python.path, program, rows, found])
    }
  }
}
