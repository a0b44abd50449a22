import Foundation
import TestSupport
import Testing

/// What a service counts, beside what it measures itself, in a process of its own: counts are those of a process.
@Suite(.serialized) struct MetricsTests {
  @Test func whatIsCountedIsWhatTheServiceMeasured() throws {
    let directory = NSTemporaryDirectory() + "culprit-metrics-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let process = try ChildProcess(ChildProcess.built("metrics-process"), ["\(directory)/a.prom"])
    let facts = [
      "loop.count": "true", "loop.sum": "true", "loop.buckets": "true true", "export.during": "1 1 0",
      "export.age": "true", "import": "2 2 true", "import.hangs": "true", "import.sum": "true",
      "import.samples": "true", "export": "1 1 true", "export.hangs": "true", "export.sum": "true", "late": "0 0",
      "requests": "0", "sources": "true", "others": "none", "own": "true true", "mode": "stopped", "again": "3 true",
      "child.before": "0 disabled", "child.own": "1 1", "child": "0", "end": "3",
    ]
    for (name, value) in facts { #expect(process.fact(name) == value, "\(name) in \(process)") }
    // The last file of the second watchdog, and nothing else.
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["a.prom"])
    let text = try String(contentsOfFile: "\(directory)/a.prom", encoding: .utf8)
    let labels = #"quoted="a \"b\" \\c\n",service="metrics-process""#
    let section = #"kind="section",source="import""#
    #expect(text.contains("\nculprit_stalls_total{\(labels),\(section)} 3\n"), "\(text)")
    #expect(text.contains("\nculprit_watching{\(labels)} 0\n"))
    #expect(text.contains(#"source="orders \"7\"\\u{a}\\ \\u{1b}[31m \\u{d}\\u{a}}""#))
    #expect(!text.contains("\u{1b}") && !text.contains("\r") && text.hasSuffix("\n"))
  }

  /// The service goes on, is told once for each of its two watchdogs, and leaves nothing half written.
  @Test(.enabled(if: getuid() == 0, "mounting a file system needs root"))
  func aFullDiskHarmsNobody() throws {
    let directory = NSTemporaryDirectory() + "culprit-metrics-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let script = """
      mount -t tmpfs -o size=64k tmpfs "$1" && head -c 65536 /dev/zero >"$1/ballast"
      "$0" "$1/a.prom" && ls "$1"
      """
    let program = builtProgram("metrics-process").path
    let words = ["unshare", "--mount", "sh", "-c", script, program, directory]
    let outcome = try run(URL(fileURLWithPath: "/usr/bin/env"), words)
    #expect(outcome.status == 0 && outcome.out.hasSuffix("\nend=3\nballast\n"), "\(outcome)")
    let told = outcome.error.split(separator: "\n").filter { $0.contains("metrics cannot be written") }
    let sentence = "culprit: metrics cannot be written to \(directory)/a.prom: No space left on device"
    #expect(told.map(String.init) == [sentence, sentence])
  }
}
