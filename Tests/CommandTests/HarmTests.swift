import Foundation
import TestSupport
import Testing

/// Services that fork, close descriptors of the watchdog, or restart the watchdog.
@Suite(.ownThread) struct HarmTests {
  @TemporaryDirectory private var directory: String

  private func runScenario(
    _ arguments: String...,
    inDirectory: Bool = false,
    systemd: SystemdListener? = nil
  ) throws -> ChildProcess {
    try ChildProcess(
      ChildProcess.built("policy-process"),
      arguments + (inDirectory ? [directory] : []),
      // Disables backtraces of crashing children, which take longer than the rest of the test.
      environment: ["SWIFT_BACKTRACE": "enable=no"]
        .merging(systemd.map { ["NOTIFY_SOCKET": $0.name, "WATCHDOG_USEC": "2000000"] } ?? [:]) { $1 }
    ) { id in
      // Drains the socket; otherwise the service could send no further messages.
      while let systemd, let state = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
        !state.contains(") Z ")
      {
        _ = systemd.heard()
        usleep(5000)
      }
    }
  }

  /// Children that are forked inside a section, while other threads begin and end work, must all exit.
  @Test(arguments: ["forks", "forks-exit", "forks-release"])
  func childrenLeaveInheritedSections(_ name: String) throws {
    let process = try runScenario(name, "40")
    #expect(process.fact("exited") == "40", "\(process)")
  }

  @Test func childrenForkedDuringReportsSurvive() throws {
    let process = try runScenario("forks-report", "3")
    #expect(process.fact("exited") == "3", "\(process)")
  }

  @Test(arguments: ["forks-watch", "forks-fork"])
  func childrenAndGrandchildrenStartWatchdogs(_ name: String) throws {
    let process = try runScenario(name, "2")
    #expect(process.fact("exited") == "2", "\(process)")
  }

  @Test func watchesDaemonizedProcess() throws {
    let process = try runScenario("daemon", inDirectory: true)
    #expect(process.status == 0, "\(process)")
    var written: String?
    while written == nil {
      usleep(50_000)
      written = try? String(contentsOfFile: directory + "/daemon", encoding: .utf8)
    }
    #expect(written == "[\"daemon stall(_:)\"]\n[]\n")
  }

  @Test func executedProgramsInheritNoDescriptors() throws {
    let process = try runScenario("exec", "12", inDirectory: true)
    #expect(process.fact("inherited") == "[]", "\(process)")
  }

  @Test func childInheritsAndClosesNoDescriptors() throws {
    let process = try runScenario("fork-descriptors", inDirectory: true)
    #expect(process.fact("inherited") == "[]", "\(process)")
    #expect(process.fact("harmed") == "[]", "\(process)")
    #expect(process.fact("exited") == "1", "\(process)")
  }

  /// A thread of the child has the id of the parent's monitor thread. The child's watchdog must capture it.
  @Test(.needsThreadIDs)
  func distinguishesReusedThreadIDsInChild() throws {
    let process = try runScenario("fork-numbers")
    if process.fact("seen") == "taken" { try Test.cancel("another thread has the id") }
    #expect(process.fact("seen") == "true" && process.fact("own") == "false", "\(process)")
    #expect(process.fact("exited") == "1", "\(process)")
  }

  @Test func survivesServiceClosingAllDescriptors() throws {
    let process = try runScenario("close-all", inDirectory: true)
    #expect(process.facts("harmed") == ["[]", "[]"], "\(process)")
    #expect(process.fact("reported") == "true", "\(process)")
    // The problem is reported only if threads cannot have their own descriptor table.
    let problem = "the service has closed files that are not its own"
    let problems = process.fact("problems") ?? ""
    #expect(problems == "[]" || problems.contains(problem), "\(process)")
    let stalls = Array(repeating: "\"main stall(_:)\"", count: 5).joined(separator: ", ")
    #expect(process.fact("stalls") == "[\(stalls)]", "\(process)")
    let box = try FileManager.default.contentsOfDirectory(atPath: directory + "/box")
    #expect(box.filter { $0.hasSuffix(".stall") }.count == 5)
    let run = try #require(box.first { $0.hasSuffix(".run") })
    #expect(try String(contentsOfFile: directory + "/box/" + run, encoding: .utf8).contains("\nended "))
  }

  /// Sampling opens files of `/proc` for a moment. The service then closes and reuses their numbers, and its own files
  /// must stay intact.
  @Test func neverTouchesReusedDescriptorsWhileSampling() throws {
    let process = try runScenario("close-in-stalls", inDirectory: true)
    #expect(process.fact("rounds") == "300", "\(process)")
    #expect(process.fact("harmed") == "[]", "\(process)")
  }

  @Test func neverTouchesReusedDescriptorsAtStart() throws {
    let process = try runScenario("close-at-start", inDirectory: true)
    #expect(process.fact("harmed") == "[]", "\(process)")
  }

  @Test(arguments: [true, false]) func neverOccupiesStandardStreams(isSaved: Bool) throws {
    let process = try runScenario("no-streams", inDirectory: isSaved)
    #expect(process.fact("taken") == "[]", "\(process)")
  }

  @Test func leavesProfilingSignalsToReader() throws {
    let process = try runScenario("read-signals")
    #expect(process.fact("read") == "20", "\(process)")
  }

  @Test func threadsHoldNoDescriptors() throws {
    let process = try runScenario("thread-descriptors")
    #expect(process.fact("marked") == "200", "\(process)")
    #expect(process.fact("more").flatMap { Int($0) }.map { $0 <= 2 } == true, "\(process)")
  }

  @Test func ignoresLateCallsOnReusedSlots() throws {
    let process = try runScenario("exempt")
    let expected = ["after own", "next 0 -", "next 1 -", "next 2 -", "then own"]
    #expect(process.fact("stalls") == "\(expected)", "\(process)")
  }

  @Test func restartedWatchdogStartsClean() throws {
    let systemd = try SystemdListener("@culprit-test-\(UUID().uuidString)")
    let process = try runScenario("restarts", "3", systemd: systemd)
    #expect(process.fact("requested") == "[]", "\(process)")
    #expect(process.fact("withheld") == "[]", "\(process)")
    #expect(process.fact("pinged") == "3", "\(process)")
    #expect(!process.errors.contains("culprit: ending process"), "\(process)")
    #expect(!process.errors.contains("the process goes on"), "\(process)")
  }
}
