import Foundation
import TestSupport
import Testing

/// Restarted system calls have the number of restart_syscall(2); reports must show the original name.
@Suite(.ownThread, .serialized) struct RestartedCallTests {
  @TemporaryDirectory private var directory: String

  @Test(arguments: ["restarted-sleep", "restarted-poll"], ["early", "late"])
  func namesRestartedSystemCalls(scenario: String, when: String) throws {
    let process = try ChildProcess(ChildProcess.built("stalling-process"), [scenario, when, directory])
    try #require(process.hasExited && process.status == 0, "\(process)")
    #expect(process.fact("stopped").flatMap { Int($0) } ?? 0 > 0)
    let text = process.output.split(separator: "\n").map { $0.drop { $0 == " " } }.joined(separator: " ")
    let call = scenario == "restarted-sleep" ? "clock_nanosleep (restarted)" : "poll (restarted)"
    #expect(text.contains("mostly in \(call)"), "\(process.output)")
    #expect(!text.contains("system call"), "\(process.output)")
  }
}
