import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct EndingTests {
  @TemporaryDirectory private var directory: String

  private func run(_ arguments: String...) throws -> ChildProcess {
    try ChildProcess(ChildProcess.built("policy-process"), ["end"] + arguments, environment: [:])
  }

  /// Whether the report, which can be a single line, names `source`.
  private func names(_ child: ChildProcess, _ source: String = "event loop") -> Bool {
    child.errors.contains("\(source) \"accept\" ")
  }

  @Test(arguments: [("return", 0), ("exit", 3), ("stop", 0), ("stop-at-once", 3), ("stalled", 3), ("thread", 3)])
  func reportsStallsAtExit(way: String, status: Int32) throws {
    let child = try run(way)
    #expect(child.hasExited && child.status == status && names(child), "\(child)")
  }

  @Test func keepsStatusOfQuickExits() throws {
    for _ in 0..<20 {
      let child = try run("quick")
      #expect(child.hasExited && child.status == 3 && child.errors == "", "\(child)")
    }
  }

  @Test func handlersCanExit() throws {
    let child = try run("handler")
    #expect(child.hasExited && child.status == 3 && child.fact("report") == "accept" && child.errors == "", "\(child)")
  }

  @Test func reportsReleasedWatchdogs() throws {
    let child = try run("release")
    #expect(child.hasExited && child.status == 0 && names(child, "section"), "\(child)")
    let lines = child.errors.split(separator: "\n").filter { $0.contains("was released without stop()") }
    #expect(lines.count == 1, "\(child)")
  }

  @Test func watchOutlivesItsFunction() throws {
    let child = try run("scope")
    #expect(child.status == 0 && child.errors.contains("\"Swift concurrency\""), "\(child)")
    #expect(!child.errors.contains("released"), "\(child)")
  }

  @Test func endsScopedWatchesWithTheirRelease() throws {
    let child = try run("scoped")
    #expect(child.status == 0 && child.fact("scoped") == "true", "\(child)")
  }

  private func storm(_ arguments: String...) throws -> ChildProcess {
    try ChildProcess(ChildProcess.built("policy-process"), ["storm"] + arguments, environment: [:])
  }

  private func lines(_ child: ChildProcess) -> [Substring] {
    child.errors.split(separator: "\n").filter { $0.hasPrefix("culprit: ") }
  }

  /// Exit must print no lines about requests that earlier reports have counted.
  @Test func printsNoLinesAfterAStorm() throws {
    let child = try storm("recovered", "200")
    #expect(child.hasExited && child.status == 0 && lines(child).isEmpty, "\(child)")
    #expect(child.errors.contains("200 sections of this name late since"), "\(child)")
  }

  @Test func namesTheStuckLoopFirst() throws {
    let child = try storm("terminate", "200", directory)
    let lines = lines(child)
    try #require(!child.hasExited && child.status == SIGTERM && lines.count == 2, "\(child)")
    #expect(lines[0].contains(" event loop \"accept\" has been stuck for "), "\(child)")
    #expect(lines[1].contains(" section \"request\" has been stuck for "), "\(child)")
    #expect(lines[1].hasSuffix(", limit 400 ms; 199 more of this name"), "\(child)")
  }

  @Test func reportsAKilledStormOnce() throws {
    let child = try storm("kill", "200", directory)
    #expect(!child.hasExited && child.status == SIGKILL, "\(child)")
    let next = try run("previous", directory)
    #expect(next.fact("run") == "fatalHang" && next.facts("hang") == ["accept", "request"], "\(next)")
    #expect(next.facts("count") == ["1", "200"], "\(next)")
  }

  @Test func reportsStallsOfACleanExitOnce() throws {
    let child = try run("stop-stalled", directory)
    #expect(child.status == 3 && child.errors.contains("STALL "), "\(child)")
    let next = try run("previous", directory)
    #expect(next.fact("run") == "cleanExit" && next.fact("reports") == "0", "\(next)")
  }

  /// The second report, prevented by a kill, must be delivered at the next launch.
  @Test func reportsPendingStallsAtTheNextLaunch() throws {
    let child = try run("pending", directory)
    #expect(!child.hasExited && child.status == SIGKILL, "\(child)")
    let next = try run("previous", directory)
    #expect(next.facts("hang").isEmpty && next.fact("reports") == "1", "\(next)")
  }

  /// Process 1 of a container must survive SIGTERM, which has no default action there.
  @Test(.needsNamespaces) func leavesSIGTERMOfProcess1Alone() throws {
    let namespace = ["timeout", "--signal=KILL", "100", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    let service = [ChildProcess.built("policy-process"), "end", "terminate", directory]
    let child = try ChildProcess("/usr/bin/env", namespace + service)
    #expect(child.hasExited && child.status == 3 && child.fact("ignored") == "true", "\(child)")
  }

  @Test func handlersCanStopAndExit() throws {
    let child = try run("handler-stops")
    #expect(child.status == 3 && child.fact("report") == "accept" && child.errors == "", "\(child)")
  }

  @Test(arguments: [("nothing", 1), ("loop", 0), ("section", 0), ("activity", 0), ("off", 0)])
  func reportsWatchdogsWithoutSources(use: String, count: Int) throws {
    let child = try ChildProcess(ChildProcess.built("policy-process"), ["idle", use], environment: [:])
    let lines = child.errors.split(separator: "\n").filter { $0.contains("the watchdog has no sources 10 s after") }
    #expect(child.status == 0 && lines.count == count, "\(child)")
  }

  @Test(
    arguments: [
      ("exit", 3, "cleanExit"), ("stalled", 3, "cleanExit"), ("terminate", -SIGTERM, "terminated"),
      ("terminate-stalled", -SIGTERM, "fatalHang"), ("kill", -SIGKILL, nil), ("_exit", 3, nil),
      ("ignored", 3, "cleanExit"),
      ("served", 7, "killed"), ("child", 0, "cleanExit"),
    ] as [(String, Int32, String?)]
  )
  func reportsPreviousEndAtNextLaunch(way: String, status: Int32, ending: String?) throws {
    let child = try run(way, directory)
    #expect(child.status == abs(status) && child.hasExited == (status >= 0), "\(child)")
    #expect(way != "child" || child.fact("child") == "-1", "\(child)")
    let next = try run("previous", directory)
    let endings = next.facts("run")
    #expect(endings.count == 1 && (ending == nil || endings.first == ending), "\(next)")
    #expect(next.fact("signal") == (way.hasPrefix("terminate") ? "\(SIGTERM)" : "0"), "\(next)")
    // A stall that ended less than a tick ago counts as unfinished.
    if ending == nil { #expect(["killed", "fatalHang"].contains(endings.first), "\(next)") }
    #expect(stallFiles(in: directory).count == 1)
    if ending == "fatalHang" { #expect(next.fact("hang") == "accept" && names(child), "\(child) \(next)") }
  }
}
