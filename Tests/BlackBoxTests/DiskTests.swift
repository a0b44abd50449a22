import CulpritBlackBox
import CulpritStallRecord
import FaultyDisks
import Foundation
import TestSupport
import Testing

/// What a disk that breaks in mid-stall costs: samples in the file, nothing else.
@Suite(.ownThread, .enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
struct DiskTests {
  private struct StalledService {
    let process: ServiceProcess
    let disk: FaultyDisk
    /// How many samples the file had when all was well.
    let samplesBefore: Int

    init(process: ServiceProcess, disk: FaultyDisk, samplesBefore: Int) {
      self.process = process
      self.disk = disk
      self.samplesBefore = samplesBefore
    }

    init(on disk: FaultyDisk) throws {
      self.disk = disk
      process = try Self.start(on: disk)
      process.tell("stall differently")
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
        // SIGALRM ends a service that nobody else does.
        try #require(!process.hasLeft)
        usleep(20_000)
      }
    }

    func saved(_ number: Int = 1) -> Stall? { Self.saved(process, directory, number) }

    func wait(_ isThere: (Stall) -> Bool) throws { _ = try Self.wait(for: process, directory, isThere) }

    /// Makes turns of another loop for so long, while the stall goes on.
    func turn(milliseconds: Int) throws {
      process.tell("turn \(milliseconds)")
      #expect(Int(try #require(process.fact("turns"))) ?? 0 > 0)
    }

    /// Ends the stall. Returns what the handler got: how many samples there were, and how many were lost.
    func end() throws -> (samples: Int, lost: Int) {
      process.tell("end")
      let fields = try #require(process.fact("reported")).split(separator: " ", maxSplits: 5)
      try #require(fields.count == 6)
      #expect(fields[5] == "goLeft(_:depth:)" || fields[5] == "holdUp(_:)")
      return (try #require(Int(fields[2])), try #require(Int(fields[3])))
    }

    /// What could not be saved, as ``Watchdog/Status/problems`` has it.
    func problems() throws -> String {
      process.tell("status")
      return String(try #require(process.fact("problems")).drop { $0 != " " }.dropFirst())
    }

    func waitForProblem(_ text: String = "") throws {
      while true {
        let problems = try problems()
        if !problems.isEmpty, text.isEmpty || problems.contains(text) { return }
        usleep(20_000)
      }
    }

    /// Lets the service leave, and waits for it.
    func leave() -> Int32 {
      process.tell("exit")
      return process.end()
    }
  }

  private func tell(_ disk: FaultyDisk) throws -> ChildProcess {
    try ChildProcess(disk.inside([ChildProcess.built("blackbox-process"), disk.pathInside + "/stalls", "tell"]))
  }

  /// Somebody else's mount namespace, which has copies of all that was mounted when it began, keeps none of it alive.
  @Test func whoeverUnsharesMeanwhileKeepsNothing() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let stranger = try ServiceProcess("/usr/bin/unshare", ["unshare", "--mount", "sh", "-c", "echo in=; read line"])
    try #require(stranger.fact("in") != nil)
    try disk.pullOut()
    #expect(mkdir(disk.path + "/while-broken", 0o700) != 0)
    try disk.mountAgain()
    #expect(mkdir(disk.path + "/after", 0o700) == 0)
    stranger.tell("")
    stranger.end()
  }

  /// Handlers hear of the end, stop() and exit come to theirs, while the disk answers nobody; and a kill is told of afterwards.
  @Test func aStuckDiskKeepsNobodyWaiting() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let stopped = try StalledService(on: disk)
    let left = try StalledService(on: disk)
    let killed = try StalledService(on: disk)
    try disk.freeze()
    try stopped.turn(milliseconds: 2000)
    let told = try stopped.end()
    #expect(told.samples > stopped.samplesBefore && told.lost == 0)
    try stopped.waitForProblem()
    stopped.process.tell("stop")
    #expect(stopped.process.fact("stopped") == "true")
    for service in [stopped, left] {
      service.process.tell("exit")
      while !service.process.hasLeft { usleep(10_000) }
    }
    kill(killed.process.process, SIGKILL)
    #expect(disk.thaw(), "the disk answered before all that was over")
    for service in [stopped, left, killed] { service.process.end() }
    let launch = try tell(disk)
    let run = try #require(launch.facts("run").first { $0.hasPrefix("\(killed.process.process) ") }, "\(launch)")
    #expect(run.hasSuffix(RunVerdict.fatalHang.description))
    #expect(launch.facts("hang").contains { $0.hasPrefix("stuck goLeft(_:depth:)") }, "\(launch)")
  }

  /// Whether a thread of `process` called `name` runs, or waits for what comes: one that the kernel ends, but keeps,
  /// does neither.
  private func runs(_ name: String, _ process: ServiceProcess) -> Bool {
    let tasks = "/proc/\(process.process)/task"
    let threads = (try? FileManager.default.contentsOfDirectory(atPath: tasks)) ?? []
    return threads.contains { thread in
      guard let text = try? String(contentsOfFile: "\(tasks)/\(thread)/stat", encoding: .utf8) else { return false }
      return text.contains("(\(name)) R") || text.contains("(\(name)) S")
    }
  }

  /// A fatal signal ends the process although its note cannot be written: idle, so that the disk was well when it was
  /// last asked, or in mid-stall, when the disk thread waits for it already. What is left are the threads that wait in
  /// the kernel, and the one that dies, which waits for those before it dumps core.
  @Test(arguments: [false, true]) func aStuckDiskKeepsNobodyFromDying(isStalled: Bool) throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let process = isStalled ? try StalledService(on: disk).process : try StalledService.start(on: disk)
    if !isStalled { _ = try #require(process.fact("ready")) }
    try disk.freeze()
    #expect(runs("culprit-monitor", process))
    process.tell("die")
    while runs("culprit-monitor", process) { usleep(10_000) }
    #expect(disk.thaw(), "the disk answered before that")
    #expect(process.end() == -SIGSYS)
  }

  @Test func aDiskThatComesBackGetsEverything() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    try disk.freeze()
    // Until it is noticed that the disk does not answer.
    try service.waitForProblem()
    try #require(disk.thaw(), "the disk answered before that")
    let told = try service.end()
    #expect(service.leave() == 0)
    let saved = try #require(service.saved())
    #expect(saved.hasEnded && saved.lostSamples == 0 && told.lost == 0)
    #expect(saved.samples.count == told.samples && told.samples > service.samplesBefore)
    #expect(try tell(disk).fact("run") == "\(service.process.process) clean exit")
  }

  @Test func aStopWaitsForTheDiskAsLongAsItMay() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    try disk.freeze()
    let told = try service.end()
    service.process.tell("stop 80")
    // Longer than a disk gets in any case.
    usleep(6_000_000)
    try #require(disk.thaw(), "the disk answered before that")
    #expect(service.process.fact("stopped") == "true")
    #expect(try !service.problems().contains("in time"))
    let saved = try #require(service.saved())
    #expect(saved.hasEnded && saved.lostSamples == 0 && saved.samples.count == told.samples)
    #expect(service.leave() == 0)
    #expect(try tell(disk).fact("run") == "\(service.process.process) clean exit")
  }

  /// Where a stop may not wait at all, the disk has a second all the same: the run has its end when stop() returns.
  @Test func aStopThatMayNotWaitGivesTheDiskASecond() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let process = try StalledService.start(on: disk)
    _ = try #require(process.fact("ready"))
    try disk.freeze()
    process.tell("stop 0")
    try #require(process.fact("stopped", within: 300) == nil)
    try #require(disk.thaw(), "the disk answered before that")
    let stopped = process.fact("stopped")
    // Whatever is not in the file by now is lost.
    kill(process.process, SIGKILL)
    process.end()
    #expect(stopped != nil)
    #expect(try tell(disk).fact("run") == "\(process.process) clean exit")
  }

  /// And no longer: what it has not taken by then is lost, and stop() says so.
  @Test func aStopThatMayNotWaitGivesUpAStuckDisk() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let process = try StalledService.start(on: disk)
    _ = try #require(process.fact("ready"))
    try disk.freeze()
    process.tell("stop 0")
    #expect(process.fact("stopped") == "false")
    process.tell("status")
    #expect(process.fact("problems")?.contains("the disk did not take everything in time") == true)
    kill(process.process, SIGKILL)
    try #require(disk.thaw(), "the disk answered before that")
    process.end()
  }

  /// The start does not wait for long either, and what has been seen by then is saved when the disk answers.
  @Test func aServiceStartsOnAStuckDisk() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    try #require(mkdir(disk.path + "/stalls", 0o700) == 0)
    try disk.freeze()
    let service = StalledService(
      process: try StalledService.start(on: disk),
      disk: disk,
      samplesBefore: 0
    )
    try #require(service.process.fact("ready") != nil)
    service.process.tell("stall")
    try service.turn(milliseconds: 1000)
    let told = try service.end()
    #expect(told.samples > 0 && told.lost == 0)
    try #require(disk.thaw(), "the disk answered before that")
    try service.wait { $0.hasEnded }
    #expect(service.leave() == 0)
    let saved = try #require(service.saved())
    #expect(saved.samples.count == told.samples && saved.lostSamples == 0)
    #expect(try tell(disk).fact("run") == "\(service.process.process) clean exit")
  }

  /// What did not fit is counted in the file, said in the status, and complete in the handler's report. The next launch, which
  /// cannot write either, tells of what was killed.
  @Test(arguments: [FaultyDisk.Kind.ext4, .tmpfs]) func aFullDiskCostsSamplesInTheFileOnly(kind: FaultyDisk.Kind) throws
  {
    let disk = try FaultyDisk(kind, mebibytes: 1, seconds: 300)
    let service = try StalledService(on: disk)
    let killed = try StalledService(on: disk)
    try disk.fill()
    for stalled in [service, killed] { try stalled.wait { $0.lostSamples >= 3 } }
    let told = try service.end()
    #expect(told.lost == 0)
    try service.waitForProblem("No space left on device")
    #expect(service.leave() == 0)
    let saved = try #require(service.saved())
    // What has lost its stack has lost what a sample is for.
    let whole = saved.samples.filter { $0.stack != nil || $0.outcome != .captured }.count
    #expect(saved.lostSamples >= 3 && whole + Int(saved.lostSamples) == told.samples)
    #expect(saved.hasEnded)
    kill(killed.process.process, SIGKILL)
    killed.process.end()
    let launch = try tell(disk)
    #expect(launch.facts("run").contains { $0.hasPrefix("\(killed.process.process) fatal hang") }, "\(launch)")
    #expect(launch.facts("lost").contains { Int($0) ?? 0 >= 3 }, "\(launch)")
  }

  /// Open files that can be written to no more.
  @Test(arguments: ["Read-only file system", "Input/output error"]) func aFailingDiskIsTold(error: String) throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    if error.hasPrefix("Read") { try disk.makeReadOnly() } else { try disk.pullOut() }
    try service.turn(milliseconds: 1000)
    try service.waitForProblem(error)
    let told = try service.end()
    #expect(told.samples > service.samplesBefore && told.lost == 0)
    #expect(service.leave() == 0)
    // Whatever could be synced is still there.
    try disk.mountAgain()
    let saved = try #require(service.saved())
    #expect(!saved.samples.isEmpty && saved.samples.count < told.samples && !saved.hasEnded)
    let launch = try tell(disk)
    #expect(launch.facts("run") == ["\(service.process.process) \(RunVerdict.fatalHang)"], "\(launch)")
  }

  /// The file is made anew, in the new directory or in one that is made for it, and the next stall has one, too.
  @Test(arguments: [false, true]) func aRemovedDirectoryIsMadeAnew(isReplaced: Bool) throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    try disk.removeDirectory("stalls", andMakesNew: isReplaced)
    try service.waitForProblem("was removed while it was written")
    // What found that out need not have been a sample.
    try service.turn(milliseconds: 1000)
    let told = try service.end()
    #expect(told.samples > service.samplesBefore && told.lost == 0)
    service.process.tell("stall")
    _ = try #require(service.process.fact("stalled"))
    try service.turn(milliseconds: 1000)
    let second = try service.end()
    #expect(second.samples > 0 && second.lost == 0)
    #expect(service.leave() == 0)
    for (number, samples) in [(1, told.samples), (2, second.samples)] {
      let saved = try #require(service.saved(number))
      #expect(saved.hasEnded && saved.samples.count == samples && saved.lostSamples == 0)
    }
    #expect(try tell(disk).fact("run") == "\(service.process.process) clean exit")
  }

  /// The file of the run comes back as well: the next launch tells of what was killed after that.
  @Test func aHangWhoseDirectoryWasRemovedIsTold() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 16, seconds: 300)
    let service = try StalledService(on: disk)
    try disk.removeDirectory("stalls", andMakesNew: false)
    try service.wait { $0.samples.count > service.samplesBefore }
    kill(service.process.process, SIGKILL)
    _ = service.process.end()
    let launch = try tell(disk)
    #expect(launch.facts("run") == ["\(service.process.process) \(RunVerdict.fatalHang)"], "\(launch)")
    #expect(launch.fact("hang")?.hasPrefix("stuck goLeft(_:depth:)") == true, "\(launch)")
  }
}
