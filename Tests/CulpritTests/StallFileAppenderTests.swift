import CCulpritLinux
import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@testable import Culprit

@Suite struct StallFileAppenderTests {
  @TemporaryDirectory private var directory: String
  private static let began = WallTime(nanosecondsSince1970: 1_790_000_000_000_000_000)

  private static let process = ObservedProcess(7, "/a", since: began)

  private static let stall = Stall("main", thread: (1, "main"), began: began, duration: .seconds(1))

  private func file(_ stall: Stall = stall, _ body: (inout StallFileAppender) throws -> Void) throws -> StallFile {
    try withTemporaryDirectory { directory in
      let box = BlackBoxWriter(directory, Watchdog.Configuration(), Self.process, ProblemList())
      var appender = try StallFileAppender(box, process: Self.process, stall: stall)
      appender.begin([])
      try body(&appender)
      #expect(appender.failure == nil)
      let files = stallFiles(in: directory)
      let path = try #require(files.first)
      return try read(path)
    }
  }

  private static func stack(_ number: Int) -> Stack {
    Stack(frames: [.returnAddress(RuntimeAddress(UInt64(0x1000 + number)))], end: .outermost)
  }

  private static let other = ThreadSample(2, "b", nil, .unknown)

  private static func sample(_ number: Int) -> Sample {
    Sample(age: .milliseconds(number), stack: nil, outcome: .captured, cpuTime: nil)
  }

  @Test func writesEachStackOnce() throws {
    let order = [0, 1, 0, 2, 1, 1, 0, 3, 3, 2]
    let read = try file { file in
      for (place, number) in order.enumerated() { file.add(Self.sample(place), Self.stack(number), []) }
      file.add(Self.sample(10), nil, [])
      file.add(other: Self.other, Self.stack(1), [])
      file.add(other: Self.other, Self.stack(4), [])
      file.endOthers(leftOut: 3)
    }
    let stall = try #require(read.recording.stalls.first)
    #expect(read.problems.isEmpty && read.recording.stacks == (0..<5).map { Self.stack($0) })
    #expect(stall.samples.map(\.stack) == order + [nil])
    let others = try #require(stall.others)
    #expect(others.threads.map(\.stack) == [1, 4] && others.leftOut == 3 && others.isComplete)
  }

  @Test func writesForgottenStacksAgain() throws {
    let count = SampleStore.limit + 3
    let read = try file { file in
      for number in 0..<count { file.add(Self.sample(number), Self.stack(number), []) }
      for number in [count - 1, 0, count - 3, 0] { file.add(Self.sample(count), Self.stack(number), []) }
    }
    let stall = try #require(read.recording.stalls.first)
    let stacks = read.recording.stacks
    #expect(stacks.count == count + 1)
    let expected = Array(0..<count) + [count - 1, 0, count - 3, 0]
    #expect(stall.samples.map { $0.stack.map { stacks[$0] } } == expected.map { Self.stack($0) })
    #expect(stall.samples.suffix(4).map(\.stack) == [count - 1, count, count - 3, count])
  }

  @Test func countsRefusedSamplesAsLost() throws {
    var stall = Self.stall
    stall.lostSamples = 5
    stall.duration = .seconds(2)
    let goingOn = try file { $0.goesOn(stall, refused: 3) }
    #expect(goingOn.recording.stalls.first?.lostSamples == 8)
    #expect(goingOn.recording.stalls.first?.hasEnded == false)
    #expect(goingOn.recording.stalls.first?.duration == .seconds(2))
    stall.hasEnded = true
    stall.duration = .seconds(3)
    let ended = try file { file in
      file.goesOn(stall, refused: 2)
      file.end(stall, refused: 4)
    }
    #expect(ended.recording.stalls.first?.lostSamples == 9)
    #expect(ended.recording.stalls.first?.hasEnded == true)
    #expect(ended.recording.stalls.first?.duration == .seconds(3))
  }

  @Test func writesNewModulesWithSamples() throws {
    let modules = (0..<3).map { Module(path: "/lib/\($0).so", buildID: [UInt8($0)], mappings: []) }
    let read = try file { file in
      file.begin([modules[0]])
      file.add(Self.sample(0), Self.stack(0), [modules[1]])
      file.add(other: Self.other, nil, [modules[2]])
      file.add(StallNote(.context, title: "t", text: "x"))
    }
    #expect(read.recording.modules == modules)
    #expect(read.recording.stalls.first?.notes.map(\.text) == ["x"])
  }

