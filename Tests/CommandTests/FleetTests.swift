import Foundation
import TestSupport
import Testing

/// The query in tools/fleet/ for DuckDB tells of a made-up fleet's rows what `culprit top` tells of its stalls. `tools/check-fleet` does
/// the same with more of them, and with Spark.
@Suite struct FleetTests {
  @Test func duckDBCountsAsTopDoes() throws {
    let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let fleet = package.appendingPathComponent("Tests/Proofs/Fleet")
    let installed = try run(fleet.appendingPathComponent("engines"), ["duckdb"])
    try #require(installed.status == 0, "DuckDB is not installed, and cannot be: \(installed.error)")
    let python = URL(fileURLWithPath: installed.out.trimmingCharacters(in: .newlines))

    let work = NSTemporaryDirectory() + "culprit-fleet-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: work) }
    #expect(try run("fleet-stalls", ["--hosts=20", "--stalls=5", "\(work)/fleet"]).status == 0)
    let hosts = try FileManager.default.contentsOfDirectory(atPath: "\(work)/fleet").map { "\(work)/fleet/\($0)" }
    let top = try culprit(["top", "--format=json"] + hosts)
    #expect(top.status == 0, "\(top.error)")
    try Data(top.out.utf8).write(to: URL(fileURLWithPath: "\(work)/top.json"))
    // A part of them twice: a stall that has been exported again counts once.
    for part in [hosts, Array(hosts.prefix(5))] {
      let rows = try culprit(["export", "--format=jsonl", "-o", "\(work)/rows"] + part)
      #expect(rows.status == 0, "\(rows.error)")
    }
    let query = package.appendingPathComponent("tools/fleet/top.duckdb.sql").path
    let counted = try run(
      python,
      [fleet.appendingPathComponent("duckdb_top.py").path, query, "\(work)/rows", "\(work)/duckdb.csv"]
    )
    #expect(counted.status == 0, "\(counted.error)")
    let compared = try run(
      python,
      [fleet.appendingPathComponent("compare.py").path, "\(work)/top.json", "\(work)/duckdb.csv"]
    )
    #expect(compared.status == 0, "\(compared.error)")
    #expect(compared.out.contains("100 stalls"), "\(compared.out)")
  }
}
