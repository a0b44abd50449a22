import CulpritStallRecord
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Culprit

extension WatchdogTests {
  @Test func reportsOngoingStallsWhenStopped() throws {
    let found = try reports(saving) { watchdog in
      let loop = try watchdog.watchLoop(named: "endless")
      loop.begin()
      stallByWaiting(for: .milliseconds(700))
      watchdog.stop()
      loop.end()
    }
    #expect(found.map(\.hasEnded) == [false])
    let duration = try #require(found.first).duration
    #expect(duration >= .milliseconds(650) && duration <= .milliseconds(700), "\(duration)")
    let file = try read(try #require(stallFiles(in: directory).first))
    #expect(file.recording.stalls.map(\.hasEnded) == [false])
    #expect(file.problems.isEmpty)
  }

  @Test func fileIsReadableThroughoutStall() throws {
    var counts: [Int] = []
    _ = try reports(saving) { watchdog in
      let loop = try watchdog.watchLoop(named: "growing")
      try loop.withTurn {
        stallByWaiting(for: .milliseconds(400))
        for _ in 0..<5 {
          stallByWaiting(for: .milliseconds(100))
          let file = try read(try #require(stallFiles(in: directory).first))
          #expect(file.recording.process != nil && file.problems.isEmpty)
          counts.append(file.recording.stalls[0].samples.count)
        }
      }
    }
    #expect(zip(counts, counts.dropFirst()).allSatisfy { $0 < $1 }, "\(counts)")
  }

  @Test func watchesWithoutUsableDirectory() throws {
    let file = "\(directory)/file"
    try Data().write(to: URL(fileURLWithPath: file))
    for path in [file, "\(file)/below", "/proc/nothing/here"] {
      var configuration = quick
      configuration.storage.directory = path
      let found = try reports(configuration) { watchdog in
        #expect(watchdog.status.problems.contains { $0.hasPrefix("stalls cannot be saved in \(path): ") })
        watchdog.withSection("unsaved", threshold: .milliseconds(50)) { stallByWaiting(for: .milliseconds(300)) }
      }
      #expect(found.map(\.source.name) == ["unsaved"])
    }
  }

  @Test func stoppingEndsIterations() async throws {
    let watchdog = try Watchdog(quick)
    let (began, begin) = AsyncStream.makeStream(of: Void.self)
    let tasks = (0..<4).map { _ in
      Task.detached {
        var (reports, names) = (watchdog.stalls.makeAsyncIterator(), [String]())
        begin.yield()
        while let report = await reports.next() { names.append(report.source.name) }
        return names
      }
    }
    actor Reader {
      func names(_ watchdog: Watchdog, _ begin: AsyncStream<Void>.Continuation) async -> [String] {
        var (reports, names) = (watchdog.stalls.makeAsyncIterator(), [String]())
        begin.yield()
        while let report = await reports.next(isolation: self) { names.append(report.source.name) }
        return names
      }
    }
    async let read = Reader().names(watchdog, begin)
    for await _ in began.prefix(5) {}
    var unread = watchdog.stalls.makeAsyncIterator()
    watchdog.withSection("seen", threshold: .milliseconds(100)) { stallByWaiting(for: .milliseconds(400)) }
    #expect(await watchdog.stop(patience: .seconds(60)))
    for task in tasks { #expect(await task.value == ["seen"]) }
    #expect(await read == ["seen"])
    #expect(await unread.next()?.source.name == "seen")
    #expect(await unread.next() == nil)
    #expect(watchdog.status.mode == .stopped && watchdog.status.limitations.isEmpty)
    #expect(throws: WatchdogError.stopped) { try watchdog.reconfigure { $0.sampling.threshold = .seconds(2) } }
    for await report in watchdog.stalls { Issue.record("report after the stop: \(report)") }
  }

  @Test func handlerCapturesCanUseWatchdogInDeinit() throws {
    final class Holder: @unchecked Sendable {
      var registrations: [Watchdog.Registration] = []
      weak var watchdog: Watchdog?
      let gone: Finished
      init(_ watchdog: Watchdog, _ gone: Finished) { (self.watchdog, self.gone) = (watchdog, gone) }
      deinit {
        _ = watchdog?.status
        for registration in registrations { registration.remove() }
        gone.set()
      }
    }
    let watchdog = try Watchdog(quick)
    let gone = (0..<5).map { _ in Finished() }
    func hold(_ number: Int, _ add: (Holder) -> Watchdog.Registration?) {
      let holder = Holder(watchdog, gone[number])
      if let registration = add(holder) { holder.registrations.append(registration) }
    }
    hold(0) { holder in watchdog.onStall { _ in _ = holder } }
    hold(1) { holder in
      watchdog.onTerminate { _ in
        _ = holder; return .terminate
      }
    }
    hold(2) { holder in
      watchdog.addContext("holder") {
        _ = holder; return ""
      }
    }
    let activity = try watchdog.beginActivity("kept", threshold: .seconds(600)) {
      [holder = Holder(watchdog, gone[3])] in
      _ = holder
    }
    try watchdog.beginActivity("ended", threshold: .seconds(600)) { [holder = Holder(watchdog, gone[4])] in
      _ = holder
    }
    .end()
    #expect(watchdog.stop(patience: .seconds(60)))
    withExtendedLifetime(activity) {}
    #expect(gone.map(\.isSet) == [true, true, true, true, true])
  }

  @Test func watchdogsShareOneEngine() throws {
    let (first, second) = (try Watchdog(quick), try Watchdog(quick))
    #expect(second.status.problems.isEmpty)
    let (ofFirst, ofSecond) = (Reports(), Reports())
    first.onStall { ofFirst.add($0) }
    second.onStall { ofSecond.add($0) }
    let (loop, other) = (try first.watchLoop(named: "http"), try second.watchLoop(named: "http"))
    #expect(throws: WatchdogError.alreadyWatched("http")) { try second.watchLoop(named: "http") }
    loop.withTurn { stallByWaiting(for: .milliseconds(600)) }
    first.stopPatiently()
    #expect(first.isStopped && refuses(.stopped) { try first.watchLoop(named: "late") })
    other.withTurn { stallByWaiting(for: .milliseconds(600)) }
    second.stopPatiently()
    #expect(ofFirst.all.map(\.source.name) == ["http"])
    #expect(ofSecond.all.map(\.source.name) == ["http", "http (2)"])
  }

  @Test func reportsSettingsThatDifferFromFirstWatchdog() throws {
    let first = try Watchdog(quick)
    var different = quick
    different.reporting.perMinute = 3
    different.storage.directory = "/srv/stalls"
    let second = try Watchdog(different)
    let third = try Watchdog()
    #expect(
      second.status.problems == [
        "storage.directory is none, as the first watchdog of this process has it, and not /srv/stalls",
        "reporting.perMinute is 60, as the first watchdog of this process has it, and not 3",
      ]
    )
    #expect(third.status.problems.isEmpty && first.status.problems.isEmpty)
    #expect(second.configuration == first.configuration)
    for watchdog in [first, third, second] { watchdog.stop() }
  }

  /// The next launch reports stalls without this note.
  @Test func notesPrintedReportInFile() throws {
    let watchdog = try Watchdog(saving)
    watchdog.withSection("printed", threshold: .milliseconds(100)) { stallByWaiting(for: .milliseconds(600)) }
    watchdog.stopPatiently()
    let file = try read(try #require(stallFiles(in: directory).first))
    #expect(file.recording.stalls.first?.notes.contains { $0.kind == .reported } == true)
  }

  @Test func releasedWatchdogStops() throws {
    _ = try Watchdog(quick)
    var different = quick
    different.reporting.perMinute = 3
    let next = try Watchdog(different)
    #expect(next.configuration == different && next.status.problems.isEmpty)
    next.stop()
  }

  @Test func startsAndStopsConcurrently() throws {
    let configuration = quick
    let engines = Mutex<[Engine]>([])
    DispatchQueue.concurrentPerform(iterations: 8) { _ in
      // A start waits up to 10 s for another stop, so simulated time must not pass during a stop.
      clock.countingThread {
        for _ in 0..<10 {
          do {
            let watchdog = try Watchdog(configuration)
            let engine = try #require(watchdog.engine)
            engines.withLock { $0.append(engine) }
            watchdog.withSection("short", threshold: .seconds(1)) {}
            #expect(watchdog.stop(patience: .seconds(60)))
          } catch { Issue.record(error) }
        }
      }
    }
    #expect(engines.withLock { $0.allSatisfy(\.hasStopped) })
    let last = try Watchdog(quick)
    #expect(last.status.mode == .watching)
    last.stop()
  }

  private func refuses(_ code: WatchdogError.Code, _ body: () throws -> some Any) -> Bool {
    do { _ = try body() } catch { return (error as? WatchdogError)?.code == code }
    return false
  }

  @Test func leaksNoDescriptors() throws {
    let brief = Watchdog.Configuration(threshold: .milliseconds(40), interval: .milliseconds(10))
    @Sendable func cycle() throws {
      let found = try reports(brief) { watchdog in
        watchdog.withSection("brief", threshold: .milliseconds(40)) { stallByWaiting(for: .milliseconds(300)) }
      }
      #expect(found.count == 1)
    }
    // The first cycle opens files that stay open.
    try cycle()
    try withOwnDescriptors {
      let before = try openFiles().map(\.path).sorted()
      for _ in 0..<3 { try cycle() }
      #expect(try openFiles().map(\.path).sorted() == before)
    }
  }

  @Test func ignoresWorkAfterStop() throws {
    let watchdog = try Watchdog(quick)
    let loop = try watchdog.watchLoop(named: "late")
    watchdog.stop()
    #expect(throws: WatchdogError.stopped) { try watchdog.watchLoop(named: "later") }
    #expect(!watchdog.beginSection("later", threshold: .seconds(1)).isWatched)
    #expect(watchdog.withSection("later", threshold: .seconds(1)) { 7 } == 7)
    let found = try reports { _ in loop.withTurn { stallByWaiting(for: .milliseconds(600)) } }
    #expect(found.isEmpty)
  }

  @Test func limitsNumberOfSources() throws {
    let found = try reports { watchdog in
      var sections: [WatchedSection] = []
      while sections.count < 5000 {
        let section = watchdog.beginSection("many", threshold: .seconds(100))
        guard section.isWatched else { break }
        sections.append(section)
      }
      #expect(sections.count <= 4096 && sections.count > 4000)
      #expect(throws: WatchdogError.tooManySources(limit: 4096)) { try watchdog.watchLoop(named: "one more") }
      sections.removeAll()
      #expect(watchdog.beginSection("again", threshold: .seconds(1)).isWatched)
    }
    #expect(found.isEmpty)
  }

  @Test func recordsWhileHandlerBlocks() throws {
    let watchdog = try Watchdog(saving)
    let gate = DispatchSemaphore(value: 0)
    watchdog.onStall { _ in clock.whileIdle { gate.wait() } }
    for name in ["first", "second"] {
      watchdog.withSection(name, threshold: .milliseconds(100)) { stallByWaiting(for: .seconds(1)) }
    }
    clock.block(for: .seconds(1))
    #expect(try stallFiles(in: directory).map { try read($0).recording.stalls.map(\.hasEnded) } == [[true], [true]])
    for _ in 0..<2 { gate.signal() }
    watchdog.stop()
  }

  @Test func stopsInHandler() throws {
    let watchdog = try Watchdog(quick)
    let finished = Finished()
    watchdog.onStall { _ in
      watchdog.stop()
      finished.set()
    }
    watchdog.withSection("stopping", threshold: .milliseconds(100)) { stallByWaiting(for: .seconds(1)) }
    #expect(clock.wait { finished.isSet })
    #expect(watchdog.status.mode == .stopped)
  }

  @Test func stoppedLoopDoesNotDisturbItsSuccessor() throws {
    let found = try reports { watchdog in
      let old = try watchdog.watchLoop(named: "old")
      old.stop()
      let new = try watchdog.watchLoop(named: "new")
      old.withTurn { clock.block(for: .milliseconds(600)) }
      new.withTurn {
        for _ in 0..<60 { old.withTurn { stallByWaiting(for: .milliseconds(10)) } }
      }
    }
    #expect(found.map(\.source.name) == ["new"])
  }

  @Test(.needsMounts)
  func reportsInFullWhenDiskFillsUp() throws {
    try #require(mount("culprit-test", directory, "tmpfs", 0, "size=64k") == 0)
    // MNT_DETACH, because programs started by other tests briefly hold copies of descriptors.
    defer { umount2(directory, Int32(MNT_DETACH)) }
    try Data(count: 40 << 10).write(to: URL(fileURLWithPath: "\(directory)/ballast"))
    var configuration = Watchdog.Configuration(threshold: .milliseconds(100), interval: .milliseconds(10))
    configuration.storage.directory = directory
    var problems: [String] = []
    let found = try reports(configuration) { watchdog in
      watchdog.withSection("full", threshold: .milliseconds(100)) {
        func wait(_ depth: Int) { recurse(depth) { stallByWaiting(for: .milliseconds(15)) } }
        for round in 0..<4000 where watchdog.status.problems.isEmpty { wait(round % 80 * 3) }
        for depth in 0..<10 { wait(depth * 3) }
      }
      // Repeated failures are one problem, which disappears once a stall is saved.
      for _ in 0..<2 {
        watchdog.withSection("full again", threshold: .milliseconds(100)) { stallByWaiting(for: .milliseconds(300)) }
      }
      clock.settle()
      problems = watchdog.status.problems
      try FileManager.default.removeItem(atPath: "\(directory)/ballast")
      watchdog.withSection("saved", threshold: .milliseconds(100)) { stallByWaiting(for: .milliseconds(300)) }
      clock.settle()
      #expect(watchdog.status.problems.isEmpty, "\(watchdog.status.problems)")
    }
    #expect(found.count == 4)
    #expect(problems.count == 1 && problems[0].hasSuffix("No space left on device"), "\(problems)")
    let file = try read(try #require(stallFiles(in: directory).first))
    #expect(file.recording.process != nil)
    #expect((file.recording.stalls.first?.samples.count ?? 0) < (found.first?.raw.stall.samples.count ?? 0))
  }

  @Test func reportsWhenDirectoryBecomesFile() throws {
    var problems: [String] = []
    let found = try reports(saving) { watchdog in
      try FileManager.default.removeItem(atPath: directory)
      try Data().write(to: URL(fileURLWithPath: directory))
      watchdog.withSection("unsaved", threshold: .milliseconds(100)) { stallByWaiting(for: .seconds(1)) }
      clock.settle()
      problems = watchdog.status.problems
    }
    #expect(found.count == 1)
    #expect(problems.first?.hasPrefix("cannot create \(directory)/culprit-") == true, "\(problems)")
  }

  @Test func recreatesRemovedDirectory() throws {
    let watchdog = try Watchdog(saving)
    watchdog.onStall { _ in }
    func ages() throws -> [Duration] {
      try read(try #require(stallFiles(in: directory).first)).recording.stalls.first?.samples.map(\.age) ?? []
    }
    func runs() throws -> Int {
      try FileManager.default.contentsOfDirectory(atPath: directory).count { $0.hasSuffix(".run") }
    }
    var before: [Duration] = []
    try FileManager.default.removeItem(atPath: directory)
    try watchdog.withSection("removed", threshold: .milliseconds(100)) {
      stallByWaiting(for: .milliseconds(300))
      #expect(try runs() == 1)
      before = try ages()
      try FileManager.default.removeItem(atPath: directory)
      stallByWaiting(for: .milliseconds(1200))
      #expect(try ages().count > before.count)
      try FileManager.default.removeItem(atPath: directory)
    }
    watchdog.stopPatiently()
    #expect(try runs() == 1)
    let file = try read(try #require(stallFiles(in: directory).first))
    let stall = try #require(file.recording.stalls.first)
    #expect(stall.hasEnded && stall.lostSamples == 0 && file.problems.isEmpty)
    #expect(before.count >= 3 && stall.samples.map(\.age).starts(with: before), "\(before)")
    #expect(watchdog.status.problems.first?.hasSuffix("has been made anew") == true, "\(watchdog.status.problems)")
  }

  private func fill(_ file: Int32) {
    for size in [4096, 1] {
      let bytes = [UInt8](repeating: 1, count: size)
      while write(file, bytes, size) > 0 {}
    }
  }

  @Test(.needsMounts)
  func createsRunFileOnceDiskHasRoom() throws {
    try #require(mount("tmpfs", directory, "tmpfs", 0, "size=1m") == 0)
    defer { umount2(directory, Int32(MNT_DETACH)) }
    let ballast = open("\(directory)/ballast", O_WRONLY | O_CREAT, 0o600)
    fill(ballast)
    close(ballast)
    _ = try reports(saving) { watchdog in
      #expect(watchdog.status.problems.first?.hasSuffix("No space left on device") == true)
      unlink("\(directory)/ballast")
      watchdog.withSection("later", threshold: .milliseconds(100)) { stallByWaiting(for: .seconds(1)) }
    }
    let names = try FileManager.default.contentsOfDirectory(atPath: directory)
    #expect(names.filter { $0.hasSuffix(".run") }.count == 1 && names.count == 2, "\(names)")
  }

  @Test(.needsMounts)
  func recordsEndOnFullDisk() throws {
    try #require(mount("tmpfs", directory, "tmpfs", 0, "size=1m") == 0)
    defer { umount2(directory, Int32(MNT_DETACH)) }
    let watchdog = try Watchdog(saving)
    watchdog.onStall { _ in }
    watchdog.withSection("ended", threshold: .milliseconds(100)) {
      func wait(_ depth: Int) { recurse(depth) { stallByWaiting(for: .milliseconds(50)) } }
      for _ in 0..<6 { wait(3) }
      let ballast = open("\(directory)/ballast", O_WRONLY | O_CREAT, 0o600)
      defer { close(ballast) }
      for depth in 0..<200 where watchdog.status.problems.isEmpty {
        fill(ballast)
        wait(depth)
      }
      // Samples of known stacks, smaller than the end record, use up the remaining space.
      for _ in 0..<10 { wait(3) }
    }
    watchdog.stopPatiently()
    let file = try read(try #require(stallFiles(in: directory).first))
    let stall = try #require(file.recording.stalls.first)
    #expect(stall.hasEnded && stall.lostSamples > 0 && file.problems.isEmpty, "\(stall.lostSamples) \(file.problems)")
  }
}
