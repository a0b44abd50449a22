import CulpritStallRecord
import Foundation
import SampleRecordings
import Testing

@testable import CulpritBlackBox

@Suite struct DirectoryContentTests {
  private final class Directory {
    let path = NSTemporaryDirectory() + "culprit-content-\(UUID().uuidString)"

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func write(_ bytes: some Sequence<UInt8>, _ name: String) throws {
      try Data(bytes).write(to: URL(fileURLWithPath: "\(path)/\(name)"))
    }
  }

  private func time(_ seconds: UInt64) -> WallTime {
    WallTime(nanosecondsSince1970: (1_795_170_000 + seconds) * 1_000_000_000)
  }

  /// The run of an ended process: this boot and namespace, and an unused process id.
  private func run(
    _ process: Int32,
    since seconds: UInt64,
    start: UInt64 = 1,
    boot: String = ProcessIdentity.ofThisProcess().boot,
    kills: [MemoryKills] = []
  ) -> RunRecord {
    RunRecord(
      identity: ProcessIdentity(
        process: process,
        start: start,
        boot: boot,
        namespace: ProcessIdentity.ofThisProcess().namespace
      ),
      executable: "/bin/shop",
      since: time(seconds),
      memoryKills: kills
    )
  }

  private func parentRun(since seconds: UInt64) throws -> RunRecord {
    run(getppid(), since: seconds, start: try #require(ProcessIdentity.state(of: getppid())).start)
  }

  private func name(_ record: RunRecord, _ suffix: String) -> String {
    "culprit-\(record.since.fileNamePart)-\(record.identity.process)\(suffix)"
  }

  private func stall(of record: RunRecord?, ended: Bool, lasting seconds: Int = 2) -> [UInt8] {
    let stall = Stall(
      "main",
      began: time(0),
      samples: [Sample(age: .seconds(1), stack: nil, outcome: .noAnswer, cpuTime: nil)],
      duration: .seconds(seconds),
      hasEnded: ended
    )
    let process = record.map {
      ObservedProcess($0.identity.process, $0.executable, since: $0.since)
    }
    return StallFileWriter.file(of: Recording(process: process, stalls: [stall]))
  }

  @Test func listsOwnFilesInTimeOrder() throws {
    let directory = try Directory()
    let names = ["culprit-3-7.run", "culprit-1-7-1.stall", "culprit-2-7.told", "culprit-4-7.new", "culprit-5.running"]
    for name in names + ["others.run", "my-culprit-1-7.run"] { try directory.write([], name) }
    let box = BlackBoxDirectory(path: directory.path)
    #expect(try box.names([".run", ".told"]) == ["culprit-2-7.told", "culprit-3-7.run"])
    #expect(try box.names([".stall"]) == ["culprit-1-7-1.stall"])
    #expect(try box.names([]) == [])
    let error = #expect(throws: BlackBoxError.self) {
      try BlackBoxDirectory(path: directory.path + "/none").names([".run"])
    }
    #expect(error?.number == ENOENT)
    #expect(error?.description == "\(directory.path)/none: No such file or directory")
  }

  @Test func sumsWatchedTimeOfRuns() throws {
    let directory = try Directory()
    let box = BlackBoxDirectory(path: directory.path)
    func watched(
      _ count: (WallTime, WallTime) -> Duration = {
        Duration(wholeNanoseconds: $1.nanosecondsSince1970 - $0.nanosecondsSince1970)
      }
    ) -> Duration? { box.watchedTime(until: time(100), count) }
    #expect(watched() == nil)
    let ended = run(7, since: 10)
    try directory.write(Array((ended.text + ended.end(at: time(40))).utf8), name(ended, ".told"))
    #expect(watched() == .seconds(30))
    try directory.write(Array(try parentRun(since: 80).text.utf8), name(try parentRun(since: 80), ".run"))
    #expect(watched() == .seconds(50))
    #expect(watched { _, _ in .seconds(1) } == .seconds(2))
    let killed = run(7, since: 50)
    try directory.write(Array(killed.text.utf8), name(killed, ".run"))
    #expect(watched() == nil)
    try FileManager.default.removeItem(atPath: "\(directory.path)/\(name(killed, ".run"))")
    try directory.write([1, 2], "culprit-9-9.run")
    #expect(watched() == nil)
  }

