import CulpritBlackBox
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct SignalTests {
  @TemporaryDirectory private var directory: String

  private func runScenario(_ arguments: [String]) throws -> ChildProcess {
    try ChildProcess(ChildProcess.built("policy-process"), arguments, environment: ["SWIFT_BACKTRACE": "enable=no"])
  }

  private func bit(_ signal: Int32) -> UInt64 { 1 << UInt64(signal - 1) }

  @Test func blocksSignalsOutsideHandlers() throws {
    let child = try runScenario(["masks", directory])
    #expect(child.hasExited && child.status == 0 && child.fact("complete") == "true", "\(child)")
    let expected = String(bit(SIGUSR1) | bit(SIGUSR2), radix: 16)
    for place in ["began", "hang", "stall", "terminate", "leaked", "context"] {
      #expect(Set(child.facts("mask.\(place)")) == [expected], "\(place): \(child)")
    }
    // Probe and expiration closures can run before SIGUSR2 is blocked.
    for place in ["ping", "expiration"] {
      let mask = child.fact("mask.\(place)")
      #expect(mask == expected || mask == String(bit(SIGUSR1), radix: 16), "\(place): \(child)")
    }
    #expect(Set(child.facts("child")) == [expected], "\(child)")
    let threads = child.output.split(separator: "\n").filter { $0.hasPrefix("thread.") }
    let names = [
      "disk", "enqueue", "escalat", "expire", "handler", "monitor", "ping", "record", "report", "veto", "worker",
    ]
    for name in names {
      #expect(threads.contains { $0.hasPrefix("thread.culprit-\(name)=") }, "\(name): \(child)")
    }
    let faults = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGPROF].map(bit).reduce(0, |)
    let unblockable = [SIGKILL, SIGSTOP, 32, 33].map(bit).reduce(0, |)
    for thread in threads {
      let mask = UInt64(thread.split(separator: "=").last ?? "", radix: 16)
      #expect(mask.map { $0 | unblockable } == ~faults, "\(thread)")
    }
  }

  @Test func leavesBlockedSignalsToService() throws {
    let child = try runScenario(["signalfd"])
    #expect(child.hasExited && child.status == 0 && child.fact("ended") == "true", "\(child)")
    #expect(child.facts("survived") == ["idle", "handling", "after"] && child.fact("handling") == "true")
  }

  @Test func sendsNoSignalsToThreadsAwaitingThem() throws {
    let child = try runScenario(["wait-for-signals"])
    #expect(child.hasExited && child.status == 0 && child.facts("came") == ["0", "0", "0"], "\(child)")
  }

  @Test(arguments: ["pipe", "file"]) func survivesUnusableStandardError(way: String) throws {
    let child = try runScenario(["report-to-nobody", way, "\(directory)/errors"])
    #expect(child.hasExited && child.status == 0 && child.fact("ended") == "true", "\(child)")
    #expect(child.fact("told") == "true" && child.fact("pending") == "0" && child.fact("blocked") == "0", "\(child)")
  }

  private struct Death {
    var child: ChildProcess
    var verdict: String?
    var launch: ChildProcess
  }

  private func die(_ arguments: [String], as scenario: String = "die", asInit: Bool = false) throws -> Death {
    try withTemporaryDirectory { directory in
      let service = [ChildProcess.built("policy-process"), scenario, directory] + arguments
      let namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
      let child = try ChildProcess(
        "/usr/bin/env",
        asInit ? ["timeout", "--signal=KILL", "60"] + namespace + service : service,
        environment: ["SWIFT_BACKTRACE": "enable=no"]
      )
      let launch = try ChildProcess(ChildProcess.built("blackbox-process"), [directory, "report", "--runs", "1"])
      let verdict = launch.facts("run").last.map { String($0.drop { $0 != " " }.dropFirst()) }
      return Death(child: child, verdict: verdict, launch: launch)
    }
  }

  private static let deaths: [(way: String, signal: Int32)] = [
    ("breakpoint", SIGTRAP), ("seccomp", SIGSYS), ("unmapped", SIGSEGV), ("cut-file", SIGBUS),
    ("no-instruction", SIGILL), ("division", SIGFPE), ("abort", SIGABRT),
  ]

  @Test func fatalSignalsStayFatal() throws {
    let sent = [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT].flatMap { signal in
      ["raise", "kill", "queue"].map { (way: "\($0)-\(signal)", signal: signal) }
    }
    for (way, signal) in Self.deaths + sent {
      let death = try die([way])
      #expect(!death.child.hasExited && death.child.status == signal, "\(way): \(death)")
      #expect(death.child.facts("survived") == [], "\(way): \(death)")
      #expect(death.verdict == "crash: signal \(signal)", "\(way): \(death)")
    }
  }

  @Test func notesCrashesOfSeveralThreads() throws {
    for _ in 0..<10 {
      let death = try die(["together"])
      #expect(!death.child.hasExited && death.child.status == SIGILL, "\(death)")
      #expect(death.verdict == "crash: signal \(SIGILL)", "\(death)")
    }
  }

  @Test func notesCrashesOfItsOwnThread() throws {
    for signal in [SIGSEGV, SIGTRAP] {
      let death = try die(["\(signal)"], as: "die-noting")
      #expect(!death.child.hasExited && death.child.status == signal, "\(death)")
      #expect(death.child.facts("survived") == [] && death.verdict == "crash: signal \(signal)", "\(death)")
    }
  }

  /// An earlier handler recovers from the fault, so no crash must be noted.
  @Test func notesNoCrashesAfterRecovery() throws {
    for (way, signal, result) in [
      ("breakpoint", SIGTRAP, -1), ("seccomp", SIGSYS, -1), ("unmapped", SIGSEGV, 0), ("kill-\(SIGABRT)", SIGABRT, -1),
      ("raise-\(SIGBUS)", SIGBUS, -1),
    ] {
      let lived = try die([way, "\(signal)", "returning"])
      let times = way == "unmapped" ? [1, 1, 1] : [1, 2, 3]
      #expect(lived.child.facts("survived") == times.map { "\(result) \($0)" }, "\(way): \(lived)")
      #expect(lived.child.status == SIGKILL && lived.verdict == RunVerdict.killed.description, "\(way): \(lived)")

      let died = try die([way, "\(signal)", "returning", "no-instruction"])
      #expect(died.child.status == SIGILL && died.verdict == "crash: signal \(SIGILL)", "\(way): \(died)")
    }
  }

  @Test func abortEndsProcessAfterHandlerReturns() throws {
    let died = try die(["abort", "\(SIGABRT)", "returning"])
    #expect(died.child.status == SIGABRT && died.verdict == "crash: signal \(SIGABRT)", "\(died)")
  }

  @Test func callsFormerHandlers() throws {
    let jumped = try die(["unmapped", "\(SIGSEGV)", "jumping"])
    #expect(jumped.child.facts("survived") == ["-3 1", "-3 2", "-3 3"] && jumped.child.status == SIGKILL, "\(jumped)")
    for (way, signal) in Self.deaths where way != "abort" {
      let died = try die([way, "\(signal)", "dying"])
      #expect(!died.child.hasExited && died.child.status == signal, "\(way): \(died)")
      #expect(died.child.facts("survived") == [] && died.verdict == "crash: signal \(signal)", "\(way): \(died)")
    }
  }

  /// A crash reporter passes the fault to the handler of the first, stopped watchdog.
  @Test(arguments: ["calling", "restoring"]) func faultsEndProcessAfterRestart(way: String) throws {
    let death = try die([way], as: "die-after-restart")
    #expect(!death.child.hasExited && death.child.status == SIGILL, "\(death)")
    #expect(death.child.facts("stopped") == ["true", "true"] && death.child.facts("survived") == [], "\(death)")
    #expect(death.verdict == "crash: signal \(SIGILL)", "\(death)")
  }

  @Test(.needsNamespaces) func onlyFaultsEndProcess1() throws {
    for (way, signal) in Self.deaths where way != "abort" {
      let death = try die([way], asInit: true)
      #expect(!death.child.hasExited && death.child.status == signal || death.child.status == 128 + signal, "\(death)")
      #expect(death.child.facts("survived") == [] && death.verdict == "crash: signal \(signal)", "\(way): \(death)")
    }
    for signal in [SIGSEGV, SIGTRAP, SIGABRT] {
      let lived = try die(["kill-\(signal)", "\(SIGUSR1)", "returning", "no-instruction"], asInit: true)
      #expect(lived.child.facts("survived") == ["-1 0", "-1 0", "-1 0"], "\(signal): \(lived)")
      #expect(lived.verdict == "crash: signal \(SIGILL)", "\(signal): \(lived)")
    }
  }

  @Test func threadsUseSchedulingOfProcess() throws {
    let child = try runScenario(["unusual", directory])
    let main = try #require(child.fact("main"))
    let creator = try #require(child.fact("creator"))
    func policy(_ text: String) -> Substring { text.prefix { $0 != "," } }
    #expect(creator != main && policy(creator) != policy(main), "\(child)")
    let threads = child.output.split(separator: "\n").filter { $0.hasPrefix("thread.") || $0.hasPrefix("handler=") }
    #expect(threads.count >= 9, "\(child)")
    for thread in threads {
      // Reading another thread's timer slack needs CAP_SYS_NICE.
      let expected = thread.contains("slack") ? main : main.replacing(/, slack .*/, with: "")
      #expect(thread.hasSuffix("=" + expected), "\(thread)")
    }
  }
}
