import CCulpritLinux
@testable import CulpritBlackBox
import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct RetentionAgeTests {
  @TemporaryDirectory private var directory: String

  @Test func keepsFilesWhenClockIsSetForward() throws {
    let (new, old) = ("culprit-20260101T000001.000Z-7-1.stall", "culprit-20250101T000001.000Z-7-1.stall")
    let now = Double(clinux_clock_wall_ns()) / 1e9
    for (name, age) in [(new, 86_400.0), (old, 31 * 86_400)] {
      try Data("any".utf8).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
      let date = Date(timeIntervalSince1970: now - age)
      try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: "\(directory)/\(name)")
    }
    let policy = RetentionPolicy(directory: directory, limits: storageLimits(), own: nil)
    clock.stepWallClock(by: .seconds(40 * 86_400))
    defer { clock.stepWallClock(by: .seconds(-40 * 86_400)) }
    policy.enforce()
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == [new])
  }

  @Test(arguments: [Int.min, Int.max]) func handlesExtremeModificationTimes(second: Int) throws {
    let path = "\(directory)/culprit-20260101T000001.000Z-7-1.stall"
    try Data("any".utf8).write(to: URL(fileURLWithPath: path))
    let times = [timespec(tv_sec: second, tv_nsec: 0), timespec(tv_sec: second, tv_nsec: 0)]
    try #require(utimensat(AT_FDCWD, path, times, 0) == 0)
    var information = stat()
    try #require(stat(path, &information) == 0)
    RetentionPolicy(directory: directory, limits: storageLimits(), own: nil).enforce()
    #expect(FileManager.default.fileExists(atPath: path) == (information.st_mtim.tv_sec > 0))
  }
}

@Suite struct RetentionPolicyTests {
  @TemporaryDirectory private var directory: String

  private func stall(ended: Bool) -> Data {
    let stall = Stall("main", duration: .seconds(2), hasEnded: ended)
    return Data(StallFileWriter.file(of: Recording(process: nil, stalls: [stall])))
  }

  private func record(_ identity: ProcessIdentity) -> RunRecord {
    RunRecord(identity: identity, executable: "/bin/shop", since: WallTime(nanosecondsSince1970: 5), memoryKills: [])
  }

  /// Returns a record of the parent process, which runs.
  private func parent() throws -> Data {
    let own = ProcessIdentity.ofThisProcess()
    let start = try #require(ProcessIdentity.state(of: getppid())?.start)
    let parent = ProcessIdentity(process: getppid(), start: start, boot: own.boot, namespace: own.namespace)
    return Data(record(parent).text.utf8)
  }

  private func run(ended: Bool) -> Data {
    let record = record(ProcessIdentity(process: 7, start: 1, boot: "b", namespace: 1))
    return Data((record.text + (ended ? record.end(at: WallTime(nanosecondsSince1970: 6)) : "")).utf8)
  }