  /// Rejects symbolic links, special files and its own file. With an owner, also hard links and other users' files.
  @Test func opensOnlyRegularFiles() throws {
    let directory = try Directory()
    try directory.write([1, 2, 3], "culprit-plain")
    try directory.write([], "culprit-second")
    try #require(link("\(directory.path)/culprit-second", "\(directory.path)/culprit-hard") == 0)
    try #require(symlink("culprit-plain", "\(directory.path)/culprit-soft") == 0)
    try #require(mkfifo("\(directory.path)/culprit-fifo", 0o600) == 0)
    try #require(mkdir("\(directory.path)/culprit-directory", 0o700) == 0)
    let names = ["plain", "second", "soft", "fifo", "directory", "none"].map { "culprit-\($0)" }
    func opened(_ box: BlackBoxDirectory) -> [String] {
      names.filter { name in
        guard let descriptor = box.open(name, O_RDONLY) else {
          return false
        }
        close(descriptor)
        return true
      }
    }
    #expect(opened(BlackBoxDirectory(path: directory.path)) == ["culprit-plain", "culprit-second"])
    #expect(opened(BlackBoxDirectory(path: directory.path, owner: geteuid())) == ["culprit-plain"])
    #expect(opened(BlackBoxDirectory(path: directory.path, owner: geteuid() + 1)) == [])
    #expect(opened(BlackBoxDirectory(path: directory.path, ownFile: "culprit-plain")) == ["culprit-second"])
    #expect(BlackBoxDirectory(path: directory.path).information("culprit-plain")?.st_size == 3)
    #expect(BlackBoxDirectory(path: directory.path).information("culprit-soft") == nil)
  }

  @Test func readsSmallFilesUpToLimit() throws {
    let directory = try Directory()
    let bytes = (0..<(200 << 10)).map { UInt8(truncatingIfNeeded: $0 / 251) }
    try directory.write(bytes, "culprit-big")
    let descriptor = try #require(BlackBoxDirectory(path: directory.path).open("culprit-big", O_RDONLY))
    defer { close(descriptor) }
    #expect(lseek(descriptor, 100, SEEK_SET) == 100)
    for bound in [0, 1, 65_536, 65_537, 200 << 10, 300 << 10] {
      #expect(SmallFile.bytes(descriptor, max: bound) == Array(bytes.prefix(bound)), "\(bound)")
    }
    #expect(SmallFile.bytes(-1, max: 10) == nil)
    #expect(SmallFile.text("\(directory.path)/none") == nil)
    try directory.write(Array(repeating: UInt8(ascii: "a"), count: 65_537), "culprit-text")
    #expect(SmallFile.text("\(directory.path)/culprit-text")?.count == 65_536)
  }

  @Test func findsStallsOfRun() throws {
    let directory = try Directory()
    let record = run(77, since: 10)
    let before = run(77, since: 5)
    let ended = stall(of: record, ended: true)
    let cut = Array(stall(of: record, ended: false).dropLast(3))
    try directory.write(ended, "culprit-\(time(11).fileNamePart)-77-1.stall")
    try directory.write(stall(of: before, ended: false), "culprit-\(time(6).fileNamePart)-77-1.stall")
    try directory.write(stall(of: run(78, since: 10), ended: false), "culprit-\(time(11).fileNamePart)-78-1.stall")
    let box = BlackBoxDirectory(path: directory.path)
    #expect(box.stalls(of: record).saved.map(\.name) == ["culprit-\(time(11).fileNamePart)-77-1.stall"])
    #expect(!box.stalls(of: record).hasOpen && box.stalls(of: record).problems == [])
    #expect(box.stalls(of: before).hasOpen && box.stalls(of: before).saved.first?.isOpen == true)
    // The intact part of a truncated file is kept, and its reader reports the damage.
    try directory.write(cut, "culprit-\(time(12).fileNamePart)-77-2.stall")
    let found = box.stalls(of: record)
    #expect(found.saved.map(\.isOpen) == [false, true] && found.hasOpen)
    #expect(found.problems == [] && box.stall(found.saved[1].name)?.problems.count == 1)
  }

  /// A damaged file belongs to the run of the process in its name, unless the file is older.
  @Test(arguments: [9, 10, 11] as [UInt64]) func assignsDamagedFileToRunByName(second: UInt64) throws {
    let directory = try Directory()
    let record = run(77, since: 10)
    let name = "culprit-\(time(second).fileNamePart)-77-1.stall"
    for isEnded in [true, false] {
      // The file has no valid header, but its records can contain the end of a stall.
      try directory.write(Array(repeating: 7, count: 16) + stall(of: record, ended: isEnded).dropFirst(16), name)
      let found = BlackBoxDirectory(path: directory.path).stalls(of: record)
      #expect(found.saved.isEmpty)
      #expect(found.problems.count == (second < 10 ? 0 : 1))
      #expect(found.hasOpen == (second >= 10 && !isEnded), "\(second), \(isEnded)")
    }
  }

