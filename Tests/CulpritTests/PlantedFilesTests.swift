import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@testable import Culprit
@testable import CulpritBlackBox

@Suite(.serialized, .usesSimulatedClock) struct PlantedFilesTests {
  @TemporaryDirectory private var directory: String

  enum Planted: CaseIterable {
    case link, danglingLink, pipe, directory, hardLink, othersFile

    func plant(at path: String, _ target: String) throws {
      switch self {
      case .link: try #require(symlink(target, path) == 0)
      case .danglingLink: try #require(symlink(target + "-to-be", path) == 0)
      case .pipe: try #require(mkfifo(path, 0o666) == 0)
      case .directory:
        try #require(mkdir(path, 0o777) == 0)
        try Data("in it".utf8).write(to: URL(fileURLWithPath: path + "/content"))
      case .hardLink: try #require(Glibc.link(target, path) == 0)
      case .othersFile:
        try Data(contentsOf: URL(fileURLWithPath: target)).write(to: URL(fileURLWithPath: path))
        try #require(chmod(path, 0o666) == 0 && chown(path, 12_345, 12_345) == 0)
      }
    }

    func needPrivileges() throws {
      if self == .othersFile, getuid() != 0 { try Test.cancel("needs root to change file owners") }
    }
  }

  private static let since = WallTime(nanosecondsSince1970: 5)

  private static let record = Data(
    RunRecord(
      identity: ProcessIdentity(process: 7, start: 1, boot: "b", namespace: 1),
      executable: "/a",
      since: WallTime(nanosecondsSince1970: 5),
      memoryKills: []
    )
    .text.utf8
  )

  private static func process(_ since: WallTime = since, id: pid_t = 7) -> ObservedProcess {
    ObservedProcess(id: id, executable: "/a", architecture: "x86_64", observerVersion: "0", watchedSince: since)
  }

  private static let stall = Stall("main", began: since, duration: .seconds(2), hasEnded: false)

  private static let stallFile = Data(StallFileWriter.file(of: Recording(process: process(), stalls: [stall])))

