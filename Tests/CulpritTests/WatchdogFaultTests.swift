import CulpritStallRecord
import Foundation
import Synchronization
import Testing

@testable import Culprit

/// Starting, stopping, and everything that goes wrong.
extension WatchdogTests {
  /// A stall that is under way when the watchdog is stopped is told as far as it was seen.
  @Test func stoppingReportsWhatIsStuck() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.storage.directory = directory
      let reports = Reports()
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { reports.add($0) }
      let loop = try watchdog.watchLoop(named: "endless")
      loop.begin()
      stallByComputing(for: .milliseconds(700))
      watchdog.stop()
      loop.end()
      #expect(reports.all.count == 1)
      #expect(reports.all.first?.hasEnded == false)
      let file = try read(try #require(stallFiles(in: directory).first))
      #expect(file.recording.stalls.first?.hasEnded == false)
      #expect(file.problems.isEmpty)
    }
  }

  /// The file is whole at every moment of the stall, not only after it.
  @Test func theFileGrowsWhileTheStallLasts() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.storage.directory = directory
      let (sizes, finished) = (Reports.Counts(), Finished())
      _ = try reports(configuration) { watchdog in
        let loop = try watchdog.watchLoop(named: "growing")
        let watcher = Thread {
          while sizes.all.count < 40, Set(sizes.all).count < 5 {
            Thread.sleep(forTimeInterval: 0.1)
            for path in (try? stallFiles(in: directory)) ?? [] {
              if let file = try? read(path), file.recording.process != nil {
                sizes.add(file.recording.stalls.first?.samples.count ?? 0)
              }
            }
          }
          finished.set()
        }
        watcher.start()
        loop.withTurn { while !finished.isSet { stallByComputing(for: .milliseconds(100)) } }
      }
      let seen = sizes.all
      #expect(seen.count > 3)
      #expect(seen == seen.sorted())
      #expect((seen.last ?? 0) > (seen.first ?? 0))
    }
  }

  /// A service is not ended by a directory that is not there: it is watched, and told that nothing is saved.
  @Test func aDirectoryThatCannotBeUsedIsTold() throws {
    try withDirectory { directory in
      let file = "\(directory)/file"
      try Data().write(to: URL(fileURLWithPath: file))
      for path in [file, "\(file)/below", "/proc/nothing/here"] {
        var configuration = quick
        configuration.storage.directory = path
        let found = try reports(configuration) { watchdog in
          #expect(watchdog.status.problems.contains { $0.hasPrefix("stalls cannot be saved in \(path): ") })
          watchdog.withSection("unsaved", threshold: .milliseconds(50)) { stallByComputing(for: .milliseconds(300)) }
        }
        #expect(found.map(\.source.name) == ["unsaved"])
      }
    }
  }

  /// Whoever iterates is let go when the watchdog stops; reports end there.
  @Test func stoppingEndsEveryIteration() async throws {
    let watchdog = try Watchdog(quick)
    let tasks = (0..<4).map { _ in
      Task.detached {
        var names: [String] = []
        for await report in watchdog.stalls { names.append(report.source.name) }
        return names
      }
    }
    /// It iterates where it is.
    actor Reader {
      func names(_ watchdog: Watchdog) async -> [String] {
        var names: [String] = []
        var reports = watchdog.stalls.makeAsyncIterator()
        while let report = await reports.next(isolation: self) { names.append(report.source.name) }
        return names
      }
    }
    async let read = Reader().names(watchdog)
    // Until all of them listen.
    var unread = watchdog.stalls.makeAsyncIterator()
    try await Task.sleep(for: .milliseconds(300))
    watchdog.withSection("seen", threshold: .milliseconds(100)) { stallByComputing(for: .milliseconds(400)) }
    #expect(await watchdog.stop(patience: .seconds(60)))
    for task in tasks { #expect(await task.value == ["seen"]) }
    #expect(await read == ["seen"])
    #expect(await unread.next()?.source.name == "seen")
    #expect(await unread.next() == nil)
    #expect(watchdog.status.mode == .stopped && watchdog.status.limitations.isEmpty)
    #expect(throws: WatchdogError.stopped) { try watchdog.reconfigure { $0.sampling.threshold = .seconds(2) } }
    // Nothing comes any more.
    for await report in watchdog.stalls { Issue.record("\(report)") }
  }

  /// What only a handler holds uses the watchdog when it goes, which is when the watchdog stops.
  @Test func whatHandlersHoldMayUseTheWatchdogWhenItGoes() throws {
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

  /// Parallel tests of one process each start their service's watchdog.
  @Test func aSecondWatchdogTakesPart() throws {
    let (first, second) = (try Watchdog(quick), try Watchdog(quick))
    #expect(second.status.problems.isEmpty)
    let (told, toldToo) = (Reports(), Reports())
    first.onStall { told.add($0) }
    second.onStall { toldToo.add($0) }
    // What each calls "http" is another loop.
    let (loop, other) = (try first.watchLoop(named: "http"), try second.watchLoop(named: "http"))
    #expect(throws: WatchdogError.alreadyWatched("http")) { try second.watchLoop(named: "http") }
    loop.withTurn { stallByComputing(for: .seconds(2)) }
    first.stopPatiently()
    #expect(first.isStopped && refuses(.stopped) { try first.watchLoop(named: "late") })
    other.withTurn { stallByComputing(for: .seconds(2)) }
    second.stopPatiently()
    #expect(told.all.map(\.source.name) == ["http"])
    #expect(toldToo.all.map(\.source.name) == ["http", "http (2)"])
    // The last has ended what ran.
    #expect(try Watchdog(quick).status.mode == .watching)
  }

  /// The first start's configuration holds. What another one asks for and does not get is told.
  @Test func settingsOfASecondWatchdogThatDisagreeAreTold() throws {
    let first = try Watchdog(quick)
    var different = quick
    different.reporting.perMinute = 3
    different.storage.directory = "/srv/stalls"
    let second = try Watchdog(different)
    let indifferent = try Watchdog()
    #expect(
      second.status.problems == [
        "storage.directory is none, as the first watchdog of this process has it, and not /srv/stalls",
        "reporting.perMinute is 60, as the first watchdog of this process has it, and not 3",
      ]
    )
    #expect(indifferent.status.problems.isEmpty && first.status.problems.isEmpty)
    #expect(second.configuration == first.configuration)
    for watchdog in [first, indifferent, second] { watchdog.stop() }
  }

  @Test func watchdogsStartAndStopAtOnce() throws {
    let configuration = quick
    let threads = (0..<8).map { number in
      let thread = Thread {
        for _ in 0..<10 {
          guard let watchdog = try? Watchdog(configuration) else {
            Issue.record("\(number)")
            return
          }
          watchdog.withSection("short", threshold: .seconds(1)) {}
          // One that others stop with waits for nothing that has gone meanwhile.
          #expect(watchdog.stop(patience: .seconds(60)))
        }
      }
      thread.start()
      return thread
    }
    while !threads.allSatisfy({ $0.isFinished }) { usleep(10_000) }
    let last = try Watchdog(quick)
    #expect(last.status.mode == .watching)
    last.stop()
  }

  /// Whether `body` throws an error with `code`.
  private func refuses(_ code: WatchdogError.Code, _ body: () throws -> some Any) -> Bool {
    do { _ = try body() } catch { return (error as? WatchdogError)?.code == code }
    return false
  }

  /// Neither watchdogs that come and go nor their reports leave anything behind.
  @Test func nothingIsLeftBehind() throws {
    func openFiles() throws -> Int { try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count }
    let brief = Watchdog.Configuration(threshold: .milliseconds(40), interval: .milliseconds(10))
    func cycle() throws {
      let found = try reports(brief) { watchdog in
        watchdog.withSection("brief", threshold: .milliseconds(40)) { stallByComputing(for: .milliseconds(300)) }
      }
      #expect(found.count == 1)
    }
    for _ in 0..<3 { try cycle() }
    let before = try openFiles()
    for _ in 0..<12 { try cycle() }
    // Other tests open files and pipes at the same time, and close them: what is left behind stays.
    for _ in 0..<3000 where try openFiles() >= before + 10 { usleep(10_000) }
    #expect(try openFiles() < before + 10)
  }

  @Test func aWatchdogThatIsLetGoStops() throws {
    _ = try Watchdog(quick)
    try Watchdog(quick).stop()
  }

  @Test func aStoppedWatchdogWatchesNothingMore() throws {
    let watchdog = try Watchdog(quick)
    let loop = try watchdog.watchLoop(named: "late")
    watchdog.stop()
    #expect(throws: WatchdogError.stopped) { try watchdog.watchLoop(named: "later") }
    #expect(!watchdog.beginSection("later", threshold: .seconds(1)).isWatched)
    #expect(watchdog.withSection("later", threshold: .seconds(1)) { 7 } == 7)
    // Neither a new watchdog nor the old loop's marks may disturb each other.
    let found = try reports { _ in loop.withTurn { stallByComputing(for: .milliseconds(600)) } }
    #expect(found.isEmpty)
  }

  @Test func tooManySourcesAreRefusedAndComeBack() throws {
    let found = try reports { watchdog in
      var timers: [WatchedSection] = []
      while timers.count < 5000 {
        let timer = watchdog.beginSection("many", threshold: .seconds(100))
        guard timer.isWatched else { break }
        timers.append(timer)
      }
      #expect(timers.count <= 4096 && timers.count > 4000)
      #expect(throws: WatchdogError.tooManySources(limit: 4096)) { try watchdog.watchLoop(named: "one more") }
      timers.removeAll()
      #expect(watchdog.beginSection("again", threshold: .seconds(1)).isWatched)
    }
    #expect(found.isEmpty)
  }

  /// A handler that blocks holds up later reports, not the recording.
  @Test func aBlockingHandlerDoesNotHoldUpTheRecord() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.storage.directory = directory
      let watchdog = try Watchdog(configuration)
      let gate = Finished()
      watchdog.onStall { _ in while !gate.isSet { Thread.sleep(forTimeInterval: 0.01) } }
      for name in ["first", "second"] {
        watchdog.withSection(name, threshold: .milliseconds(100)) { stallByComputing(for: .seconds(1)) }
      }
      // Both are recorded in full although the handler still has the first.
      var ended = 0
      for _ in 0..<6000 where ended < 2 {
        ended = try stallFiles(in: directory).filter { try read($0).recording.stalls.first?.hasEnded == true }.count
        Thread.sleep(forTimeInterval: 0.01)
      }
      #expect(ended == 2)
      gate.set()
      watchdog.stop()
    }
  }

  @Test func stoppingInAHandlerIsAllowed() throws {
    let watchdog = try Watchdog(quick)
    let finished = Finished()
    watchdog.onStall { _ in
      watchdog.stop()
      finished.set()
    }
    watchdog.withSection("stopping", threshold: .milliseconds(100)) { stallByComputing(for: .seconds(1)) }
    while !finished.isSet { Thread.sleep(forTimeInterval: 0.01) }
    try Watchdog(quick).stop()
  }

  /// What is stopped marks nothing any more: neither its own work, nor that of whoever was watched since.
  @Test func aStoppedLoopDisturbsNobody() throws {
    let found = try reports { watchdog in
      let old = try watchdog.watchLoop(named: "old")
      old.stop()
      let new = try watchdog.watchLoop(named: "new")
      old.begin()
      computeAfterwards(for: .milliseconds(600))
      old.end()
      new.begin()
      for _ in 0..<60 {
        old.begin()
        stallByComputing(for: .milliseconds(10))
        old.end()
      }
      new.end()
    }
    #expect(found.map(\.source.name) == ["new"])
  }

  /// Threads that cannot answer must not keep others from being sampled.
  @Test func threadsThatDoNotAnswerHoldUpNobody() throws {
    let found = try reports { watchdog in
      let stop = Finished()
      let deaf = (0..<12).map { number in
        let finished = Finished()
        Thread {
          var set = sigset_t()
          sigemptyset(&set)
          sigaddset(&set, SIGPROF)
          pthread_sigmask(SIG_BLOCK, &set, nil)
          let loop = try? watchdog.watchLoop(named: "deaf \(number)")
          loop?.begin()
          while !stop.isSet { sched_yield() }
          loop?.end()
          finished.set()
        }.start()
        return finished
      }
      Thread.sleep(forTimeInterval: 0.3)
      watchdog.withSection("victim", threshold: .milliseconds(200)) { stallByComputing(for: .milliseconds(900)) }
      stop.set()
      for finished in deaf { while !finished.isSet { Thread.sleep(forTimeInterval: 0.01) } }
    }
    let victim = found.first { $0.source.name == "victim" }
    #expect(victim?.culprit?.function.name == "stallByComputing(for:)")
    #expect((victim?.evidence.stackCount ?? 0) > 1)
  }

  /// A blocked stall is read without a signal: its sleep is not cut short.
  @Test func sleepsAreNotCutShort() throws {
    let found = try reports { watchdog in
      watchdog.withSection("asleep", threshold: .milliseconds(200)) { sleepOnce() }
    }
    #expect(slept == 0)
    #expect(found.first?.culprit?.function.name == "sleepOnce()")
    #expect(found.first?.culprit?.waiting.map { $0.samples * 2 > $0.of } == true)
    #expect(found.first?.description.contains("found waiting in ") == true)
    #expect(found.first?.description.contains("nanosleep") == true)
  }

  /// A file system of 64 KiB that is full in mid-stall: the report is made all the same, the status says what is missing,
  /// and the file can be read as far as it goes.
  @Test(.enabled(if: getuid() == 0, "mounting a file system takes root"))
  func aFullDiskCostsTheRecordNotTheReport() throws {
    try withDirectory { directory in
      try #require(mount("culprit-test", directory, "tmpfs", 0, "size=64k") == 0)
      // Also while somebody else in this process starts a program, which has a copy of every descriptor for a moment.
      defer { umount2(directory, Int32(MNT_DETACH)) }
      // Room for the beginning of the record, and not for all of it.
      try Data(count: 40 << 10).write(to: URL(fileURLWithPath: "\(directory)/ballast"))
      var configuration = Watchdog.Configuration(threshold: .milliseconds(100), interval: .milliseconds(10))
      configuration.storage.directory = directory
      let reports = Reports()
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { reports.add($0) }
      watchdog.withSection("full", threshold: .milliseconds(100)) {
        func compute(_ number: Int) { recurse(number * 3) { stallByComputing(for: .milliseconds(15)) } }
        for round in 0..<4000 where watchdog.status.problems.isEmpty { compute(round % 80) }
        // What comes now is in the report only.
        for number in 0..<40 { compute(number) }
      }
      watchdog.stopPatiently()
      #expect(reports.all.count == 1)
      #expect(
        watchdog.status.problems.first?.hasSuffix("No space left on device") == true,
        "\(watchdog.status.problems)"
      )
      let file = try read(try #require(stallFiles(in: directory).first))
      #expect(file.recording.process != nil)
      #expect((file.recording.stalls.first?.samples.count ?? 0) < (reports.all.first?.raw.stall.samples.count ?? 0))
    }
  }

  /// A plain file is where the directory was. The report is made all the same, and the status says what failed.
  @Test func whatCannotBeSavedIsStillReported() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.storage.directory = directory
      let reports = Reports()
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { reports.add($0) }
      try FileManager.default.removeItem(atPath: directory)
      try Data().write(to: URL(fileURLWithPath: directory))
      watchdog.withSection("unsaved", threshold: .milliseconds(100)) { stallByComputing(for: .seconds(1)) }
      watchdog.stopPatiently()
      #expect(reports.all.count == 1)
      #expect(watchdog.status.problems.first?.hasPrefix("cannot create \(directory)/culprit-") == true)
    }
  }

  /// The directory is removed before a stall, and once more in the middle of it: everything is there in the end.
  @Test func aRemovedDirectoryIsMadeAnew() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.storage.directory = directory
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { _ in }
      func ages() -> [Duration] {
        let file = (try? stallFiles(in: directory).first).flatMap { try? read($0) }
        return file?.recording.stalls.first?.samples.map(\.age) ?? []
      }
      var before: [Duration] = []
      func runs() -> Int {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []).filter { $0.hasSuffix(".run") }.count
      }
      try FileManager.default.removeItem(atPath: directory)
      try watchdog.withSection("removed", threshold: .milliseconds(100)) {
        while ages().count < 3 { stallByComputing(for: .milliseconds(10)) }
        #expect(runs() == 1)
        before = ages()
        try FileManager.default.removeItem(atPath: directory)
        while ages().count < 5 { stallByComputing(for: .milliseconds(10)) }
        // And right before its end.
        try FileManager.default.removeItem(atPath: directory)
      }
      watchdog.stop()
      #expect(runs() == 1)
      let file = try read(try #require(stallFiles(in: directory).first))
      let stall = try #require(file.recording.stalls.first)
      #expect(stall.hasEnded && stall.lostSamples == 0 && file.problems.isEmpty)
      // Those from before, too.
      #expect(stall.samples.map(\.age).starts(with: before), "\(before)")
      #expect(watchdog.status.problems.first?.hasSuffix("has been made anew") == true, "\(watchdog.status.problems)")
    }
  }

  /// Where there was no room for the file of the run, it is made when there is a stall to tell of.
  @Test(.enabled(if: getuid() == 0, "mounting a file system takes root"))
  func theFileOfTheRunIsMadeLater() throws {
    try withDirectory { directory in
      try #require(mount("tmpfs", directory, "tmpfs", 0, "size=1m") == 0)
      defer { umount2(directory, Int32(MNT_DETACH)) }
      let ballast = open("\(directory)/ballast", O_WRONLY | O_CREAT, 0o600)
      let bytes = [UInt8](repeating: 1, count: 4096)
      while write(ballast, bytes, bytes.count) > 0 {}
      close(ballast)
      var configuration = quick
      configuration.storage.directory = directory
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { _ in }
      #expect(watchdog.status.problems.first?.hasSuffix("No space left on device") == true)
      unlink("\(directory)/ballast")
      watchdog.withSection("later", threshold: .milliseconds(100)) { stallByComputing(for: .seconds(1)) }
      watchdog.stopPatiently()
      let names = try FileManager.default.contentsOfDirectory(atPath: directory)
      #expect(names.filter { $0.hasSuffix(".run") }.count == 1 && names.count == 2, "\(names)")
    }
  }

  /// A stall that ends while the disk is full has ended, for every reader.
  @Test(.enabled(if: getuid() == 0, "mounting a file system takes root"))
  func anEndIsToldByAFullDisk() throws {
    try withDirectory { directory in
      try #require(mount("tmpfs", directory, "tmpfs", 0, "size=1m") == 0)
      defer { umount2(directory, Int32(MNT_DETACH)) }
      var configuration = quick
      configuration.storage.directory = directory
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { _ in }
      try watchdog.withSection("ended", threshold: .milliseconds(100)) {
        while try stallFiles(in: directory).isEmpty { recurse(3) { stallByComputing(for: .milliseconds(15)) } }
        let ballast = open("\(directory)/ballast", O_WRONLY | O_CREAT, 0o600)
        defer { close(ballast) }
        // To the last byte: also that of the page that the file ends in.
        while watchdog.status.problems.isEmpty {
          for size in [4096, 1] {
            let bytes = [UInt8](repeating: 1, count: size)
            while write(ballast, bytes, size) > 0 {}
          }
          recurse(Int.random(in: 0..<200)) { stallByComputing(for: .milliseconds(15)) }
        }
        // The end takes more room than a sample whose stack is known.
        for _ in 0..<40 { recurse(3) { stallByComputing(for: .milliseconds(15)) } }
      }
      watchdog.stop()
      let file = try read(try #require(stallFiles(in: directory).first))
      let stall = try #require(file.recording.stalls.first)
      #expect(stall.hasEnded && stall.lostSamples > 0 && file.problems.isEmpty, "\(stall.lostSamples) \(file.problems)")
    }
  }
}
