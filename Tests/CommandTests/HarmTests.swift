import Foundation
import TestSupport
import Testing

/// A service that forks, closes descriptors that are not its own and restarts its watchdog comes to no harm, and
/// neither does anybody else. Each in a process of its own.
@Suite(.ownThread) struct HarmTests {
  private func runScenario(
    _ arguments: String...,
    inDirectory: Bool = false,
    systemd: SystemdListener? = nil
  ) throws -> (process: ChildProcess, directory: String) {
    let directory = NSTemporaryDirectory() + "culprit-harm-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    let process = try ChildProcess(
      ChildProcess.built("policy-process"),
      arguments + (inDirectory ? [directory] : []),
      // Backtraces of children that crash take longer than all the rest.
      environment: ["SWIFT_BACKTRACE": "enable=no"]
        .merging(systemd.map { ["NOTIFY_SOCKET": $0.name, "WATCHDOG_USEC": "2000000"] } ?? [:]) { $1 }
    ) { id in
      // What nobody reads is not sent for long.
      while let systemd, let state = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
        !state.contains(") Z ")
      {
        _ = systemd.heard()
        usleep(5000)
      }
    }
    return (process, directory)
  }

  /// Forked inside a section while other threads mark: with the standard library's locks half of such children died.
  @Test(arguments: ["forks", "forks-exit", "forks-release"])
  func childrenLeaveWhatTheirParentEntered(_ name: String) throws {
    let (process, directory) = try runScenario(name, "40")
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("exited") == "40", "\(process)")
  }

  /// The Swift runtime's locks are nobody's in a child whose parent was forked while a report was made.
  @Test func childrenDoWithoutTheLocksOfReports() throws {
    let (process, directory) = try runScenario("forks-report", "3")
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("exited") == "3", "\(process)")
  }

  @Test(arguments: ["forks-watch", "forks-fork"])
  func childrenAndTheirChildrenWatchThemselves(_ name: String) throws {
    let (process, directory) = try runScenario(name, "2")
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("exited") == "2", "\(process)")
  }

  @Test func aDaemonWatchesItself() throws {
    let (process, directory) = try runScenario("daemon", inDirectory: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.status == 0, "\(process)")
    var told: String?
    while told == nil {
      usleep(50_000)
      told = try? String(contentsOfFile: directory + "/daemon", encoding: .utf8)
    }
    #expect(told == "[\"daemon stall(_:)\"]\n[]\n")
  }

  /// However it is started.
  @Test func aProgramInheritsNothing() throws {
    let (process, directory) = try runScenario("exec", "12", inDirectory: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("inherited") == "[]", "\(process)")
  }

  /// Nor does a child, which has other files under those numbers soon.
  @Test func aChildInheritsNoDescriptorAndClosesNone() throws {
    let (process, directory) = try runScenario("fork-descriptors", inDirectory: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("inherited") == "[]", "\(process)")
    #expect(process.fact("harmed") == "[]", "\(process)")
    #expect(process.fact("exited") == "1", "\(process)")
  }

  /// What the child knows of its parent's threads says nothing of its own, which may have the same numbers soon.
  @Test(.needsThreadIDs)
  func aChildsThreadsAreNotTakenForItsParents() throws {
    let (process, directory) = try runScenario("fork-numbers")
    defer { try? FileManager.default.removeItem(atPath: directory) }
    if process.fact("seen") == "taken" { try Test.cancel("somebody else has the number") }
    #expect(process.fact("seen") == "true" && process.fact("own") == "false", "\(process)")
    #expect(process.fact("exited") == "1", "\(process)")
  }

  /// closefrom(3) while a watchdog runs: its files go on, and the service's own are left alone.
  @Test func aServiceMayCloseEverything() throws {
    let (process, directory) = try runScenario("close-all", inDirectory: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.facts("harmed") == ["[]", "[]"], "\(process)")
    #expect(process.fact("told") == "true", "\(process)")
    // Only where the kernel has no threads with descriptors of their own.
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

  /// The files of `/proc` that samples are taken from are open for a moment, in which their numbers may become the service's.
  @Test func whatIsOpenForAMomentIsNotTheServices() throws {
    let (process, directory) = try runScenario("close-in-stalls", inDirectory: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("rounds") == "300", "\(process)")
    #expect(process.fact("harmed") == "[]", "\(process)")
  }

  /// While the watchdog reads what earlier runs have left, the numbers that it uses may become the service's.
  @Test func aServiceMayCloseEverythingWhileFilesAreRead() throws {
    let (process, directory) = try runScenario("close-at-start", inDirectory: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("harmed") == "[]", "\(process)")
  }

  /// What a service writes to a stream that it has closed fails, and comes into no file of the watchdog's.
  @Test(arguments: [true, false]) func noStandardStreamIsTaken(isSaved: Bool) throws {
    let (process, directory) = try runScenario("no-streams", inDirectory: isSaved)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("taken") == "[]", "\(process)")
  }

  /// A signal that is blocked everywhere to be read comes to whoever reads it.
  @Test func whoReadsProfilingSignalsGetsThem() throws {
    let (process, directory) = try runScenario("read-signals")
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("read") == "20", "\(process)")
  }

  /// Threads that mark cost no descriptor.
  @Test func threadsKeepNoDescriptor() throws {
    let (process, directory) = try runScenario("thread-descriptors")
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("marked") == "200", "\(process)")
    #expect(process.fact("more").flatMap { Int($0) }.map { $0 <= 2 } == true, "\(process)")
  }

  /// What a timer says and lets be after its end is nothing to whoever has its slot.
  @Test func nobodyActsOnWhatIsAnothersByNow() throws {
    let (process, directory) = try runScenario("exempt")
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let expected = ["after own", "next 0 -", "next 1 -", "next 2 -", "then own"]
    #expect(process.fact("stalls") == "\(expected)", "\(process)")
  }

  /// A stall that an earlier watchdog has seen is no reason to do anything for the next one.
  @Test func aWatchdogBeginsWithNothing() throws {
    let systemd = try SystemdListener("@culprit-test-\(UUID().uuidString)")
    let (process, directory) = try runScenario("restarts", "3", systemd: systemd)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    #expect(process.fact("asked") == "[]", "\(process)")
    #expect(process.fact("withheld") == "[]", "\(process)")
    #expect(process.fact("told") == "3", "\(process)")
    #expect(!process.errors.contains("culprit: ending process"), "\(process)")
    #expect(!process.errors.contains("the process goes on"), "\(process)")
  }
}