  @Test func removesEndedStallsFirst() throws {
    let files: [(name: String, content: Data)] = [
      ("culprit-20260101T000001.000Z-7.run", run(ended: false)),
      ("culprit-20260101T000002.000Z-7-1.stall", stall(ended: false)),
      ("culprit-20260101T000003.000Z-8-1.stall", stall(ended: false)),
      ("culprit-20260101T000004.000Z-8-2.stall", stall(ended: true)),
      ("culprit-20260101T000005.000Z-9.run", run(ended: true)), ("others.txt", Data("theirs".utf8)),
    ]
    for (name, content) in files { try content.write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
    var removed: [[String]] = []
    for limit in [3, 2, 1, 0] {
      let limits = storageLimits(files: limit)
      RetentionPolicy(directory: directory, limits: limits, own: nil).enforce()
      let left = Set(try FileManager.default.contentsOfDirectory(atPath: directory))
      removed.append(files.map(\.name).filter { !left.contains($0) })
    }
    #expect(removed[0] == [])
    #expect(removed[1] == [files[3].name])
    #expect(removed[2] == [files[3].name, files[4].name])
    #expect(removed[3] == [files[2].name, files[3].name, files[4].name])
  }

  /// Within the limits, no file must be opened, because the check runs after every stall.
  @Test func opensNoFilesWithinLimits() throws {
    let names = ["culprit-20260101T000001.000Z-7.run", "culprit-20260101T000002.000Z-7-1.stall"]
    try run(ended: false).write(to: URL(fileURLWithPath: "\(directory)/\(names[0])"))
    try stall(ended: true).write(to: URL(fileURLWithPath: "\(directory)/\(names[1])"))
    let watch = inotify_init1(Int32(IN_NONBLOCK))
    defer { close(watch) }
    try #require(inotify_add_watch(watch, directory, UInt32(IN_OPEN)) >= 0)
    for (limit, opens) in [(2, false), (1, true)] {
      RetentionPolicy(directory: directory, limits: storageLimits(files: limit), own: nil).enforce()
      var events = [UInt8](repeating: 0, count: 1 << 16)
      let count = max(0, read(watch, &events, events.count))
      #expect(String(decoding: events[..<count], as: UTF8.self).contains("culprit-") == opens, "limit \(limit)")
    }
  }

  @Test func enforcesLimitsAtStop() throws {
    let process = ObservedProcess(getpid(), "/bin/shop", version: Watchdog.version, since: 1_790_000_000_000_000_000)
    var configuration = Watchdog.Configuration()
    configuration.storage.notesCrashes = false
    configuration.storage.filesMax = 1
    let box = BlackBoxWriter(directory, configuration, process, ProblemList())
    try box.open()
    for number in 1...3 {
      for second in 1...2 {
        let name = "culprit-20260101T00000\(second).000Z-8-\(number).stall"
        try stall(ended: true).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
      }
      box.enforceRetention()
    }
    box.stop(until: .max)
    #expect(stallFiles(in: directory).count == 1)
  }

  @Test func limitsUnreportedRuns() throws {
    var files = (10..<30).map { ("culprit-20260101T0000\($0).000Z-\($0).run", run(ended: false)) }
    files.append(("culprit-20260101T000011.500Z-11-1.stall", stall(ended: false)))
    for (name, content) in files { try content.write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
    let parentName = "culprit-20260101T000001.000Z-\(getppid()).run"
    try parent().write(to: URL(fileURLWithPath: "\(directory)/\(parentName)"))
    RetentionPolicy(directory: directory, limits: storageLimits(files: 5), own: nil).enforce()
    let hung = files.filter { $0.0.contains("Z-11") }.map(\.0)
    #expect(try left(directory) == ([parentName] + hung + files[15..<20].map(\.0)).sorted())
  }

  @Test func keepsOpenStallsOfLiveRuns() throws {
    let (own, other) = ("20260101T000010.000Z-\(getpid())", "20260101T000010.000Z-\(getppid())")
    let files: [(name: String, content: Data, stays: Bool)] = [
      ("culprit-\(own).run", run(ended: false), true), ("culprit-\(own)-1.stall", stall(ended: false), true),
      ("culprit-\(own)-2.stall", stall(ended: true), false), ("culprit-\(other).run", try parent(), true),
      ("culprit-20260101T000011.000Z-\(getppid())-1.stall", stall(ended: false), true),
      // An earlier process had this id.
      ("culprit-20260101T000009.999Z-\(getppid())-1.stall", stall(ended: false), false),
      ("culprit-20260101T000009.999Z-\(getpid())-1.stall", stall(ended: false), false),
    ]
    try write(files.map { ($0.name, $0.content) }, directory)
    for file in files {
      let date = Date(timeIntervalSinceNow: -40 * 86_400)
      try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: "\(directory)/\(file.name)")
    }
    for limits in [storageLimits(bytes: 0, files: 0), storageLimits()] {
      RetentionPolicy(directory: directory, limits: limits, own: files[0].name).enforce()
      #expect(try left(directory) == files.filter(\.stays).map(\.name).sorted())
    }
  }

  @Test func limitsUnreportedHangs() throws {
    // In a container every run has the same process id.
    let hung = (10..<30).flatMap { second in
      [
        ("culprit-20260101T0000\(second).000Z-1.run", run(ended: false)),
        ("culprit-20260101T0000\(second).200Z-1-1.stall", stall(ended: false)),
        ("culprit-20260101T0000\(second).300Z-1-2.stall", stall(ended: false)),
      ]
    }
    let reported = [
      ("culprit-20260101T000040.000Z-1.told", run(ended: false)),
      ("culprit-20260101T000040.200Z-1-1.stall", stall(ended: false)),
      ("culprit-20260101T000041.000Z-2-1.stall", stall(ended: true)),
    ]
    try write(hung + reported, directory)
    RetentionPolicy(directory: directory, limits: storageLimits(files: 9), own: nil).enforce()
    #expect(try left(directory) == hung.suffix(12).map(\.0).sorted())
    RetentionPolicy(directory: directory, limits: storageLimits(bytes: 0), own: nil).enforce()
    #expect(try left(directory) == hung.suffix(3).map(\.0).sorted())
    try write(hung, directory)
    for (name, _) in hung {
      let date = Date(timeIntervalSinceNow: -40 * 86_400)
      try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: "\(directory)/\(name)")
    }
    RetentionPolicy(directory: directory, limits: storageLimits(), own: nil).enforce()
    #expect(try left(directory) == hung.suffix(3).map(\.0).sorted())
  }