  @Test func readsStallByName() throws {
    let directory = try Directory()
    var bytes = Array(stall(of: run(77, since: 10), ended: true).dropFirst(16))
    StallFileWriter.tag(&bytes, 513)
    try directory.write(StallFileWriter.header() + bytes, "culprit-1")
    try directory.write(Array("nothing".utf8), "culprit-2")
    let box = BlackBoxDirectory(path: directory.path)
    #expect(box.stall("culprit-1")?.recording.process?.id == 77)
    #expect(box.stall("culprit-2") == nil && box.stall("culprit-3") == nil)
    let descriptor = try #require(box.open("culprit-1", O_RDONLY))
    defer { close(descriptor) }
    #expect(box.stall(descriptor)?.tag == 513)
    #expect(box.stall(descriptor)?.recording.stalls.first?.duration == .seconds(2))
  }

  @Test func detectsReplacementByLaterRun() throws {
    let directory = try Directory()
    let record = run(77, since: 10)
    let box = BlackBoxDirectory(path: directory.path)
    try directory.write(record.text.utf8, name(record, ".run"))
    try directory.write(run(77, since: 9).text.utf8, name(run(77, since: 9), ".told"))
    // A later process with the same id has another start time.
    try directory.write(run(77, since: 11, start: 2).text.utf8, name(run(77, since: 11), ".run"))
    try directory.write(run(78, since: 12).text.utf8, name(run(78, since: 12), ".run"))
    #expect(!box.wasReplaced(record))
    try directory.write(run(77, since: 13).text.utf8, name(run(77, since: 13), ".told"))
    #expect(box.wasReplaced(record))
    var own = record
    own.identity = .ofThisProcess()
    #expect(box.wasReplaced(own))
  }

  @Test func inventoryListsAllRunsAndStalls() throws {
    let directory = try Directory()
    let killed = run(77, since: 10)
    let hung = run(78, since: 11)
    let ended = run(79, since: 12)
    let rebooted = run(80, since: 13, boot: "another")
    let replaced = run(81, since: 14)
    let live = try parentRun(since: 16)
    let reported = run(82, since: 17)
    let text = [
      (killed, killed.text, ".run"), (hung, hung.text, ".run"), (ended, ended.text + ended.end(at: time(20)), ".run"),
      (rebooted, rebooted.text, ".run"), (replaced, replaced.text, ".run"),
      (run(81, since: 15), run(81, since: 15).text, ".run"), (live, live.text, ".run"),
      // The recorded verdict has precedence.
      (reported, reported.text + reported.told(.crash(signal: 11)), ".told"),
    ]
    for (record, text, suffix) in text { try directory.write(text.utf8, name(record, suffix)) }
    try directory.write(stall(of: hung, ended: true), name(hung, "-1.stall"))
    try directory.write(stall(of: hung, ended: false, lasting: 3), name(hung, "-2.stall"))
    try directory.write(stall(of: live, ended: false), name(live, "-1.stall"))
    try directory.write(stall(of: run(77, since: 3), ended: true), name(run(77, since: 3), "-1.stall"))
    try directory.write(stall(of: nil, ended: true, lasting: 4), "culprit-1-99-1.stall")
    try directory.write(stall(of: ended, ended: true), "yesterday.stall")
    let inventory = try Inventory(path: directory.path)
    #expect(inventory.problems == [])
    #expect(inventory.runs.map(\.record.identity.process) == [77, 78, 79, 80, 81, 81, getppid(), 82])
    #expect(
      inventory.runs.map(\.verdict) == [
        .killed, .fatalHang, .cleanExit, .machineGone, .cleanExit, .killed, nil, .crash(signal: 11),
      ]
    )
    #expect(inventory.runs.map(\.isRunning) == (0..<8).map { $0 == 6 })
    #expect(inventory.runs.map(\.stalls.count) == [0, 2, 1, 0, 0, 0, 1, 0])
    #expect(inventory.runs[2].stalls.map(\.name) == ["yesterday.stall"])
    #expect(inventory.runs[1].stalls.flatMap { $0.stalls.map(\.hasEnded) } == [true, false])
    #expect(inventory.runs[1].stalls.flatMap { $0.stalls.map(\.duration) } == [.seconds(2), .seconds(3)])
    #expect(inventory.otherStalls.map(\.name) == ["culprit-1-99-1.stall", name(run(77, since: 3), "-1.stall")])
    #expect(inventory.otherStalls.first?.stalls.first?.duration == .seconds(4))
  }

  @Test func reportsUnreadableFiles() throws {
    let directory = try Directory()
    try directory.write("nothing".utf8, "culprit-1-7.run")
    try directory.write("nothing".utf8, "culprit-1-7-1.stall")
    try directory.write(stall(of: nil, ended: true).dropLast(3), "culprit-1-7-2.stall")
    try #require(symlink("culprit-1-7.run", "\(directory.path)/culprit-2-7.run") == 0)
    try #require(mkdir("\(directory.path)/culprit-3-7.told", 0o700) == 0)
    let problems = try Inventory(path: directory.path).problems.map { $0.dropFirst(directory.path.count + 1) }
    #expect(problems.count == 5)
    #expect(problems[0] == "culprit-1-7.run: it is not the record of a run, or it is damaged")
    #expect(problems[1] == "culprit-2-7.run: it is a symbolic link, or missing")
    #expect(problems[2] == "culprit-3-7.told: it is a symbolic link, or missing")
    #expect(problems[3].hasPrefix("culprit-1-7-1.stall: is not a .stall file"))
    #expect(problems[4].hasPrefix("culprit-1-7-2.stall: at byte "))
  }

  @Test func detectsMemoryKillsByCountIncrease() throws {
    let directory = try Directory()
    let now = try #require(MemoryKills.ofThisProcess().last?.count)
    // The count of the machine can be zero.
    let before = now > 0 ? [(now - 1, RunVerdict.possiblyOutOfMemory)] : []
    for (count, verdict) in before + [(now, .killed), (now + 1, .killed)] {
      let kills = [MemoryKills(path: MemoryKills.machine, inode: 0, count: count)]
      let record = run(77, since: 10, kills: kills)
      try directory.write(record.text.utf8, name(record, ".run"))
      #expect(try Inventory(path: directory.path).runs.map(\.verdict) == [verdict], "\(count)")
    }
  }
}

