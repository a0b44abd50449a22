import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@testable import CulpritBlackBox

/// Calls `body` with the path of a directory that the service creates.
func withRunDirectory<Result>(_ body: (String) throws -> Result) throws -> Result {
  try withTemporaryDirectory { try body($0 + "/runs") }
}

@Suite(.ownThread) struct EndTests {
  @TemporaryDirectory private var base: String
  private var directory: String { base + "/runs" }

  /// Runs `scenario` in a process, and sends it `signal` once `isReady` returns true.
  @discardableResult
  private func run(
    _ scenario: String,
    _ directory: String,
    arguments: [String] = [],
    environment: [String: String]? = nil,
    signal: Int32 = 0,
    when isReady: () -> Bool = { true }
  ) throws -> ChildProcess {
    let words = [directory, scenario] + arguments
    return try ChildProcess(ChildProcess.built("blackbox-process"), words, environment: environment) { process in
      guard signal != 0 else { return }
      while !isReady() && !isOver(process) { usleep(10_000) }
      kill(process, signal)
    }
  }

  /// Launches the service again and waits for `runs` reports, because `stop()` gives up on a slow disk after 5 s.
  private func nextLaunch(_ directory: String, runs: Int = 1) throws -> ChildProcess {
    try run("report", directory, arguments: ["--runs", "\(runs)"])
  }

  private func hasStall(_ directory: String, samples: Int) -> Bool {
    let box = BlackBoxDirectory(path: directory)
    guard let stall = fileNames(in: directory, ".stall").first.flatMap({ box.stall($0) })?.recording.stalls.first else {
      return false
    }
    return stall.others?.isComplete == true && stall.samples.count >= samples
  }

  @Test func reportsCulpritOfKilledHang() throws {
    let died = try run("stall", directory, signal: SIGKILL) { hasStall(directory, samples: 14) }
    #expect(!died.hasExited && died.status == SIGKILL)
    let launch = try nextLaunch(directory)
    #expect(launch.facts("run").count == 1)
    #expect(launch.fact("run")?.hasSuffix("fatal hang: ended while work was stuck") == true, "\(launch)")
    let hang = try #require(launch.fact("hang")).split(separator: " ")
    #expect(hang.first == "main" && hang.contains("holdUp(_:)"), "\(hang)")
    #expect(hang[hang.count - 2] == "10")
    // Each run is reported once; the files stay.
    let second = try nextLaunch(directory, runs: 0)
    #expect(second.facts("hang") == [])
    #expect(fileNames(in: directory, ".stall").count == 1)
  }

  /// Returns the function names in the first stall's file.
  private func savedNames(_ directory: String) -> Set<String> {
    let file = fileNames(in: directory, ".stall").first.flatMap { BlackBoxDirectory(path: directory).stall($0) }
    return Set(file?.recording.names.values.flatMap { $0 }.compactMap(\.function) ?? [])
  }

  /// Whether the first stall's file has every available name and has stopped growing.
  private func areNamesLookedUp(_ directory: String) -> Bool {
    guard let name = fileNames(in: directory, ".stall").first,
      let bytes = try? Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(name)"))
    else { return false }
    return StallFileWriter.areNamesLookedUp([UInt8](bytes.suffix(StallFileWriter.namesLookedUpBytes)))
  }

  @Test func savesFunctionNamesDuringHang() throws {
    let hang = ["CULPRIT_HANG_THRESHOLD": "300ms"]
    let died = try run("stall", directory, environment: hang, signal: SIGKILL) {
      savedNames(directory).contains("holdUp(_:)")
    }
    #expect(!died.hasExited && died.status == SIGKILL)
    #expect(savedNames(directory).contains("holdUp(_:)"))
  }