  @Test func matchesStallsToRunsByName() {
    let run = "culprit-20261120T102340.000Z-4242.run"
    for (stall, belongs) in [
      ("culprit-20261120T102340.000Z-4242-1.stall", true), ("culprit-20261120T102351.204Z-4242-17.stall", true),
      ("culprit-20261120T102339.999Z-4242-1.stall", false), ("culprit-20261120T102351.204Z-424-1.stall", false),
      ("culprit-20261120T102351.204Z-42420-1.stall", false), ("culprit", false),
    ] { #expect(FileNames.belongs(stall, to: run) == belongs, "\(stall)") }
  }

  private func write(_ files: [(name: String, content: Data)], _ directory: String) throws {
    for (name, content) in files { try content.write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
  }

  private func left(_ directory: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
  }

  @Test func enforcesByteLimitExactly() throws {
    let ended = stall(ended: true)
    let open = stall(ended: false)
    let files: [(name: String, content: Data)] = [
      ("culprit-20260101T000001.000Z-7-1.stall", open), ("culprit-20260101T000002.000Z-8-1.stall", ended),
      ("culprit-20260101T000003.000Z-8-2.stall", ended + Data(count: 1 << 20)),
      ("culprit-20260101T000004.000Z-8-3.stall", ended), ("others.txt", Data(count: 1 << 20)),
    ]
    let total = files.dropLast().reduce(0) { $0 + $1.content.count }
    let names = files.map(\.name)
    for (limit, gone) in [
      (total, []), (total - 1, [names[1]]), (total - ended.count, [names[1]]),
      (total - ended.count - 1, [names[1], names[2]]), (open.count, [names[1], names[2], names[3]]),
      (open.count - 1, Array(names.dropLast())),
    ] {
      try withTemporaryDirectory { directory in
        try write(files, directory)
        RetentionPolicy(directory: directory, limits: storageLimits(bytes: limit), own: nil).enforce()
        #expect(try left(directory) == names.filter { !gone.contains($0) }, "\(limit) of \(total)")
      }
    }
  }

  @Test func removesOldFiles() throws {
    let day: TimeInterval = 86_400
    let files: [(name: String, content: Data, age: TimeInterval, stays: Bool)] = [
      ("culprit-20260101T000001.000Z-5.told", run(ended: false), 31 * day, false),
      ("culprit-20260101T000002.000Z-5-1.stall", stall(ended: false), 31 * day, false),
      ("culprit-20260101T000003.000Z-6.run", run(ended: true), 31 * day, false),
      ("culprit-20260101T000004.000Z-6-1.stall", stall(ended: true), 31 * day, false),
      ("culprit-20260101T000005.000Z-7.run", run(ended: false), 31 * day, true),
      ("culprit-20260101T000006.000Z-7-1.stall", stall(ended: false), 31 * day, true),
      ("culprit-20260101T000006.500Z-7-2.stall", stall(ended: true), 31 * day, false),
      ("culprit-20260101T000007.000Z-8.told", run(ended: false), 29 * day, true),
      ("culprit-20260101T000008.000Z-8-1.stall", stall(ended: true), 29 * day, true),
      ("culprit-20260101T000009.000Z-9.new", Data(), 7200, false),
      ("culprit-20260101T000010.000Z-10.new", Data(), 1800, true), ("others.stall", Data(), 31 * day, true),
    ]
    try write(files.map { ($0.name, $0.content) }, directory)
    for file in files {
      let date = Date(timeIntervalSinceNow: -file.age)
      try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: "\(directory)/\(file.name)")
    }
    RetentionPolicy(directory: directory, limits: storageLimits(), own: nil).enforce()
    #expect(try left(directory) == files.filter(\.stays).map(\.name).sorted())
  }

  @Test func followsStateDirectoryConventions() {
    func directory(_ variables: [String: String]) -> String? {
      Watchdog.Configuration.standardDirectory(executable: "/usr/bin/shop") { variables[$0] }
    }
    let home = ["HOME": "/home/a"]
    #expect(directory(home) == "/home/a/.local/state/culprit/shop")
    #expect(directory(home.merging(["XDG_STATE_HOME": "/s"]) { $1 }) == "/s/culprit/shop")
    #expect(directory(home.merging(["XDG_STATE_HOME": "relative"]) { $1 }) == "/home/a/.local/state/culprit/shop")
    #expect(directory(["RUNTIME_DIRECTORY": "/run/shop", "XDG_STATE_HOME": "/s"]) == "/run/shop/culprit")
    #expect(directory(["STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "RUNTIME_DIRECTORY": "/r"]) == "/var/lib/a/culprit")
    #expect(directory([:]) == nil)
  }

  @Test func closesExaminedFiles() throws {
    for number in 1...9 {
      let content = number % 3 == 0 ? run(ended: number % 2 == 0) : stall(ended: number % 2 == 0)
      let name = "culprit-20260101T00000\(number).000Z-\(number)" + (number % 3 == 0 ? ".run" : "-1.stall")
      try content.write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
    }
    func openFiles() throws -> Int { try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count }
    let before = try openFiles()
    // Each turn exceeds the limit by one file, so the policy opens all files.
    for turn in 0..<300 {
      let name = "culprit-20250101T000000.\(100 + turn)Z-1-1.stall"
      try stall(ended: false).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
      RetentionPolicy(directory: directory, limits: storageLimits(files: 9), own: nil).enforce()
    }
    // Other tests open files at the same time.
    #expect(try openFiles() < before + 250)
  }
}
