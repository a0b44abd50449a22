import CCulpritLinux
import CulpritStallRecord
import Foundation
import SampleRecordings
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@Suite struct DiskThreadTests {
  @TemporaryDirectory private var directory: String
  private let process = ObservedProcess(7, "/bin/shop", version: Watchdog.version, since: 1_790_000_000_000_000_000)

  /// A disk that blocks until `open()` is called.
  private final class Gate: Sendable {
    private let isOpen = Atomic<Bool>(false)
    func open() { isOpen.store(true, ordering: .releasing) }
    func pass() { while !isOpen.load(ordering: .acquiring) { usleep(1000) } }
  }

  private func box(_ directory: String) throws -> BlackBoxWriter {
    let box = BlackBoxWriter(directory, Watchdog.Configuration(), process, ProblemList())
    try box.open()
    return box
  }

  private func stall(_ id: UInt64) -> Stall {
    Stall("main", id: id, thread: (7, "shop"), began: 1_790_000_001_000_000_000, duration: .seconds(2))
  }

  private func captured(_ number: Int) -> (Sample, Stack) {
    let frames = (0..<512).map { StackFrame.returnAddress(RuntimeAddress(UInt64(number << 16 | $0))) }
    let sample = Sample(age: .milliseconds(number), stack: nil, outcome: .captured, cpuTime: nil)
    return (sample, Stack(frames: frames, end: .outermost))
  }

  @Test func countsSamplesLostToStuckDisk() throws {
    let box = try box(directory)
    let queue = StallFileQueue(box, process: process, stall: stall(1), modules: [], samples: [])
    let gate = Gate()
    box.disk.put { gate.pass() }
    for number in 0..<2000 { queue.add(captured(number).0, captured(number).1, []) }
    let late = StallFileQueue(box, process: process, stall: stall(2), modules: [], samples: (0..<2000).map(captured))
    late.add(captured(0).0, captured(0).1, [])
    late.close(keepsFile: true)
    gate.open()
    var ended = stall(1)
    ended.hasEnded = true
    queue.end(ended)
    queue.close(keepsFile: true)
    box.stop(until: .max)
    let files = stallFiles(in: directory)
    #expect(files.count == 1)
    let file = try read(try #require(files.first))
    let saved = try #require(file.recording.stalls.first)
    // The queue holds 8 MiB, and each stack takes 8 KiB.
    #expect((500..<1100).contains(saved.samples.count), "\(saved.samples.count)")
    #expect(saved.samples.count + Int(saved.lostSamples) == 2000)
    #expect(saved.hasEnded && file.problems.isEmpty)
    #expect(box.problems.all == ["the disk is too slow: a stall of \"main\" is not saved"])
  }

  /// Files of stalls that began before the watchdog must sort behind the run's file.
  @Test func namesStallFilesAfterRun() throws {
    let box = try box(directory)
    var early = stall(1)
    early.began = WallTime(nanosecondsSince1970: 1_789_999_999_000_000_000)
    StallFileQueue(box, process: process, stall: early, modules: [], samples: []).close(keepsFile: true)
    box.stop(until: .max)
    let file = try #require(stallFiles(in: directory).first)
    #expect(file.hasSuffix("/\(box.run.name.dropLast(4))-1.stall"), "\(file)")
    #expect(try read(file).recording.stalls.first?.began == early.began)
  }

  @Test func boundsWaitsForStuckDisk() throws {
    let disk = DiskThread()
    try disk.start()
    let gate = Gate()
    let hasBegun = Promise<Bool>()
    disk.put {
      hasBegun.fulfill(true)
      gate.pass()
    }
    #expect(hasBegun.wait(until: .max) == true)
    #expect(disk.result(until: clinux_clock_ns() &+ 50_000_000) { true } == nil)
    #expect(!disk.stop(until: clinux_clock_ns() &+ 50_000_000))
    #expect((disk.heldUp ?? .zero) >= .milliseconds(50))
    let isDone = Promise<Bool>()
    disk.put { isDone.fulfill(true) }
    gate.open()
    #expect(isDone.wait(until: .max) == true)
    #expect(disk.stop(until: .max))
    #expect(disk.heldUp == nil)
  }

  @Test func everyEndCallWaitsForDisk() throws {
    let own = ObservedProcess(
      id: getpid(),
      executable: process.executable,
      architecture: process.architecture,
      observerVersion: process.observerVersion,
      watchedSince: process.watchedSince
    )
    var configuration = Watchdog.Configuration()
    configuration.storage.notesCrashes = false
    let box = BlackBoxWriter(directory, configuration, own, ProblemList())
    try box.open()
    let gate = Gate()
    box.disk.put { gate.pass() }
    box.run.end(until: 0)
    let deadline = clinux_clock_ns() + 100_000_000
    box.run.end(until: deadline)
    #expect(clinux_clock_ns() >= deadline)
    gate.open()
    box.run.end(until: .max)
    #expect(try String(contentsOfFile: "\(directory)/\(box.run.name)", encoding: .utf8).contains("\nended "))
    box.stop(until: .max)
  }

  @Test func endsThreadOfUnusableDirectory() throws {
    let file = "\(directory)/file"
    try Data().write(to: URL(fileURLWithPath: file))
    weak var disk: DiskThread?
    do {
      let box = BlackBoxWriter(file, Watchdog.Configuration(), process, ProblemList())
      disk = box.disk
      #expect(throws: DirectoryError.self) { try box.open() }
      #expect(box.problems.all == ["stalls cannot be saved in \(file): it is not a directory"])
    }
    while disk != nil { usleep(1000) }
  }

  @Test func reopensRunFileClosedByService() throws {
    var configuration = Watchdog.Configuration()
    configuration.storage.notesCrashes = false
    // Simulates a kernel without separate descriptor tables for threads.
    let disk = DiskThread(hasOwnTable: false)
    let box = BlackBoxWriter(directory, configuration, process, ProblemList(), disk: disk)
    try box.open()
    let path = "\(directory)/\(box.run.name)"
    let number = try descriptor(of: path)
    let other = open("\(directory)/other", O_RDWR | O_CREAT, 0o600)
    dup2(other, number)
    for _ in 0..<2 { _ = box.disk.result(until: .max) { box.run.ensure() } }
    #expect(
      box.problems.all == [
        "\(directory): the service has closed files that are not its own; they have been opened again"
      ]
    )
    #expect(try descriptor(of: path) != number)
    box.stop(until: .max)
    #expect(try String(contentsOfFile: path, encoding: .utf8).contains("\nended "))
    #expect(try String(contentsOfFile: "\(directory)/other", encoding: .utf8) == "")
    for number in [number, other] { close(number) }
  }

  @Test func keepsDescriptorsOutOfServiceTable() throws {
    let box = try box(directory)
    let queues = (1...3).map { StallFileQueue(box, process: process, stall: stall($0), modules: [], samples: []) }
    let numbers = box.disk.result(until: .max) {
      (try? openFiles())?.filter { $0.path.hasPrefix(directory) }.count ?? 0
    }
    #expect(try openFiles().allSatisfy { !$0.path.hasPrefix(directory) })
    #expect(numbers == 4)
    for queue in queues { queue.close(keepsFile: true) }
    box.stop(until: .max)
    #expect(stallFiles(in: directory).count == 3)
    #expect(try String(contentsOfFile: "\(directory)/\(box.run.name)", encoding: .utf8).contains("\nended "))
  }

  @Test func distributesSyncsEvenly() {
    let scheduler = FsyncScheduler()
    var places = [FsyncScheduler.Place](repeating: FsyncScheduler.Place(), count: 50)
    var synced = [UInt64](repeating: 0, count: 50)
    var turns = [Int](repeating: 0, count: 50)
    for tick in 1...300 {
      for index in places.indices where index != 20 || tick <= 20 {
        let now = 1_000_000_000_000 + UInt64(tick) * 103_000_000
        guard scheduler.isTurn(&places[index], lastSync: synced[index], now: now) else { continue }
        scheduler.synced(&places[index], at: now)
        synced[index] = now
        turns[index] += 1
      }
      if tick == 20 { scheduler.leave(places[20]) }
    }
    #expect(turns.reduce(0, +) == 150 && turns[20] == 0)
    #expect(turns.enumerated().allSatisfy { $0.offset == 20 || (3...4).contains($0.element) }, "\(turns)")
  }
}