  /// Returns the attributes and content of every file below `path`.
  private func state(_ path: String) throws -> [String: String] {
    var found: [String: String] = [:]
    for name in try FileManager.default.subpathsOfDirectory(atPath: path) {
      var information = stat()
      try #require(lstat("\(path)/\(name)", &information) == 0)
      let isFile = information.st_mode & S_IFMT == S_IFREG
      let content = isFile ? try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)")).base64EncodedString() : ""
      found[name] =
        "\(information.st_ino) \(information.st_mode) \(information.st_uid) \(information.st_mtim) "
        + "\(information.st_nlink) \(content)"
    }
    return found
  }

  private func withDirectories(_ body: (_ ours: String, _ others: String) throws -> Void) throws {
    try withTemporaryDirectory { ours in try withTemporaryDirectory { others in try body(ours, others) } }
  }

  @Test func retentionIgnoresPlantedFiles() throws {
    try withDirectories { ours, others in
      try Self.record.write(to: URL(fileURLWithPath: "\(others)/record"))
      try Self.stallFile.write(to: URL(fileURLWithPath: "\(others)/stall"))
      var number = 1000
      for planted in Planted.allCases where planted != .othersFile || getuid() == 0 {
        for suffix in ["run", "told", "stall", "new"] {
          number += 1
          let path = "\(ours)/culprit-20260101T000000.000Z-\(number)\(suffix == "stall" ? "-1" : "").\(suffix)"
          try planted.plant(at: path, "\(others)/\(suffix == "stall" ? "stall" : "record")")
        }
      }
      let old = [timespec(tv_sec: 1000, tv_nsec: 0), timespec(tv_sec: 1000, tv_nsec: 0)]
      for name in try FileManager.default.contentsOfDirectory(atPath: ours) {
        try #require(utimensat(AT_FDCWD, "\(ours)/\(name)", old, AT_SYMLINK_NOFOLLOW) == 0)
      }
      let before = try (state(ours), state(others))
      let plain = "culprit-20260101T000000.000Z-7.told"
      try Self.record.write(to: URL(fileURLWithPath: "\(ours)/\(plain)"))
      let limits = storageLimits(bytes: 0, files: 0, age: .zero)
      RetentionPolicy(directory: ours, limits: limits, own: nil).enforce()
      #expect(try state(ours) == before.0)
      #expect(try state(others) == before.1)
    }
  }

  @Test(arguments: Planted.allCases) func ignoresPlantedRunsAndStalls(planted: Planted) throws {
    try planted.needPrivileges()
    try withDirectories { ours, others in
      try Self.record.write(to: URL(fileURLWithPath: "\(others)/record"))
      try Self.stallFile.write(to: URL(fileURLWithPath: "\(others)/stall"))
      try Self.record.write(to: URL(fileURLWithPath: "\(ours)/culprit-20260101T000001.000Z-7.run"))
      try planted.plant(at: "\(ours)/culprit-20260101T000000.000Z-7.run", "\(others)/record")
      try planted.plant(at: "\(ours)/culprit-20260101T000002.000Z-7-1.stall", "\(others)/stall")
      let before = try (state(ours), state(others))
      var found = try previousRuns(ours)
      #expect(found.map(\.hangs.count) == [0])
      var after = try state(ours)
      after.removeValue(forKey: "culprit-20260101T000001.000Z-7.told")
      #expect(after == before.0.filter { $0.key != "culprit-20260101T000001.000Z-7.run" })
      #expect(try state(others) == before.1)
      try Self.record.write(to: URL(fileURLWithPath: "\(ours)/culprit-20260101T000003.000Z-7.run"))
      try Self.stallFile.write(to: URL(fileURLWithPath: "\(ours)/culprit-20260101T000004.000Z-7-1.stall"))
      found = try previousRuns(ours)
      #expect(found.map(\.hangs.count) == [1])
    }
  }

  private func previousRuns(_ directory: String) throws -> [Watchdog.PreviousRun] {
    let found = Runs()
    let runs = PreviousRuns(directory: directory, own: "none", ReportSettings(Watchdog.Configuration()))
    runs.report { found.add($0) }
    _ = runs.finish(until: .max)
    return found.all
  }

  private func runFile(_ directory: String, _ process: ObservedProcess) throws -> RunFile {
    let disk = DiskThread()
    try disk.start()
    let file = RunFile(directory: directory, process: process, notesCrashes: false, disk: disk, problems: ProblemList())
    do { try file.open() } catch {
      #expect(disk.stop(until: .max))
      throw error
    }
    return file
  }

  @Test(arguments: Planted.allCases) func neverWritesToPlantedFiles(planted: Planted) throws {
    try planted.needPrivileges()
    try withDirectories { ours, others in
      try Self.record.write(to: URL(fileURLWithPath: "\(others)/file"))
      let time = WallTime(nanosecondsSince1970: 1_790_000_000_000_000_000)
      let process = Self.process(time, id: getpid())
      let stem = "\(ours)/culprit-\(time.fileNamePart)-\(getpid())"
      var stall = Self.stall
      stall.began = time
      for suffix in [".new", "-1.stall"] { try planted.plant(at: stem + suffix, "\(others)/file") }
      var before = try (state(ours), state(others))
      #expect(throws: AppendOnlyFileError.self) {
        _ = try runFile(ours, process)
      }
      #expect(throws: AppendOnlyFileError.self) {
        let box = BlackBoxWriter(ours, Watchdog.Configuration(), process, ProblemList())
        _ = try StallFileAppender(box, process: process, stall: stall)
      }
      #expect(try state(ours) == before.0)
      #expect(try state(others) == before.1)
      try FileManager.default.removeItem(atPath: stem + ".new")

      // The run's file replaces any planted file except a directory.
      try planted.plant(at: stem + ".run", "\(others)/file")
      before = try (state(ours), state(others))
      if planted == .directory {
        #expect(throws: AppendOnlyFileError.self) {
          _ = try runFile(ours, process)
        }
        #expect(try state(ours) == before.0)
      } else {
        let file = try runFile(ours, process)
        file.end(until: .max)
        let record = try #require(try RunRecord(text: String(contentsOfFile: stem + ".run", encoding: .utf8)))
        #expect(record.since == time && record.ended != nil)
      }
      let target = "\(others)/file"
      #expect(try Data(contentsOf: URL(fileURLWithPath: target)) == Self.record)
      #expect(try FileManager.default.contentsOfDirectory(atPath: others) == ["file"])
    }
  }

  /// Other names of the run's file must not be opened: closing would release the process's lock.
  @Test func keepsLockOfFileWithSecondName() throws {
    let process = Self.process(WallTime(nanosecondsSince1970: 1_790_000_000_000_000_000), id: getpid())
    let file = try runFile(directory, process)
    defer { file.end(until: .max) }
    for suffix in ["run", "told", "stall"] {
      try #require(link("\(directory)/\(file.name)", "\(directory)/culprit-20260101T000000.000Z-8.\(suffix)") == 0)
    }
    let limits = storageLimits(bytes: 0, files: 0, age: .zero)
    RetentionPolicy(directory: directory, limits: limits, own: file.name).enforce()
    let runs = PreviousRuns(directory: directory, own: file.name, ReportSettings(Watchdog.Configuration()))
    runs.report { _ in }
    _ = runs.finish(until: .max)
    let descriptor = open("\(directory)/\(file.name)", O_RDWR)
    defer { close(descriptor) }
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    // F_OFD_GETLK, because F_GETLK ignores the locks of the process itself.
    #expect(fcntl(descriptor, 36, &lock) == 0 && lock.l_type == Int16(F_WRLCK))
  }

  @Test func reportsWorldWritableDirectories() throws {
    let place = "\(directory)/place"
    let link = "\(directory)/link"
    try #require(mkdir(place, 0o700) == 0 && symlink(place, link) == 0)
    // Members of group root are no risk.
    for mode: mode_t in [0o700, 0o1777] + (getgid() == 0 ? [0o770] : []) {
      try #require(chmod(place, mode) == 0)
      for path in [place, link, link + "/"] { #expect(DirectoryRisks.found(path) == [], "\(mode)") }
    }
    try #require(chmod(place, 0o777) == 0)
    for path in [place, link] {
      #expect(DirectoryRisks.found(path) == ["all users can remove or replace the files in \(place): its mode is 777"])
    }
  }

  @Test(.needsRoot(to: "change file owners"))
  func reportsDirectoriesAndLinksOfOtherUsers() throws {
    let (place, link) = ("\(directory)/place", "\(directory)/link")
    try #require(mkdir(place, 0o700) == 0 && symlink(place, link) == 0)
    try #require(lchown(link, 12_345, 12_345) == 0)
    for path in [link, link + "/"] {
      #expect(
        DirectoryRisks.found(path) == ["\(link) is a symbolic link of user 12345, which can redirect saved stalls"]
      )
    }
    try #require(chown(place, 12_345, 0) == 0)
    #expect(DirectoryRisks.found(place) == ["its owner, user 12345, can remove or replace the files in \(place)"])
    try #require(chown(place, 0, 12_345) == 0 && chmod(place, 0o770) == 0)
    #expect(DirectoryRisks.found(place) == ["group 12345 can remove or replace the files in \(place): its mode is 770"])
    // The owner of any directory on the path, even behind links, can replace its entries.
    let inner = "\(place)/a/b"
    let way = "\(directory)/way"
    try #require(mkdir("\(place)/a", 0o700) == 0 && mkdir(inner, 0o700) == 0 && symlink("place/./a", way) == 0)
    try #require(chmod(place, 0o700) == 0 && chown(place, 12_345, 0) == 0)
    for path in [inner, "\(way)/b", "\(way)/../a/b/"] {
      #expect(DirectoryRisks.found(path) == ["its owner, user 12345, can create a directory in \(place)"], "\(path)")
    }
    try #require(chown(place, 0, 0) == 0 && chmod(place, 0o777) == 0)
    #expect(DirectoryRisks.found(inner) == ["all users can create a directory in \(place): its mode is 777"])
    // The sticky bit protects other users' files. A link to itself is no risk.
    try #require(chmod(place, 0o1777) == 0 && symlink("round", "\(place)/round") == 0)
    #expect(DirectoryRisks.found(inner) == [])
    #expect(DirectoryRisks.found("\(place)/round") == [])
  }

  private final class Runs: @unchecked Sendable {
    // SAFETY: accessed only while the lock is held.
    private var list: [Watchdog.PreviousRun] = []
    private let lock = NSLock()
    var all: [Watchdog.PreviousRun] { lock.withLock { list } }
    func add(_ run: Watchdog.PreviousRun) { lock.withLock { list.append(run) } }
  }
}

extension WatchdogTests {
  @Test func acceptsLinkAsDirectory() throws {
    try #require(mkdir("\(directory)/place", 0o777) == 0 && chmod("\(directory)/place", 0o777) == 0)
    try #require(symlink("place", "\(directory)/link") == 0)
    var configuration = quick
    configuration.storage.directory = "\(directory)/link"
    let watchdog = try Watchdog(configuration)
    let problems = watchdog.status.problems
    watchdog.stop()
    #expect(problems == DirectoryRisks.found("\(directory)/link") && problems.count == 1)
    #expect(try FileManager.default.contentsOfDirectory(atPath: "\(directory)/place").count == 1)
  }
}