@Suite struct ProcessIdentityTests {
  private let own = ProcessIdentity.ofThisProcess()

  @Test func currentProcessIsRunning() throws {
    let state = try #require(ProcessIdentity.state(of: getpid()))
    #expect(state.start == own.start && !state.mainHasEnded)
    #expect(own.process == getpid() && own.namespace != 0)
    #expect(own.boot.count == 36 && own.boot.allSatisfy { $0.isHexDigit || $0 == "-" })
    #expect(own.isRunning(seenBy: own) == true)
  }

  /// The start time equals the one in /proc/self/stat.
  @Test func startTimeMatchesKernel() throws {
    let text = try String(contentsOfFile: "/proc/self/stat", encoding: .utf8)
    // Field 22. The name in field 2 can contain blanks.
    let fields = text.split(separator: ") ").last?.split(separator: " ")
    #expect(fields.flatMap { UInt64($0[22 - 3]) } == own.start)
    #expect(try #require(ProcessIdentity.state(of: getppid())).start <= own.start)
  }

  @Test func reportsUnknownStateAcrossBootsAndNamespaces() {
    for change in [{ $0.boot = "another" }, { $0.namespace += 1 }] as [(inout ProcessIdentity) -> Void] {
      var other = own
      change(&other)
      #expect(other.isRunning(seenBy: own) == nil)
    }
    var earlier = own
    earlier.start -= 1
    #expect(earlier.isRunning(seenBy: own) == false)
    var unknown = own
    unknown.process = .max
    #expect(unknown.isRunning(seenBy: own) == false)
    #expect(ProcessIdentity.state(of: .max) == nil)
  }

  /// The state of a zombie is unknown, because its other threads might still run.
  @Test func stateOfZombieIsUnknownUntilReaped() throws {
    var child = pid_t()
    var arguments: [UnsafeMutablePointer<CChar>?] = [strdup("true"), nil]
    defer { free(arguments[0]) }
    try #require(posix_spawn(&child, "/bin/true", nil, nil, &arguments, nil) == 0)
    var information = siginfo_t()
    try #require(waitid(P_PID, id_t(child), &information, Int32(WEXITED) | Int32(WNOWAIT)) == 0)
    let state = try #require(ProcessIdentity.state(of: child))
    #expect(state.mainHasEnded)
    var identity = own
    (identity.process, identity.start) = (child, state.start)
    #expect(identity.isRunning(seenBy: own) == nil)
    #expect(waitpid(child, nil, 0) == child)
    #expect(identity.isRunning(seenBy: own) == false)
  }
}
