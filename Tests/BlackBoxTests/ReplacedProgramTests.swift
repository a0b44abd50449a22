import CulpritBlackBox
import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct ReplacedProgramTests {
  @TemporaryDirectory private var directory: String

  enum Change: CaseIterable {
    case deleted, renamed, replaced
  }

  @Test(arguments: Change.allCases) func resolvesNamesOfOriginalProgram(change: Change) throws {
    let (program, stalls) = ("\(directory)/service", "\(directory)/stalls")
    try FileManager.default.createDirectory(atPath: stalls, withIntermediateDirectories: true)
    try ChildProcess.copyProgram(ChildProcess.built("blackbox-process"), to: program)
    try ChildProcess.copyProgram("/bin/true", to: program + ".new")
    // Modules are read when the stall is suspected, and again when it is declared after more than a second.
    let child = try ChildProcess(
      program,
      [stalls, "change-program", "\(change)"],
      environment: ["CULPRIT_THRESHOLD": "2s"]
    )
    #expect(child.hasExited && child.status == 0, "\(child)")
    #expect(child.output.contains("CULPRIT   holdUp(_:)"), "\(child)")
    #expect(!child.output.contains("no module was mapped there"), "\(child)")
    let file = try #require(fileNames(in: stalls, ".stall").first.flatMap { BlackBoxDirectory(path: stalls).stall($0) })
    let saved = file.recording.names.values.joined().compactMap(\.function)
    #expect(saved.contains("holdUp(_:)"), "\(saved)")
  }
}
