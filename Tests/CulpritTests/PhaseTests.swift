import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct PhaseTests {
  private func run(_ arguments: String...) throws -> ChildProcess {
    try ChildProcess(ChildProcess.built("policy-process"), arguments, environment: ["SWIFT_BACKTRACE": "enable=no"])
  }

  @Test func reportsLateLaunches() throws {
    let child = try run("launch", "1200000")
    #expect(child.hasExited && child.status == 0 && child.fact("done") == "true", "\(child)")
    #expect(child.facts("report") == ["phase launch"])
    #expect(child.fact("culprit") == "startSlowly(_:)" && child.fact("ended") == "true")
    #expect(child.fact("main") == "true")
    for part in [
      "elapsed total CPU time (seconds): ", "elapsed application CPU time (seconds): ", "the thread's own: ",
    ] {
      #expect(child.output.contains(part), "\(child)")
    }
  }

  /// The 300 ms before the watchdog's start must be attributed to no function.
  @Test func launchBeginsWithProcess() throws {
    let child = try run("launch-with-head")
    #expect(child.facts("report") == ["phase launch"], "\(child)")
    let share = try #require(child.fact("share").flatMap { Int($0) })
    #expect(share <= 40, "\(child)")
    #expect(child.output.contains(", before the watchdog started, are not attributed"), "\(child)")
  }

  @Test func launchBeginsAtExec() throws {
    let child = try run("launch-anew")
    #expect(child.facts("report") == ["phase launch"], "\(child)")
    let (executed, began) = (child.fact("executed").flatMap { Int($0) }, child.fact("began").flatMap { Int($0) })
    #expect(try #require(began) >= #require(executed), "\(child)")
  }

  @Test func ignoresLaunchesWithinThreshold() throws {
    let child = try run("launch", "1000")
    #expect(child.fact("done") == "true" && child.facts("report").isEmpty, "\(child)")
  }

  @Test func launchesUnwatchedWithoutFreeSlot() throws {
    let child = try run("launch-without-room")
    #expect(child.fact("done") == "true" && child.facts("report").isEmpty, "\(child)")
    #expect(child.errors.contains("culprit: 4096 sources are watched already, the maximum\n"), "\(child)")
  }

  @Test(arguments: ["before", "after", "call"]) func reportsLateShutdowns(way: String) throws {
    let child = try run("shutdown", way, "1200")
    #expect(child.hasExited && child.status == 0 && child.fact("handled") == "true", "\(child)")
    #expect(child.facts("report") == ["phase shutdown"], "\(child)")
    #expect(child.fact("culprit") == "endSlowly(_:)" && child.fact("main") == "true")
    #expect(child.output.contains("elapsed application CPU time (seconds): "))
    #expect(!child.errors.contains("no time"), "\(child)")
  }

  @Test(arguments: ["stderr", "malloc", "arena"]) func exitsInTimeWithoutReport(obstacle: String) throws {
    let child = try run("shutdown-held-up", obstacle)
    #expect(child.hasExited && child.status == 3 && child.fact("late") == "true", "\(child)")
    let line = /culprit: no time for a full report: .* policy-process\[\d+\] phase "shutdown" .* stuck.*\n/
    #expect(obstacle != "arena" || child.errors.wholeMatch(of: line) != nil, "\(child)")
  }

  @Test func ignoresShutdownsWithinThreshold() throws {
    let child = try run("shutdown", "call", "1")
    #expect(child.status == 0 && child.facts("report").isEmpty, "\(child)")
  }

  @Test func keepsDefaultActionOfSIGTERM() throws {
    let child = try run("shutdown", "default", "1")
    #expect(!child.hasExited && child.status == SIGTERM, "\(child)")
    #expect(child.fact("untouched") == "true")
  }

  @Test func reportsReplacedSIGTERMHandlers() throws {
    let child = try run("shutdown", "replaced", "1")
    #expect(
      child.fact("problem")
        == "SIGTERM is not noticed, because another handler has been installed for it; call shuttingDown()",
      "\(child)"
    )
  }
}
