import CulpritBlackBox
import CulpritStallRecord
import Foundation
import TestSupport
import Testing

/// A deployment while a stall lasts.
@Suite(.ownThread) struct ReplacedProgramTests {
  enum Change: CaseIterable {
    case deleted, renamed, replaced
  }

  private func names(_ directory: String, _ ending: String) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []).filter { $0.hasSuffix(ending) }
  }

  @Test(arguments: Change.allCases) func namesFunctionsOfTheProgramThatRan(change: Change) throws {
    let directory = NSTemporaryDirectory() + "culprit-replaced-\(UUID().uuidString)"
    let (program, stalls) = ("\(directory)/service", "\(directory)/stalls")
    try FileManager.default.createDirectory(atPath: stalls, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    try ChildProcess.copyProgram(ChildProcess.built("stalling-process"), to: program)
    let child = try ChildProcess(program, ["stdio", "waiting", stalls], environment: [:]) { id in
      // From then on there is a watchdog, and soon a stall.
      while !isOver(id), names(stalls, ".run").isEmpty { usleep(1000) }
      switch change {
      case .deleted: unlink(program)
      case .renamed: rename(program, program + ".old")
      case .replaced:
        try ChildProcess.copyProgram("/bin/true", to: program + ".new")
        rename(program + ".new", program)
      }
    }
    #expect(child.hasExited && child.status == 0, "\(child)")
    #expect(child.output.contains("workload_hold_stdio"), "\(child)")
    #expect(!child.output.contains("no module was mapped there"), "\(child)")
    let file = try #require(names(stalls, ".stall").first.flatMap { BlackBoxDirectory(path: stalls).stall($0) })
    let saved = file.recording.names.values.joined().compactMap(\.function)
    #expect(saved.contains("workload_hold_stdio"), "\(saved)")
  }
}