  @Test func savesFunctionNamesOfEndedStall() throws {
    try run("recover", directory)
    #expect(savedNames(directory).contains("holdUp(_:)"))
    let path = "\(directory)/\(try #require(fileNames(in: directory, ".stall").first))"
    let bytes = try [UInt8](Data(contentsOf: URL(fileURLWithPath: path)))
    #expect(areNamesLookedUp(directory))
    #expect(StallFile.hasEnd(bytes) && StallFile.hasEnd(Array(bytes.prefix(4096))))
    #expect(try nextLaunch(directory).facts("hang") == [])
  }

  @Test func nextLaunchAddsNamesToKilledRun() throws {
    try run("stall", directory, signal: SIGKILL) { hasStall(directory, samples: 5) }
    #expect(savedNames(directory).isEmpty)
    let path = "\(directory)/\(try #require(fileNames(in: directory, ".stall").first))"
    let before = try Data(contentsOf: URL(fileURLWithPath: path))
    // The next launch adds all names; later launches do not change the file.
    try run("turn", directory, signal: SIGKILL) { areNamesLookedUp(directory) }
    #expect(savedNames(directory).contains("holdUp(_:)"))
    let after = try Data(contentsOf: URL(fileURLWithPath: path))
    #expect(after.starts(with: before))
    try run("recover", directory)
    try run("turn", directory, signal: SIGKILL) { fileNames(in: directory, ".run").count >= 2 }
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == after)
    let launch = try nextLaunch(directory)
    #expect(launch.facts("hang").count == 1 && launch.facts("problem") == [], "\(launch)")
  }

  @Test func reportsDamagedFile() throws {
    try run("stall", directory, signal: SIGKILL) { hasStall(directory, samples: 5) }
    let path = "\(directory)/\(try #require(fileNames(in: directory, ".stall").first))"
    let descriptor = open(path, O_WRONLY)
    #expect(pwrite(descriptor, "nothing", 7, 0) == 7)
    close(descriptor)
    let launch = try ChildProcess(
      ChildProcess.built("blackbox-process"),
      [directory, "report", "--text", "--runs", "1"]
    )
    #expect(launch.fact("run")?.hasSuffix(RunVerdict.fatalHang.description) == true, "\(launch)")
    #expect(launch.facts("hang") == [] && launch.output.contains("\n\(path) is not a .stall file"), "\(launch)")
  }

  @Test func stopDuringHangIsNoCleanExit() throws {
    _ = try run("stop-hanging", directory, environment: ["CULPRIT_HANG_THRESHOLD": "600ms"], signal: SIGKILL) {
      fileNames(in: directory, ".run").contains { name in
        (try? String(contentsOfFile: "\(directory)/\(name)", encoding: .isoLatin1))?.contains("\nended ") == true
      }
    }
    let run = try nextLaunch(directory).fact("run")
    #expect(run?.hasSuffix(RunVerdict.fatalHang.description) == true, "\(run ?? "")")
  }

  @Test func distinguishesOtherEndsFromHangs() throws {
    let ends: [(scenario: String, signal: Int32, verdict: RunVerdict)] = [
      ("turn", SIGKILL, .killed), ("_exit", 0, .killed), ("stop", 0, .cleanExit),
      ("exit", 0, .cleanExit), ("exit-stalled", 0, .cleanExit), ("recover", 0, .cleanExit),
      ("abort", 0, .crash(signal: SIGABRT)), ("fault", 0, .crash(signal: SIGSEGV)),
      // Recording a crash must not need the allocator's lock.
      ("die-in-malloc", 0, .crash(signal: SIGSYS)),
    ]
    for (scenario, signal, verdict) in ends {
      try withRunDirectory { directory in
        // Swift's crash handler also runs. Its symbolication would take most of the test's time.
        let environment = ["SWIFT_BACKTRACE": "symbolicate=off"]
        let died = try run(scenario, directory, environment: environment, signal: signal) {
          !fileNames(in: directory, ".run").isEmpty
        }
        if case .crash(let signal) = verdict { #expect(!died.hasExited && died.status == signal, "\(scenario)") }
        let launch = try nextLaunch(directory)
        #expect(
          launch.facts("run").map { $0.drop { $0 != " " }.dropFirst() } == [verdict.description[...]],
          "\(scenario)"
        )
        #expect(launch.facts("hang") == [], "\(scenario)")
      }
    }
  }

  /// A signal handler calls exit(3) while its thread is inside malloc(3). The process must still exit cleanly.
  @Test func exitInSignalHandlerCompletes() throws {
    let died = try run("exit-in-malloc", directory)
    #expect(died.hasExited && died.status == 3, "\(died)")
    #expect(try nextLaunch(directory).fact("run")?.hasSuffix(RunVerdict.cleanExit.description) == true)
  }

  private func file(of run: RunRecord, samples: [UInt8], hasEnded: Bool) -> [UInt8] {
    let process = ObservedProcess(run.identity.process, run.executable, since: run.since)
    let stall = Stall("main", began: run.since, duration: .seconds(200), hasEnded: hasEnded)
    let parts = [
      StallFileWriter.record(of: process), StallFileWriter.record(of: stall.thread),
      StallFileWriter.record(ofBeginOf: stall), StallFileWriter.record(ofStateOf: stall),
    ]
    return StallFileWriter.header() + parts.joined() + samples
  }

  private func samples(_ count: UInt64) -> [UInt8] {
    var samples: [UInt8] = []
    for number in 0..<count {
      let index = Int(number)
      let frames = (1...500).map { StackFrame.returnAddress(RuntimeAddress($0 << 40 | number << 20)) }
      let stack = Stack(frames: frames, end: .outermost)
      let sample = Sample(age: .milliseconds(index), stack: index, outcome: .captured, cpuTime: nil)
      samples += StallFileWriter.record(of: stack, index: index)
      samples += StallFileWriter.record(of: sample, stallID: 1)
    }
    return samples
  }

  /// The memory of the next launch must not grow with the number of ended stalls, even if all runs share a process id.
  @Test func boundsMemoryForManyStalls() throws {
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    let own = ProcessIdentity.ofThisProcess()
    let runs = (0..<2).map { number in
      RunRecord(
        // Greater than any process id.
        identity: ProcessIdentity(process: 1 << 30, start: 1, boot: own.boot, namespace: own.namespace),
        executable: "/bin/shop",
        since: WallTime(nanosecondsSince1970: (1_795_170_000 + UInt64(number)) * 1_000_000_000),
        memoryKills: []
      )
    }
    func write(_ bytes: [UInt8], _ run: RunRecord, _ suffix: String) throws {
      let name = "culprit-\(run.since.fileNamePart)-\(run.identity.process)\(suffix)"
      try Data(bytes).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
    }
    let samples = samples(1500)
    for (number, run) in runs.enumerated() {
      try write(Array(run.text.utf8), run, ".run")
      let mark = StallFileWriter.record(of: StallNote(.reported), stallID: 1)
      let ended = file(of: run, samples: samples, hasEnded: true) + mark
      for stall in 1...12 { try write(ended, run, "-\(stall).stall") }
      if number == 1 { try write(file(of: run, samples: self.samples(20), hasEnded: false), run, "-13.stall") }
    }
    let launch = try run("report", directory, arguments: ["--runs", "2", "--peak"])
    let endings = launch.facts("run").map { $0.drop { $0 != " " }.dropFirst() }
    // With equal start times, the second run is an exec of the first.
    #expect(endings == [RunVerdict.cleanExit, .fatalHang].map { $0.description[...] }, "\(launch)")
    #expect(launch.facts("hang").count == 1 && launch.fact("samples") == "20", "\(launch)")
    let peak = try #require(launch.fact("peak").flatMap { Int($0) })
    #expect(peak > 0 && peak < 120 << 10, "\(peak) KiB")
  }

  @Test func reportsReboot() throws {
    try run("turn", directory, signal: SIGKILL) { !fileNames(in: directory, ".run").isEmpty }
    let path = "\(directory)/\(try #require(fileNames(in: directory, ".run").first))"
    let text = try String(contentsOfFile: path, encoding: .utf8)
    let boot = try #require(text.firstMatch(of: /boot .*\n/))
    try text.replacing(boot.output, with: try #require(RunRecord(text: text)).checked("boot another")).write(
      toFile: path,
      atomically: true,
      encoding: .utf8
    )
    #expect(try nextLaunch(directory).fact("run")?.hasSuffix(RunVerdict.machineGone.description) == true)
  }

  /// If the control group is gone at the next launch, the cause of the kill is only possible.
  @Test(
    .enabled(if: MemoryGroup.isPossible, "limiting memory needs root and control groups"),
    arguments: [false, true]
  )
  func reportsOutOfMemoryKill(isGone: Bool) throws {
    let group = try #require(MemoryGroup(limit: 64 << 20))
    let died = try ChildProcess(
      "/bin/sh",
      group.running(ChildProcess.built("blackbox-process"), [directory, "out-of-memory"])
    )
    #expect(!died.hasExited && died.status == SIGKILL, "\(died)")
    if isGone { try #require(group.remove()) }
    let verdict = isGone ? RunVerdict.possiblyOutOfMemory : .outOfMemory
    #expect(try nextLaunch(directory).fact("run")?.hasSuffix(verdict.description) == true)
  }

  @Test func concurrentProcessesReportEachRunOnce() throws {
    for _ in 0..<4 {
      let before = fileNames(in: directory, ".run").count
      try run("turn", directory, signal: SIGKILL) { fileNames(in: directory, ".run").count > before }
    }
    let service = ChildProcess.built("blackbox-process")
    let live = try RunningProcess(service, [directory, "turn"])
    while fileNames(in: directory, ".run").count < 5 { usleep(10_000) }
    let launches = try (0..<4).map { _ in try RunningProcess(service, [directory, "report"]) }
    var reported: [String] = []
    for process in launches {
      reported += process.rest().split(separator: "\n").filter { $0.hasSuffix(RunVerdict.killed.description) }
        .map(String.init)
      process.end()
    }
    #expect(reported.count == 4 && Set(reported).count == 4, "\(reported)")
    #expect(!reported.contains { $0.hasPrefix("run=\(live.id) ") })
    kill(live.id, SIGKILL)
    live.end()
    #expect(try nextLaunch(directory).facts("run").contains { $0.hasPrefix("\(live.id) ") })
  }

  /// Half of 32 workers that share a directory are killed.
  @Test func reportsEachKilledWorkerOnce() throws {
    let service = ChildProcess.built("blackbox-process")
    let parent = try RunningProcess(service, [directory, "turn", "--workers", "32"])
    var text = ""
    func workers() -> [pid_t] {
      text.split(separator: "\n").filter { $0.hasPrefix("turning=") }.compactMap { pid_t($0.dropFirst(8)) }
    }
    while workers().count < 32 {
      let more = parent.next()
      if more.isEmpty { break }
      text += more
    }
    let all = workers()
    try #require(Set(all).count == 32, "\(text)")
    func reported(launches count: Int) throws -> [pid_t] {
      let processes = try (0..<count).map { _ in try RunningProcess(service, [directory, "report"]) }
      return processes.flatMap { process in
        defer { process.end() }
        return process.rest().split(separator: "\n").filter { $0.hasSuffix(RunVerdict.killed.description) }
          .compactMap { $0.split(whereSeparator: { " =".contains($0) }).dropFirst().first.flatMap { pid_t($0) } }
      }
    }
    let (killed, left) = (all.prefix(16), all.suffix(16))
    for id in killed { kill(id, SIGKILL) }
    while killed.contains(where: { kill($0, 0) == 0 }) { usleep(10_000) }
    #expect(try reported(launches: 4).sorted() == killed.sorted())
    #expect(try reported(launches: 1) == [])
    for id in left { kill(id, SIGKILL) }
    parent.end()
    #expect(try reported(launches: 4).sorted() == left.sorted())
  }

  @Test func forkedChildrenDoNotChangeRunRecord() throws {
    var launch: ChildProcess?
    let died = try ChildProcess(ChildProcess.built("blackbox-process"), [directory, "fork"]) { process in
      // The parent creates the file after its three children have ended.
      while !FileManager.default.fileExists(atPath: "\(directory)/turning") { usleep(10_000) }
      kill(process, SIGKILL)
      // A grandchild with all descriptors is still running.
      launch = try nextLaunch(directory)
    }
    #expect(died.facts("child") == ["7", "-1", "0"], "\(died)")
    let verdicts = launch?.facts("run").map { $0.drop { $0 != " " }.dropFirst() }
    #expect(verdicts == [RunVerdict.killed.description[...]], "\(String(describing: launch))")
  }

  /// A process whose main thread has ended looks like a zombie, but its run continues.
  @Test func runContinuesAfterMainThreadExits() throws {
    var found: [Bool] = []
    var launch: ChildProcess?
    let died = try ChildProcess(ChildProcess.built("blackbox-process"), [directory, "leave-main"]) { process in
      defer { kill(process, SIGKILL) }
      let status = { (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? "" }
      while !status().contains(") Z ") { usleep(10_000) }
      found = try Inventory(path: directory).runs.map(\.isRunning)
      launch = try nextLaunch(directory, runs: 0)
    }
    #expect(died.status == SIGKILL && found == [true])
    #expect(launch?.facts("run") == [])
    #expect(try nextLaunch(directory).facts("run").contains { $0.hasSuffix(RunVerdict.killed.description) })
  }

  /// The process that holds the lock on `path`; 0 if there is none.
  private func locker(_ path: String) -> pid_t {
    let descriptor = open(path, O_RDWR)
    defer { close(descriptor) }
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    return fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != Int16(F_UNLCK) ? lock.l_pid : 0
  }

  private func arguments(of process: pid_t) -> [String] {
    let text = (try? String(contentsOfFile: "/proc/\(process)/cmdline", encoding: .utf8)) ?? ""
    return text.split(separator: "\0").map(String.init)
  }

  private func targets(ofDescriptorsOf process: pid_t) throws -> [String] {
    // Reads all threads, because the disk thread has its own descriptor table.
    try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
      .flatMap { thread in
        let directory = "/proc/\(process)/task/\(thread)/fd"
        let numbers = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return numbers.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\($0)") }
      }
  }

  @Test(arguments: ["spawn", "vfork", "fork"], [false, true])
  func startedProgramsDoNotChangeRunRecord(way: String, usesCulprit: Bool) throws {
    let service = ChildProcess.built("blackbox-process")
    let program = usesCulprit ? [service, directory, "turn"] : ["/bin/sleep", "100"]
    var launch: ChildProcess?
    var started: pid_t = 0
    let died = try ChildProcess(service, [directory, "start", way] + program) { process in
      while !FileManager.default.fileExists(atPath: "\(directory)/child") && !isOver(process) { usleep(10_000) }
      let child = try #require(pid_t(String(contentsOfFile: "\(directory)/child", encoding: .utf8)))
      try #require(child > 0)
      started = child
      defer { kill(child, SIGKILL) }
      while arguments(of: child) != program { usleep(10_000) }
      let isItsOwn = { (name: String) in name.hasPrefix("culprit-") && name.contains("-\(child)") }
      while usesCulprit && !fileNames(in: directory, ".run").contains(where: isItsOwn) { usleep(10_000) }
      let run = "\(directory)/\(try #require(fileNames(in: directory, ".run").first { !isItsOwn($0) }))"
      let stall = "\(directory)/\(try #require(fileNames(in: directory, ".stall").first))"
      let record = try Data(contentsOf: URL(fileURLWithPath: run))

      // The child's watchdog opens files of earlier runs briefly. Inherited descriptors would stay open.
      var open = try targets(ofDescriptorsOf: child)
      for _ in 0..<1000 where open.contains(run) || open.contains(stall) {
        usleep(10_000)
        open = try targets(ofDescriptorsOf: child)
      }
      #expect(!open.isEmpty && !open.contains(run) && !open.contains(stall), "\(open)")
      #expect(open.contains { $0.hasPrefix(directory) } == usesCulprit, "\(open)")
      #expect(locker(run) == process)
      let samples = BlackBoxDirectory(path: directory).stall(fileNames(in: directory, ".stall")[0])?.recording.stalls[0]
        .samples.count
      while !hasStall(directory, samples: (samples ?? 0) + 3) && !isOver(process) { usleep(10_000) }

      kill(process, SIGKILL)
      while !isOver(process) { usleep(10_000) }
      #expect(locker(run) == 0)
      #expect(try Data(contentsOf: URL(fileURLWithPath: run)) == record)
      let saved = try Data(contentsOf: URL(fileURLWithPath: stall))
      launch = try nextLaunch(directory)
      #expect(arguments(of: child) == program)
      // The next launch appends missing names.
      #expect(try Data(contentsOf: URL(fileURLWithPath: stall)).starts(with: saved))
    }
    let verdicts = launch?.facts("run").map { $0.drop { $0 != " " }.dropFirst() }
    #expect(verdicts == [RunVerdict.fatalHang.description[...]], "\(String(describing: launch))")
    #expect(launch?.fact("hang")?.contains("holdUp(_:)") == true && started > 0, "\(died)")
  }

  @Test func execEndsRun() throws {
    for (scenario, verdict) in [("exec", RunVerdict.cleanExit), ("exec-stalled", .fatalHang)] {
      try withRunDirectory { directory in
        let found = try run(scenario, directory, arguments: ["report"])
        let process = try #require(found.fact("before"))
        #expect(found.facts("run") == ["\(process) \(verdict)"], "\(found)")
        #expect(found.facts("hang").count == (verdict == .fatalHang ? 1 : 0))
        // The second run of the process is reported once.
        #expect(try nextLaunch(directory).facts("run") == ["\(process) \(RunVerdict.cleanExit)"])
      }
    }
  }

  @Test(arguments: [true, false]) func otherProcessReportsRunReplacedByExec(meanwhile: Bool) throws {
    var reported: [String] = []
    let died = try run("exec-stalled", directory, arguments: ["turn"], signal: SIGKILL) {
      guard fileNames(in: directory, ".run").count == 2 else { return false }
      if meanwhile { reported += (try? nextLaunch(directory).facts("run")) ?? [] }
      return true
    }
    let process = try #require(died.fact("before"))
    if meanwhile { #expect(reported == ["\(process) \(RunVerdict.fatalHang)"]) }
    reported += try nextLaunch(directory).facts("run").filter { $0.hasPrefix(process) }
    #expect(reported == ["\(process) \(RunVerdict.fatalHang)", "\(process) \(RunVerdict.killed)"])
  }

  /// A file system of 1 MiB fills up during the stall.
  @Test(.needsMounts)
  func fullDiskLosesOnlySamples() throws {
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    try #require(mount("tmpfs", directory, "tmpfs", 0, "size=1m") == 0)
    defer { umount2(directory, Int32(MNT_DETACH)) }
    let died = try run("stall", directory, signal: SIGKILL) {
      // At least 2 s of the stall are saved before the disk is full.
      let seen = fileNames(in: directory, ".stall").first.flatMap { BlackBoxDirectory(path: directory).stall($0) }
      guard let last = seen?.recording.stalls.first?.samples.last, last.age >= .seconds(2) else { return false }
      let path = "\(directory)/ballast"
      guard !FileManager.default.fileExists(atPath: path) else {
        let box = BlackBoxDirectory(path: directory)
        let stall = fileNames(in: directory, ".stall").first.flatMap { box.stall($0) }?.recording.stalls.first
        guard let stall, stall.lostSamples >= 3 else { return false }
        return stall.duration - (stall.samples.last?.age ?? .zero) >= .milliseconds(200)
      }
      let file = open(path, O_WRONLY | O_CREAT, 0o600)
      defer { close(file) }
      for size in [4096, 1] {
        let ballast = [UInt8](repeating: 1, count: size)
        while write(file, ballast, size) > 0 {}
      }
      return false
    }
    #expect(died.status == SIGKILL)
    let file = try #require(
      fileNames(in: directory, ".stall").first.flatMap { BlackBoxDirectory(path: directory).stall($0) }
    )
    #expect(file.problems.isEmpty)
    let stall = try #require(file.recording.stalls.first)
    // The duration includes the lost samples.
    #expect(stall.duration - (stall.samples.last?.age ?? .zero) >= .milliseconds(200))
    try FileManager.default.removeItem(atPath: "\(directory)/ballast")
    let launch = try nextLaunch(directory)
    #expect(launch.fact("hang")?.contains("holdUp(_:)") == true, "\(launch)")
    #expect(Int(launch.fact("lost") ?? "") ?? 0 >= 3)
  }

  @Test func ignoresUmask() throws {
    try withRunDirectory { parent in
      try FileManager.default.createDirectory(atPath: parent, withIntermediateDirectories: true)
      let directory = parent + "/made/here"
      let service = [ChildProcess.built("blackbox-process"), directory, "recover"]
      let ended = try ChildProcess("/bin/sh", ["-c", "umask 777 && exec \"$@\"", "sh"] + service)
      #expect(ended.hasExited)
      let files = try FileManager.default.contentsOfDirectory(atPath: directory)
      #expect(files.count == 2)
      for (path, mode) in [("", 0o700), ("/..", 0o700)] + files.map({ ("/\($0)", 0o600) }) {
        let attributes = try FileManager.default.attributesOfItem(atPath: directory + path)
        #expect(attributes[.posixPermissions] as? Int == mode, "\(path)")
      }
    }
  }

  @Test func discardsRecoveredStallsOnRequest() throws {
    for (arguments, count) in [([], 1), (["--forget"], 0)] {
      try withRunDirectory { directory in
        let ended = try ChildProcess(ChildProcess.built("blackbox-process"), [directory, "recover"] + arguments)
        #expect(ended.hasExited)
        #expect(fileNames(in: directory, ".stall").count == count)
        let attributes = try FileManager.default.attributesOfItem(atPath: directory)
        #expect(attributes[.posixPermissions] as? Int == 0o700)
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
          let attributes = try FileManager.default.attributesOfItem(atPath: "\(directory)/\(name)")
          #expect(attributes[.posixPermissions] as? Int == 0o600)
        }
      }
    }
  }
}

private final class MemoryGroup {
  private static let parent = "/sys/fs/cgroup/memory"
  private let path: String

  static var isPossible: Bool { getuid() == 0 && access("\(parent)/memory.oom_control", W_OK) == 0 }

  init?(limit: Int) {
    path = "\(Self.parent)/culprit-test-\(UUID().uuidString)"
    guard mkdir(path, 0o700) == 0 else { return nil }
    let text = "\(limit)"
    guard (try? text.write(toFile: "\(path)/memory.limit_in_bytes", atomically: false, encoding: .utf8)) != nil else {
      return nil
    }
  }

  deinit { rmdir(path) }

  /// Removes the group. Returns whether it is gone.
  func remove() -> Bool { rmdir(path) == 0 }

  func running(_ program: String, _ arguments: [String]) -> [String] {
    ["-c", "echo $$ > \(path)/cgroup.procs && exec \"$@\"", "sh", program] + arguments
  }
}