  @Test(.needsMounts)
  func updatesDurationOnFullDisk() throws {
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    try #require(mount("tmpfs", directory, "tmpfs", 0, "size=64k") == 0)
    defer { umount2(directory, Int32(MNT_DETACH)) }
    let box = BlackBoxWriter(directory, Watchdog.Configuration(), Self.process, ProblemList())
    var appender = try StallFileAppender(box, process: Self.process, stall: Self.stall)
    appender.begin([])
    let ballast = open("\(directory)/ballast", O_WRONLY | O_CREAT, 0o600)
    defer { close(ballast) }
    let page = [UInt8](repeating: 1, count: 4096)
    while write(ballast, page, page.count) > 0 {}
    // The rest of the file's last page is too small for the note.
    appender.add(StallNote(.context, title: "a", text: String(repeating: "b", count: 5000)))
    #expect(appender.failure != nil)
    var stall = Self.stall
    (stall.duration, stall.lostSamples) = (.seconds(9), 4)
    appender.goesOn(stall, refused: 3)
    let path = try #require(stallFiles(in: directory).first)
    let full = try read(path)
    let found = try #require(full.recording.stalls.first)
    #expect(found.duration == .seconds(9) && found.lostSamples == 7 && found.notes.isEmpty && full.problems.isEmpty)
    ftruncate(ballast, 0)
    appender.goesOn(stall, refused: 3)
    #expect(try read(path).recording.stalls.first?.notes.count == 1)
  }

  @Test func restoresRemovedFile() throws {
    let problems = ProblemList()
    let box = BlackBoxWriter(directory, Watchdog.Configuration(), Self.process, problems)
    var appender = try StallFileAppender(box, process: Self.process, stall: Self.stall)
    appender.begin([])
    for number in 0..<5 { appender.add(Self.sample(number), Self.stack(number), []) }
    let path = try #require(stallFiles(in: directory).first)
    try FileManager.default.removeItem(atPath: path)
    appender.goesOn(Self.stall, refused: 0)
    for number in 5..<8 { appender.add(Self.sample(number), Self.stack(number), []) }
    let found = try read(path)
    #expect(found.problems.isEmpty)
    #expect(found.recording.stalls.first?.samples.map(\.stack) == Array(0..<8))
    appender.remove()
    #expect(stallFiles(in: directory).isEmpty)
  }

  /// Wraps a noncopyable appender for use in closures.
  private final class Appender {
    var file: StallFileAppender
    init(_ box: BlackBoxWriter, _ id: UInt64) throws {
      var stall = StallFileAppenderTests.stall
      stall.id = id
      file = try StallFileAppender(box, process: StallFileAppenderTests.process, stall: stall)
      file.begin([])
    }
  }

  @Test func boundsOpenFiles() throws {
    let problems = ProblemList()
    let box = BlackBoxWriter(directory, Watchdog.Configuration(), Self.process, problems)
    let count = OpenFiles.limit * 3
    let appenders = try (1...count).map { try Appender(box, UInt64($0)) }
    for number in 0..<4 {
      for appender in appenders { appender.file.add(Self.sample(number), Self.stack(number), []) }
      #expect(box.openFiles.count == OpenFiles.limit)
      #expect(try openFiles().filter { $0.path.hasPrefix(directory) }.count == OpenFiles.limit)
    }
    for appender in appenders { appender.file.goesOn(Self.stall, refused: 0) }
    let files = try stallFiles(in: directory).map { try read($0) }
    #expect(files.count == count && files.allSatisfy { $0.problems.isEmpty && $0.recording.stalls.count == 1 })
    #expect(files.allSatisfy { $0.recording.stalls[0].samples.map(\.stack) == [0, 1, 2, 3] })
    #expect(problems.all.isEmpty)
  }

  @Test func countsUsedFilesOnce() {
    let (files, first, second) = (OpenFiles(), OpenFiles.File(clinux_descriptor()), OpenFiles.File(clinux_descriptor()))
    for file in [first, second, first, second, second] { files.use(file) }
    #expect(files.count == 2)
  }

  @Test func countsSamplesOfRemovedClosedFile() throws {
    let problems = ProblemList()
    let box = BlackBoxWriter(directory, Watchdog.Configuration(), Self.process, problems)
    let module = Module(path: "/lib/a.so", buildID: [1], mappings: [])
    let first = try Appender(box, 1)
    for number in 0..<5 { first.file.add(Self.sample(number), Self.stack(number), number == 2 ? [module] : []) }
    let path = try #require(stallFiles(in: directory).first)
    let others = try (2...UInt64(OpenFiles.limit + 1)).map { try Appender(box, $0) }
    try FileManager.default.removeItem(atPath: path)
    var stall = Self.stall
    stall.notes = [StallNote(.context, title: "t", text: "x")]
    first.file.goesOn(stall, refused: 2)
    for number in 5..<8 { first.file.add(Self.sample(number), Self.stack(number), []) }
    first.file.goesOn(stall, refused: 2)
    let found = try read(path)
    let saved = try #require(found.recording.stalls.first)
    #expect(found.problems.isEmpty && found.recording.modules == [module])
    #expect(saved.samples.map(\.stack) == [0, 1, 2] && saved.lostSamples == 7 && saved.notes.map(\.text) == ["x"])
    #expect(problems.all == ["\(path) was removed while it was written, and has been made anew"])
    withExtendedLifetime(others) {}
  }
}
