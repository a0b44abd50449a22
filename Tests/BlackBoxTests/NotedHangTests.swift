import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import CulpritBlackBox

/// Hangs in which the stuck thread holds a lock that the recorder needs.
@Suite(.ownThread) struct NotedHangTests {
  @TemporaryDirectory private var base: String
  private var directory: String { base + "/runs" }

  private func record(_ directory: String) -> RunRecord? {
    fileNames(in: directory, ".run").first.flatMap {
      try? String(contentsOfFile: "\(directory)/\($0)", encoding: .utf8)
    }
    .flatMap { RunRecord(text: $0) }
  }

  /// Whether a hang with at least 8 samples is saved, as a note or as a stall.
  private func isSaved(_ directory: String) -> Bool {
    let isNoted = record(directory)?.hangs.contains { $0.stacks.contains { $0.samples >= 8 } } == true
    let files = fileNames(in: directory, ".stall").compactMap { BlackBoxDirectory(path: directory).stall($0) }
    return isNoted || files.contains { $0.recording.stalls.contains { $0.samples.count >= 8 } }
  }

  @Test(arguments: [
    ("malloc", "workload_hold_in_malloc"), ("modules", "workload_hold_in_module_list"),
    ("stdio", "workload_hold_stdio"),
  ])
  func nextLaunchReportsCulprit(scenario: String, function: String) throws {
    let words = [scenario, "waiting", directory, "for-ever"]
    let died = try ChildProcess(
      ChildProcess.built("stalling-process"),
      words,
      environment: ["GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"]
    ) { process in
      while !isSaved(directory), !isOver(process) { usleep(10_000) }
      kill(process, SIGKILL)
    }
    #expect(died.status == SIGKILL && !died.hasExited, "\(died)")
    let wasNoted = record(directory)?.hangs.isEmpty == false
    // Without per-thread caches, the recorder waits for the locked malloc arena.
    if scenario == "malloc" { #expect(wasNoted && fileNames(in: directory, ".stall").isEmpty) }
    let launch = try ChildProcess(
      ChildProcess.built("blackbox-process"),
      [directory, "report", "--text", "--runs", "1"]
    )
    #expect(launch.fact("run")?.hasSuffix("fatal hang: ended while work was stuck") == true, "\(launch)")
    #expect(launch.facts("hang").count == 1 && launch.fact("hang")?.hasPrefix("main ") == true, "\(launch)")
    #expect(launch.output.contains(function), "\(launch)")
    #expect(fileNames(in: directory, ".stall").count == 1)
  }
}
