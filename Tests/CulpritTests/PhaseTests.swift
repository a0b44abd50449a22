import CulpritStallRecord
import Foundation
import TestSupport
import Testing

/// Launches and shutdowns that take too long, and such as do not, of real processes.
@Suite(.serialized) struct PhaseTests {
  private func runScenario(_ arguments: [String], terminate: Bool = false) throws -> ChildProcess {
    try withDirectory { directory in
      let ready = "\(directory)/ready"
      let child = try ChildProcess(
        ChildProcess.built("policy-process"),
        arguments + (arguments[0] == "shutdown" ? [ready] : []),
        environment: ["SWIFT_BACKTRACE": "enable=no"]
      ) { id in
        guard terminate else { return }
        while !FileManager.default.fileExists(atPath: ready), !isOver(id) { usleep(5000) }
        kill(id, SIGTERM)
      }
      return child
    }
  }

  @Test func aLaunchThatTakesTooLongIsAStallOfTheMainThread() throws {
    let child = try runScenario(["launch", "1200", "0"])
    #expect(child.hasExited && child.status == 0 && child.fact("done") == "true", "\(child)")
    // One: neither what comes after it, nor a second watchdog's start.
    #expect(child.facts("report") == ["phase launch"])
    #expect(child.fact("culprit") == "startSlowly(_:)" && child.fact("ended") == "true")
    #expect(child.fact("main") == "true")
    for part in [
      "elapsed total CPU time (seconds): ", "elapsed application CPU time (seconds): ", "the thread's own: ",
    ] {
      #expect(child.output.contains(part), "\(child)")
    }
  }

  /// What passes before the watchdog is there counts, and nobody is blamed for it.
  @Test func theLaunchBeginsWithTheProcess() throws {
    let child = try runScenario(["launch", "1500", "1000"])
    #expect(child.facts("report") == ["phase launch"], "\(child)")
    let share = try #require(child.fact("share").flatMap { Int($0) })
    #expect(share < 60, "what nobody has seen is not startSlowly's: \(child)")
    #expect(child.output.contains("nobody is blamed for the first 1."), "\(child)")
  }

  /// What the process did before it became the program that is launched is nobody's launch.
  @Test func aLaunchBeginsWithTheProgram() throws {
    let child = try runScenario(["launch-anew"])
    #expect(child.hasExited && child.status == 0 && child.fact("done") == "true", "\(child)")
    #expect(child.facts("report").isEmpty && child.errors.isEmpty, "\(child)")
  }

  @Test func aLaunchWithinItsBudgetIsNotReported() throws {
    let child = try runScenario(["launch", "1", "0"])
    #expect(child.fact("done") == "true" && child.facts("report").isEmpty, "\(child)")
  }

  /// Where there is no room for it, the launch is not watched; that is said, and the service starts all the same.
  @Test func aLaunchThatCannotBeWatchedIsTold() throws {
    let child = try runScenario(["launch-without-room"])
    #expect(child.fact("done") == "true" && child.facts("report").isEmpty, "\(child)")
    #expect(
      child.errors.contains("culprit: 4096 sources are watched already, which is the most at a time\n"),
      "\(child)"
    )
  }

  /// Begun by SIGTERM, with a handler that was there before the watchdog, and one that came later: both are called. And
  /// by a call. The report comes although the process just exits.
  @Test(arguments: ["before", "after", "said"])
  func aShutdownThatTakesTooLongIsReportedAtTheEnd(way: String) throws {
    let child = try runScenario(["shutdown", way, "1200"], terminate: way != "said")
    #expect(child.hasExited && child.status == 0 && child.fact("handled") == "true", "\(child)")
    #expect(child.fact("prepared") == "true", "\(child)")
    #expect(child.facts("report") == ["phase shutdown"], "\(child)")
    #expect(child.fact("culprit") == "endSlowly(_:)" && child.fact("main") == "true")
    #expect(child.output.contains("elapsed application CPU time (seconds): "))
    #expect(!child.errors.contains("too short"), "\(child)")
  }

  /// Whoever exits waits for no lock, no memory and no reader of standard error, but two seconds. Where nothing can be told meanwhile,
  /// that is said.
  @Test(arguments: ["stderr", "malloc", "arena"]) func theReportOfAShutdownHoldsUpNoExit(what: String) throws {
    let child = try runScenario(["shutdown-held-up", what])
    #expect(child.hasExited && child.status == 3 && child.fact("late") == "true", "\(child)")
    let line =
      "culprit: the shutdown took too long, and two seconds at its end were too short to tell what took the time\n"
    #expect(what != "arena" || child.errors == line, "\(child)")
  }

  @Test func aShutdownWithinItsBudgetIsNotReported() throws {
    let child = try runScenario(["shutdown", "said", "1"])
    #expect(child.status == 0 && child.facts("report").isEmpty, "\(child)")
  }

  /// Without a handler SIGTERM ends the process, as ever.
  @Test func theDefaultActionStays() throws {
    let child = try runScenario(["shutdown", "default", "1"], terminate: true)
    #expect(!child.hasExited && child.status == SIGTERM, "\(child)")
    #expect(child.fact("untouched") == "true")
  }

  @Test func aHandlerThatReplacesOursIsToldOf() throws {
    let child = try runScenario(["shutdown", "replaced", "1"])
    #expect(
      child.fact("problem")
        == "SIGTERM is not noticed, because another handler has been installed for it; call shuttingDown()",
      "\(child)"
    )
  }
}
