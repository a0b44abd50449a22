import CulpritBlackBox
import CulpritStallRecord
import FaultyDisks
import Foundation
import TestSupport
import Testing

/// A disk failure during a stall loses only samples in the file.
@Suite(.ownThread, .enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
struct DiskTests {
  private struct StalledService {
    let process: ServiceProcess
    let disk: FaultyDisk
    let samplesBefore: Int

    init(process: ServiceProcess, disk: FaultyDisk, samplesBefore: Int) {
      self.process = process
      self.disk = disk
      self.samplesBefore = samplesBefore
    }

    init(on disk: FaultyDisk) throws {
      self.disk = disk
      process = try Self.start(on: disk)
      process.send("stall differently")
      _ = try #require(process.fact("stalled"))
      let atFirst = try Self.wait(for: process, disk.path + "/stalls") {
        $0.others?.isComplete == true && $0.samples.count >= 20
      }
      samplesBefore = atFirst.samples.count
    }

    static func start(on disk: FaultyDisk) throws -> ServiceProcess {
      try ServiceProcess(besideThis: "blackbox-process", [disk.pathInside + "/stalls", "latency"], on: disk)
    }

    private var directory: String { disk.path + "/stalls" }

    private static func saved(_ process: ServiceProcess, _ directory: String, _ number: Int) -> Stall? {
      let box = BlackBoxDirectory(path: directory)
      let name = (try? box.names(["-\(process.process)-\(number).stall"]))?.first
      return name.flatMap { box.stall($0) }?.recording.stalls.first
    }

    private static func wait(
      for process: ServiceProcess,
      _ directory: String,
      _ isThere: (Stall) -> Bool
    ) throws -> Stall {
      while true {
        if let stall = saved(process, directory, 1), isThere(stall) { return stall }
        // SIGALRM ends a service that hangs.
        try #require(!process.hasLeft)
        usleep(20_000)
      }
    }

    func saved(_ number: Int = 1) -> Stall? { Self.saved(process, directory, number) }

    func wait(_ isThere: (Stall) -> Bool) throws { _ = try Self.wait(for: process, directory, isThere) }

    /// Runs turns of another loop for some milliseconds during the stall.
    func turn(milliseconds: Int) throws {
      process.send("turn \(milliseconds)")
      #expect(Int(try #require(process.fact("turns"))) ?? 0 > 0)
    }

    /// Ends the stall. Returns the handler's counts of samples and of lost samples.
    func end() throws -> (samples: Int, lost: Int) {
      process.send("end")
      let fields = try #require(process.fact("reported")).split(separator: " ", maxSplits: 5)
      try #require(fields.count == 6)
      #expect(fields[5] == "goLeft(_:depth:)" || fields[5] == "holdUp(_:)")
      return (try #require(Int(fields[2])), try #require(Int(fields[3])))
    }

    /// Returns the service's ``Watchdog/Status/problems``.
    func problems() throws -> String {
      process.send("status")
      return String(try #require(process.fact("problems")).drop { $0 != " " }.dropFirst())
    }

    func waitForProblem(_ text: String = "") throws {
      while true {
        let problems = try problems()
        if !problems.isEmpty, text.isEmpty || problems.contains(text) { return }
        usleep(20_000)
      }
    }

    func leave() -> Int32 {
      process.send("exit")
      return process.end()
    }
  }

  /// Launches the service again and waits for `runs` reports, because `stop()` gives up on a slow disk after 5 s.
  private func nextLaunch(_ disk: FaultyDisk, runs: Int = 1) throws -> ChildProcess {
    let arguments = [disk.pathInside + "/stalls", "report", "--runs", "\(runs)"]
    return try ChildProcess(disk.inside([ChildProcess.built("blackbox-process")] + arguments))
  }

  /// A new mount namespace copies all mounts. The copy must not keep the test's disk mounted.
  @Test func otherMountNamespacesDoNotHoldDisk() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let stranger = try ServiceProcess("/usr/bin/unshare", ["unshare", "--mount", "sh", "-c", "echo in=; read line"])
    try #require(stranger.fact("in") != nil)
    try disk.pullOut()
    #expect(mkdir(disk.path + "/while-broken", 0o700) != 0)
    try disk.mountAgain()
    #expect(mkdir(disk.path + "/after", 0o700) == 0)
    stranger.send("")
    stranger.end()
  }

  @Test func frozenDiskBlocksNeitherStopNorExit() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let stopped = try StalledService(on: disk)
    let left = try StalledService(on: disk)
    let killed = try StalledService(on: disk)
    try disk.freeze()
    try stopped.turn(milliseconds: 2000)
    let ended = try stopped.end()
    #expect(ended.samples > stopped.samplesBefore && ended.lost == 0)
    try stopped.waitForProblem()
    stopped.process.send("stop")
    #expect(stopped.process.fact("stopped") == "true")
    for service in [stopped, left] {
      service.process.send("exit")
      while !service.process.hasLeft { usleep(10_000) }
    }
    kill(killed.process.process, SIGKILL)
    #expect(disk.thaw(), "the disk was no longer frozen")
    for service in [stopped, left, killed] { service.process.end() }
    let launch = try nextLaunch(disk, runs: 3)
    let run = try #require(launch.facts("run").first { $0.hasPrefix("\(killed.process.process) ") }, "\(launch)")
    #expect(run.hasSuffix(RunVerdict.fatalHang.description))
    #expect(launch.facts("hang").contains { $0.hasPrefix("stuck goLeft(_:depth:)") }, "\(launch)")
  }

  /// Whether thread `name` of `process` is in state R or S. A killed thread that is blocked in the kernel is in
  /// neither.
  private func runs(_ name: String, _ process: ServiceProcess) -> Bool {
    let tasks = "/proc/\(process.process)/task"
    let threads = (try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []
    return threads.contains { thread in
      guard let text = try? String(contentsOfFile: "\(tasks)/\(thread)/stat", encoding: .utf8) else { return false }
      return text.contains("(\(name)) R") || text.contains("(\(name)) S")
    }
  }

  /// A fatal signal ends the process even if the disk is frozen. If the service is idle, the last check of the disk
  /// succeeded. If it is stalled, the disk thread is already blocked in the kernel, and a core dump waits for the
  /// thread.
  @Test(arguments: [false, true]) func frozenDiskDoesNotBlockCrash(isStalled: Bool) throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let process = isStalled ? try StalledService(on: disk).process : try StalledService.start(on: disk)
    if !isStalled { _ = try #require(process.fact("ready")) }
    try disk.freeze()
    #expect(runs("culprit-monitor", process))
    process.send("die")
    while runs("culprit-monitor", process) { usleep(10_000) }
    #expect(disk.thaw(), "the disk was no longer frozen")
    #expect(process.end() == -SIGSYS)
  }

  @Test func flushesBacklogWhenDiskRecovers() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    try disk.freeze()
    // Wait until the watchdog has detected the frozen disk.
    try service.waitForProblem()
    try #require(disk.thaw(), "the disk was no longer frozen")
    let ended = try service.end()
    #expect(service.leave() == 0)
    let saved = try #require(service.saved())
    #expect(saved.hasEnded && saved.lostSamples == 0 && ended.lost == 0)
    #expect(saved.samples.count == ended.samples && ended.samples > service.samplesBefore)
    #expect(try nextLaunch(disk).fact("run") == "\(service.process.process) clean exit")
  }

  @Test func stopWaitsForDiskUntilTimeout() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    try disk.freeze()
    let ended = try service.end()
    service.process.send("stop 80")
    // Longer than any timeout for the disk.
    usleep(6_000_000)
    try #require(disk.thaw(), "the disk was no longer frozen")
    #expect(service.process.fact("stopped") == "true")
    #expect(try !service.problems().contains("in time"))
    let saved = try #require(service.saved())
    #expect(saved.hasEnded && saved.lostSamples == 0 && saved.samples.count == ended.samples)
    #expect(service.leave() == 0)
    #expect(try nextLaunch(disk).fact("run") == "\(service.process.process) clean exit")
  }

  @Test func stopWithoutTimeoutGivesDiskOneSecond() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let process = try StalledService.start(on: disk)
    _ = try #require(process.fact("ready"))
    try disk.freeze()
    process.send("stop 0")
    try #require(process.fact("stopped", within: 300) == nil)
    try #require(disk.thaw(), "the disk was no longer frozen")
    let stopped = process.fact("stopped")
    // Data that is not in the file by now is lost.
    kill(process.process, SIGKILL)
    process.end()
    #expect(stopped != nil)
    #expect(try nextLaunch(disk).fact("run") == "\(process.process) clean exit")
  }

  @Test func stopWithoutTimeoutAbandonsFrozenDisk() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let process = try StalledService.start(on: disk)
    _ = try #require(process.fact("ready"))
    try disk.freeze()
    process.send("stop 0")
    #expect(process.fact("stopped") == "false")
    process.send("status")
    #expect(process.fact("problems")?.contains("the disk did not take everything in time") == true)
    kill(process.process, SIGKILL)
    try #require(disk.thaw(), "the disk was no longer frozen")
    process.end()
  }

  @Test func serviceStartsOnFrozenDisk() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    try #require(mkdir(disk.path + "/stalls", 0o700) == 0)
    try disk.freeze()
    let service = StalledService(process: try StalledService.start(on: disk), disk: disk, samplesBefore: 0)
    try #require(service.process.fact("ready") != nil)
    service.process.send("stall")
    try service.turn(milliseconds: 1000)
    let ended = try service.end()
    #expect(ended.samples > 0 && ended.lost == 0)
    try #require(disk.thaw(), "the disk was no longer frozen")
    try service.wait { $0.hasEnded }
    #expect(service.leave() == 0)
    let saved = try #require(service.saved())
    #expect(saved.samples.count == ended.samples && saved.lostSamples == 0)
    #expect(try nextLaunch(disk).fact("run") == "\(service.process.process) clean exit")
  }

  @Test(arguments: [FaultyDisk.Kind.ext4, .tmpfs]) func fullDiskLosesOnlySavedSamples(kind: FaultyDisk.Kind) throws {
    let disk = try FaultyDisk(kind, mebibytes: 1, seconds: 300)
    let service = try StalledService(on: disk)
    let killed = try StalledService(on: disk)
    try disk.fill()
    for stalled in [service, killed] { try stalled.wait { $0.lostSamples >= 3 } }
    let ended = try service.end()
    #expect(ended.lost == 0)
    try service.waitForProblem("No space left on device")
    #expect(service.leave() == 0)
    let saved = try #require(service.saved())
    // A sample without its stack counts as lost.
    let whole = saved.samples.filter { $0.stack != nil || $0.outcome != .captured }.count
    #expect(saved.lostSamples >= 3 && whole + Int(saved.lostSamples) == ended.samples)
    #expect(saved.hasEnded)
    kill(killed.process.process, SIGKILL)
    killed.process.end()
    let launch = try nextLaunch(disk, runs: 2)
    #expect(launch.facts("run").contains { $0.hasPrefix("\(killed.process.process) fatal hang") }, "\(launch)")
    #expect(launch.facts("lost").contains { Int($0) ?? 0 >= 3 }, "\(launch)")
  }

  @Test(arguments: ["Read-only file system", "Input/output error"]) func reportsDiskErrors(error: String) throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    if error.hasPrefix("Read") { try disk.makeReadOnly() } else { try disk.pullOut() }
    try service.turn(milliseconds: 1000)
    try service.waitForProblem(error)
    let ended = try service.end()
    #expect(ended.samples > service.samplesBefore && ended.lost == 0)
    #expect(service.leave() == 0)
    // Synced data is still in the file.
    try disk.mountAgain()
    let saved = try #require(service.saved())
    #expect(!saved.samples.isEmpty && saved.samples.count < ended.samples && !saved.hasEnded)
    let launch = try nextLaunch(disk)
    #expect(launch.facts("run") == ["\(service.process.process) \(RunVerdict.fatalHang)"], "\(launch)")
  }

  @Test(arguments: [false, true]) func recreatesRemovedDirectory(isReplaced: Bool) throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    try disk.removeDirectory("stalls", andMakesNew: isReplaced)
    try service.waitForProblem("was removed while it was written")
    // Any write can detect the removal, not only a sample's.
    try service.turn(milliseconds: 1000)
    let ended = try service.end()
    #expect(ended.samples > service.samplesBefore && ended.lost == 0)
    service.process.send("stall")
    _ = try #require(service.process.fact("stalled"))
    try service.turn(milliseconds: 1000)
    let second = try service.end()
    #expect(second.samples > 0 && second.lost == 0)
    #expect(service.leave() == 0)
    for (number, samples) in [(1, ended.samples), (2, second.samples)] {
      let saved = try #require(service.saved(number))
      #expect(saved.hasEnded && saved.samples.count == samples && saved.lostSamples == 0)
    }
    #expect(try nextLaunch(disk).fact("run") == "\(service.process.process) clean exit")
  }

  @Test func reportsHangAfterDirectoryRemoval() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    try disk.removeDirectory("stalls", andMakesNew: false)
    try service.wait { $0.samples.count > service.samplesBefore }
    kill(service.process.process, SIGKILL)
    _ = service.process.end()
    let launch = try nextLaunch(disk)
    #expect(launch.facts("run") == ["\(service.process.process) \(RunVerdict.fatalHang)"], "\(launch)")
    #expect(launch.fact("hang")?.hasPrefix("stuck goLeft(_:depth:)") == true, "\(launch)")
  }
}
