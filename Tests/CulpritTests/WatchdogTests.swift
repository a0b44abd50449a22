import Foundation
import StallRecord
import Synchronization
import Testing

@testable import Culprit

/// Computes for a while: the code that the tests' stalls are blamed on.
@inline(never)
func stallByComputing(for duration: Duration) {
  let end = ContinuousClock.now + duration
  var value: UInt64 = 1
  while ContinuousClock.now < end { for _ in 0..<1000 { value = value &* 6_364_136_223_846_793_005 &+ 1 } }
  computed = value
}

@inline(never)
func computeAfterwards(for duration: Duration) {
  let end = ContinuousClock.now + duration
  var value: UInt64 = 2
  while ContinuousClock.now < end { for _ in 0..<1000 { value = value &* 3 &+ 1 } }
  computed = value
}

nonisolated(unsafe) private var computed: UInt64 = 0

/// Calls itself so often, then computes: a stack of its own for every depth.
@inline(never)
func recurse(_ depth: Int, for duration: Duration) {
  if depth > 0 { recurse(depth - 1, for: duration) } else { stallByComputing(for: duration) }
  computed &+= 1
}

/// Sleeps for 700 ms in one call; what was left of it, in seconds, tells whether it was cut short.
@inline(never)
func sleepOnce() {
  var left = timespec()
  var time = timespec(tv_sec: 0, tv_nsec: 700_000_000)
  slept = nanosleep(&time, &left) == 0 ? 0 : 1
}

nonisolated(unsafe) private var slept = -1
nonisolated(unsafe) private var over = 0

/// Collects reports.
final class Reports: Sendable {
  private let list = Mutex<[StallReport]>([])
  var all: [StallReport] { list.withLock { $0 } }
  func add(_ report: StallReport) { list.withLock { $0.append(report) } }
}

/// A directory that is removed with its content at the end.
func withDirectory<Result>(_ body: (String) throws -> Result) throws -> Result {
  let path = NSTemporaryDirectory() + "culprit-test-\(UUID().uuidString)"
  try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(atPath: path) }
  return try body(path)
}

func stallFiles(in directory: String) throws -> [String] {
  try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasSuffix(".stall") }.sorted()
    .map { "\(directory)/\($0)" }
}

func read(_ path: String) throws -> StallFile {
  try StallFile(bytes: [UInt8](Data(contentsOf: URL(fileURLWithPath: path))))
}

/// Real stalls on real threads. One after the other: there is one watchdog at a time in a process.
@Suite(.serialized, .usesObserver) struct WatchdogTests {
  private let quick = Configuration(stallThreshold: .milliseconds(400), sampleInterval: .milliseconds(50))

  /// Runs `body` with a watchdog, stops it and returns what it reported.
  private func reports(_ configuration: Configuration? = nil, _ body: (Watchdog) throws -> Void) throws -> [StallReport]
  {
    let reports = Reports()
    let watchdog = try Watchdog(configuration ?? quick)
    watchdog.onStall { reports.add($0) }
    do { try body(watchdog) } catch {
      watchdog.stop()
      throw error
    }
    watchdog.stop()
    return reports.all
  }

  @Test func theFunctionThatTookMostIsNamedNotTheLastOne() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.directory = directory
      var took = Duration.zero
      let found = try reports(configuration) { watchdog in
        let loop = try watchdog.watchLoop(named: "accept")
        took = ContinuousClock().measure {
          loop.began()
          stallByComputing(for: .milliseconds(350))
          computeAfterwards(for: .milliseconds(150))
          loop.ended()
        }
      }
      #expect(found.count == 1)
      let report = try #require(found.first)
      #expect(report.culprit?.frame.function == "stallByComputing(for:)")
      #expect(report.blame.lastStackBlames?.function == "computeAfterwards(for:)")
      #expect(report.stall.source == WatchedSource(kind: .loop, name: "accept"))
      #expect(report.stall.hasEnded)
      #expect(report.stall.duration >= report.stall.threshold)
      // The coarse clock that the begin is stamped with may be updated late on a busy virtual machine.
      #expect(report.stall.duration <= took + .milliseconds(20))
      #expect(report.blame.processorUse != nil)
      #expect(report.culprit?.frame.location?.file.hasSuffix("WatchdogTests.swift") == true)
      // The saved file says the same.
      let file = try read(try #require(stallFiles(in: directory).first))
      #expect(file.problems.isEmpty)
      #expect(
        file.recording.stalls
          == [report.stall].map { stall in
            var saved = stall
            saved.samples = file.recording.stalls.first?.samples ?? []
            return saved
          }
      )
      #expect(file.recording.stalls.first?.samples.map(\.age) == report.stall.samples.map(\.age))
      #expect(file.recording.modules == report.recording.modules)
      let savedStacks = file.recording.stalls[0].samples.map { $0.stack.map { file.recording.stacks[$0] } }
      #expect(savedStacks == report.stall.samples.map { $0.stack.map { report.recording.stacks[$0] } })
    }
  }

  @Test func shortTurnsAreNotReported() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "busy")
      for _ in 0..<40 { loop.turn { computeAfterwards(for: .milliseconds(20)) } }
    }
    #expect(found.isEmpty)
  }

  /// Suspected, but over in time: sampled and dropped.
  @Test func turnsWithinTheThresholdAreNotReported() throws {
    let found = try reports(Configuration(stallThreshold: .seconds(2))) { watchdog in
      let loop = try watchdog.watchLoop(named: "slow")
      loop.turn { computeAfterwards(for: .milliseconds(700)) }
      #expect(watchdog.status.captures > 1)
    }
    #expect(found.isEmpty)
  }

  @Test func sectionsHaveABudget() throws {
    let found = try reports { watchdog in
      let result = watchdog.section("rebuild", budget: .milliseconds(200)) {
        stallByComputing(for: .milliseconds(350))
        return 42
      }
      #expect(result == 42)
      watchdog.section("quick", budget: .milliseconds(200)) { computeAfterwards(for: .milliseconds(20)) }
    }
    #expect(found.map(\.stall.source) == [WatchedSource(kind: .section, name: "rebuild")])
    #expect(found.first?.stall.threshold == .milliseconds(200))
    #expect(found.first?.culprit?.frame.function == "stallByComputing(for:)")
  }

  @Test func sectionsThrowWhatTheirBodyThrows() throws {
    struct Failure: Error, Equatable {}
    let found = try reports { watchdog in
      #expect(throws: Failure.self) {
        try watchdog.section("failing", budget: .seconds(1)) { () throws(Failure) in throw Failure() }
      }
    }
    #expect(found.isEmpty)
  }

  @Test func timersFireOnceAndMayBeInvalidatedTwice() throws {
    let found = try reports { watchdog in
      let timer = watchdog.timer("import", budget: .milliseconds(100))
      #expect(timer.isWatched)
      stallByComputing(for: .milliseconds(400))
      timer.invalidate()
      timer.invalidate()
      computeAfterwards(for: .milliseconds(200))
    }
    #expect(found.count == 1)
    #expect(found.first?.stall.source.name == "import")
  }

  /// Times near the end of what a Duration holds must not overflow anything.
  @Test func absurdBudgetsAreClamped() throws {
    let found = try reports { watchdog in
      for budget in [Duration.seconds(Int64.max), .seconds(-5), .zero, .nanoseconds(1)] {
        watchdog.section("absurd", budget: budget) {}
      }
      let endless = Duration.seconds(Int64.max)
      #expect(throws: WatchdogError.self) { try watchdog.watchLoop(named: "absurd", stallThreshold: endless) }
    }
    #expect(found.isEmpty)
  }

  /// A short budget must not wait for the monitor's long tick.
  @Test func aShortBudgetIsNoticedDuringALongSleep() throws {
    let found = try reports(Configuration(stallThreshold: .seconds(4))) { watchdog in
      Thread.sleep(forTimeInterval: 0.5)
      watchdog.section("short", budget: .milliseconds(40)) { stallByComputing(for: .milliseconds(120)) }
    }
    #expect(found.map(\.stall.source.name) == ["short"])
    // Sampled before its threshold, too.
    #expect((found.first?.stall.samples.first?.age).map { $0 < .milliseconds(40) } == true)
  }

  @Test func nestedSectionsAreReportedEach() throws {
    let found = try reports { watchdog in
      watchdog.section("outer", budget: .milliseconds(300)) {
        watchdog.section("inner", budget: .milliseconds(100)) { stallByComputing(for: .milliseconds(450)) }
      }
    }
    #expect(Set(found.map(\.stall.source.name)) == ["outer", "inner"])
    #expect(found.allSatisfy { $0.culprit?.frame.function == "stallByComputing(for:)" })
  }

  @Test func runLoopIterationsAreWatched() throws {
    let computing = Mutex(Duration.zero)
    let found = try reports { watchdog in
      let thread = Thread {
        let loop = try? watchdog.watchCurrentRunLoop(named: "worker")
        let timer = Timer(timeInterval: 0.05, repeats: false) { _ in
          let took = ContinuousClock().measure { stallByComputing(for: .milliseconds(600)) }
          computing.withLock { $0 = took }
        }
        RunLoop.current.add(timer, forMode: .common)
        // Waiting takes longer than the threshold, and is no stall. The second timer keeps the loop from ending early.
        RunLoop.current.add(Timer(timeInterval: 1.4, repeats: false) { _ in }, forMode: .common)
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 1.6))
        loop?.stop()
        done.store(true, ordering: .releasing)
      }
      done.store(false, ordering: .releasing)
      thread.start()
      while !done.load(ordering: .acquiring) { Thread.sleep(forTimeInterval: 0.02) }
    }
    #expect(found.map(\.stall.source) == [WatchedSource(kind: .runLoop, name: "worker")])
    #expect(found.first?.culprit?.frame.function == "stallByComputing(for:)")
    // The wait that follows is not part of it.
    #expect((found.first?.stall.duration ?? .seconds(9)) <= computing.withLock { $0 } + .milliseconds(100))
  }

  /// A run loop that is busy without ever waiting turns over all the time: congested, not stuck.
  @Test func aBusyRunLoopThatTurnsOverIsNotStuck() throws {
    let found = try reports { watchdog in
      let thread = Thread {
        let loop = try? watchdog.watchCurrentRunLoop(named: "busy")
        let timer = Timer(timeInterval: 0.0001, repeats: true) { _ in computeAfterwards(for: .milliseconds(15)) }
        RunLoop.current.add(timer, forMode: .common)
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 1.2))
        timer.invalidate()
        loop?.stop()
        done.store(true, ordering: .releasing)
      }
      done.store(false, ordering: .releasing)
      thread.start()
      while !done.load(ordering: .acquiring) { Thread.sleep(forTimeInterval: 0.02) }
    }
    #expect(found.isEmpty)
  }

  @Test func theMainRunLoopCanBeWatchedFromAnywhere() throws {
    let found = try reports { watchdog in
      let watch = try watchdog.watchMainRunLoop()
      #expect(throws: WatchdogError.alreadyWatched("main")) { try watchdog.watchMainRunLoop() }
      watch.stop()
      try watchdog.watchMainRunLoop().stop()
    }
    #expect(found.isEmpty)
  }

  @Test func severalLoopsAreWatchedAtOnce() throws {
    let found = try reports { watchdog in
      let threads = (0..<4).map { number in
        let finished = Finished()
        let thread = Thread {
          if let loop = try? watchdog.watchLoop(named: "loop \(number)") {
            loop.turn { stallByComputing(for: .milliseconds(600 + 50 * number)) }
          }
          finished.set()
        }
        thread.start()
        return finished
      }
      for finished in threads { while !finished.isSet { Thread.sleep(forTimeInterval: 0.01) } }
    }
    #expect(Set(found.map(\.stall.source.name)) == Set((0..<4).map { "loop \($0)" }))
    #expect(found.allSatisfy { $0.culprit?.frame.function == "stallByComputing(for:)" })
  }

  @Test func aThreadThatForgetsToEndIsNotStuckForEver() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "forgetful")
      let finished = Finished()
      let thread = Thread {
        loop.began()
        finished.set()
      }
      thread.start()
      while !finished.isSet { Thread.sleep(forTimeInterval: 0.01) }
      Thread.sleep(forTimeInterval: 0.8)
    }
    #expect(found.isEmpty)
  }

  /// A stall that is under way when the watchdog is stopped is told as far as it was seen.
  @Test func stoppingReportsWhatIsStuck() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.directory = directory
      let reports = Reports()
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { reports.add($0) }
      let loop = try watchdog.watchLoop(named: "endless")
      loop.began()
      stallByComputing(for: .milliseconds(700))
      watchdog.stop()
      loop.ended()
      #expect(reports.all.count == 1)
      #expect(reports.all.first?.stall.hasEnded == false)
      let file = try read(try #require(stallFiles(in: directory).first))
      #expect(file.recording.stalls.first?.hasEnded == false)
      #expect(file.problems.isEmpty)
    }
  }

  /// The file is whole at every moment of the stall, not only after it.
  @Test func theFileGrowsWhileTheStallLasts() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.directory = directory
      let sizes = Reports.Counts()
      _ = try reports(configuration) { watchdog in
        let loop = try watchdog.watchLoop(named: "growing")
        let watcher = Thread {
          for _ in 0..<12 {
            Thread.sleep(forTimeInterval: 0.1)
            for path in (try? stallFiles(in: directory)) ?? [] {
              if let file = try? read(path), file.recording.process != nil {
                sizes.add(file.recording.stalls.first?.samples.count ?? 0)
              }
            }
          }
        }
        watcher.start()
        loop.turn { stallByComputing(for: .milliseconds(1300)) }
      }
      let seen = sizes.all
      #expect(seen.count > 3)
      #expect(seen == seen.sorted())
      #expect((seen.last ?? 0) > (seen.first ?? 0))
    }
  }

  @Test func theSecondWatchdogIsRefusedWhileOneRuns() throws {
    let first = try Watchdog(quick)
    #expect(throws: WatchdogError.alreadyRunning) { try Watchdog() }
    first.stop()
    first.stop()
    let second = try Watchdog(quick)
    second.stop()
  }

  /// Neither watchdogs that come and go nor their reports leave anything behind.
  @Test func nothingIsLeftBehind() throws {
    func openFiles() throws -> Int { try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count }
    let brief = Configuration(stallThreshold: .milliseconds(40), sampleInterval: .milliseconds(10))
    func cycle() throws {
      let found = try reports(brief) { watchdog in
        watchdog.section("brief", budget: .milliseconds(40)) { stallByComputing(for: .milliseconds(80)) }
      }
      #expect(found.count == 1)
    }
    for _ in 0..<3 { try cycle() }
    let before = try openFiles()
    for _ in 0..<12 { try cycle() }
    // Other tests open a file or a pipe or two at the same time.
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
    #expect(!watchdog.timer("later", budget: .seconds(1)).isWatched)
    #expect(watchdog.section("later", budget: .seconds(1)) { 7 } == 7)
    // Neither a new watchdog nor the old loop's marks may disturb each other.
    let found = try reports { _ in loop.turn { stallByComputing(for: .milliseconds(600)) } }
    #expect(found.isEmpty)
  }

  @Test func theSameLoopIsNotWatchedTwice() throws {
    _ = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "one")
      #expect(throws: WatchdogError.alreadyWatched("one")) { try watchdog.watchLoop(named: "one") }
      loop.stop()
      loop.stop()
      let again = try watchdog.watchLoop(named: "one")
      loop.stop()
      // The first one's second stop must not have taken the slot from its successor.
      #expect(throws: WatchdogError.alreadyWatched("one")) { try watchdog.watchLoop(named: "one") }
      again.stop()
    }
  }

  @Test func endingWhatNeverBeganAndBeginningTwiceAreDefined() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "odd")
      loop.ended()
      loop.ended()
      // Each begin starts a new turn, so none is older than 150 ms.
      for _ in 0..<6 {
        loop.began()
        computeAfterwards(for: .milliseconds(150))
      }
      loop.ended()
    }
    #expect(found.isEmpty)
  }

  @Test func tooManySourcesAreRefusedAndComeBack() throws {
    let found = try reports { watchdog in
      var timers: [SectionTimer] = []
      while timers.count < 5000 {
        let timer = watchdog.timer("many", budget: .seconds(100))
        guard timer.isWatched else { break }
        timers.append(timer)
      }
      #expect(timers.count <= 4096 && timers.count > 4000)
      #expect(throws: WatchdogError.tooManySources(limit: 4096)) { try watchdog.watchLoop(named: "one more") }
      timers.removeAll()
      #expect(watchdog.timer("again", budget: .seconds(1)).isWatched)
    }
    #expect(found.isEmpty)
  }

  /// A handler that blocks holds up later reports, not the recording.
  @Test func aBlockingHandlerDoesNotHoldUpTheRecord() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.directory = directory
      let watchdog = try Watchdog(configuration)
      let gate = Finished()
      watchdog.onStall { _ in while !gate.isSet { Thread.sleep(forTimeInterval: 0.01) } }
      for name in ["first", "second"] {
        watchdog.section(name, budget: .milliseconds(100)) { stallByComputing(for: .milliseconds(200)) }
      }
      // Both are recorded in full although the handler still has the first.
      var ended = 0
      for _ in 0..<300 {
        ended = try stallFiles(in: directory).filter { try read($0).recording.stalls.first?.hasEnded == true }.count
        if ended == 2 { break }
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
    watchdog.section("stopping", budget: .milliseconds(100)) { stallByComputing(for: .milliseconds(200)) }
    while !finished.isSet { Thread.sleep(forTimeInterval: 0.01) }
    try Watchdog(quick).stop()
  }

  /// What is stopped marks nothing any more: neither its own work, nor that of whoever was watched since.
  @Test func aStoppedLoopDisturbsNobody() throws {
    let found = try reports { watchdog in
      let old = try watchdog.watchLoop(named: "old")
      old.stop()
      let new = try watchdog.watchLoop(named: "new")
      old.began()
      computeAfterwards(for: .milliseconds(600))
      old.ended()
      new.began()
      for _ in 0..<60 {
        old.began()
        stallByComputing(for: .milliseconds(10))
        old.ended()
      }
      new.ended()
    }
    #expect(found.map(\.stall.source.name) == ["new"])
  }

  /// The turn right after a stalled one has its full age.
  @Test func aStallRightAfterAStallIsReported() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "twice")
      for _ in 0..<3 { loop.turn { stallByComputing(for: .milliseconds(600)) } }
    }
    #expect(found.count == 3)
    // What was lost of its age was booked as a time in which the process could not run.
    for report in found { #expect(report.stall.gap < .milliseconds(100)) }
  }

  /// Work that keeps to its budget is never a stall, however close it comes.
  @Test func workWithinItsBudgetIsNotReported() throws {
    let found = try reports { watchdog in
      for _ in 0..<50 {
        let begin = ContinuousClock.now
        let timer = watchdog.timer("close", budget: .milliseconds(60))
        stallByComputing(for: .milliseconds(52))
        timer.invalidate()
        // On a busy machine it may have taken longer after all.
        if ContinuousClock.now - begin > .milliseconds(60) { over += 1 }
      }
    }
    #expect(found.count <= over)
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
          loop?.began()
          while !stop.isSet { sched_yield() }
          loop?.ended()
          finished.set()
        }.start()
        return finished
      }
      Thread.sleep(forTimeInterval: 0.3)
      watchdog.section("victim", budget: .milliseconds(200)) { stallByComputing(for: .milliseconds(900)) }
      stop.set()
      for finished in deaf { while !finished.isSet { Thread.sleep(forTimeInterval: 0.01) } }
    }
    let victim = found.first { $0.stall.source.name == "victim" }
    #expect(victim?.culprit?.frame.function == "stallByComputing(for:)")
    #expect((victim?.blame.sampleCount ?? 0) > 5)
  }

  /// A blocked stall is read without a signal: its sleep is not cut short.
  @Test func sleepsAreNotCutShort() throws {
    let found = try reports { watchdog in
      watchdog.section("asleep", budget: .milliseconds(200)) { sleepOnce() }
    }
    #expect(slept == 0)
    #expect(found.first?.culprit?.frame.function == "sleepOnce()")
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
      defer { umount(directory) }
      // Room for the beginning of the record, and not for all of it.
      try Data(count: 40 << 10).write(to: URL(fileURLWithPath: "\(directory)/ballast"))
      var configuration = Configuration(stallThreshold: .milliseconds(100), sampleInterval: .milliseconds(10))
      configuration.directory = directory
      let reports = Reports()
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { reports.add($0) }
      watchdog.section("full", budget: .milliseconds(100)) {
        for number in 0..<80 { recurse(number * 3, for: .milliseconds(15)) }
      }
      watchdog.stop()
      #expect(reports.all.count == 1)
      #expect(
        watchdog.status.problems.first?.hasSuffix("No space left on device") == true,
        "\(watchdog.status.problems)"
      )
      let file = try read(try #require(stallFiles(in: directory).first))
      #expect(file.recording.process != nil)
      #expect((file.recording.stalls.first?.samples.count ?? 0) < (reports.all.first?.stall.samples.count ?? 0))
    }
  }

  /// The directory goes away underneath. The report is made all the same, and the status says what failed.
  @Test func whatCannotBeSavedIsStillReported() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.directory = directory
      let reports = Reports()
      let watchdog = try Watchdog(configuration)
      watchdog.onStall { reports.add($0) }
      // The directory goes away underneath.
      try FileManager.default.removeItem(atPath: directory)
      watchdog.section("unsaved", budget: .milliseconds(100)) { stallByComputing(for: .milliseconds(250)) }
      watchdog.stop()
      #expect(reports.all.count == 1)
      #expect(watchdog.status.problems.first?.hasPrefix("cannot create \(directory)/culprit-") == true)
    }
  }
}

private let done = Atomic<Bool>(false)

/// A flag between threads.
final class Finished: Sendable {
  private let flag = Atomic<Bool>(false)
  var isSet: Bool { flag.load(ordering: .acquiring) }
  func set() { flag.store(true, ordering: .releasing) }
}

extension Reports {
  /// Numbers in the order they came.
  final class Counts: Sendable {
    private let list = Mutex<[Int]>([])
    var all: [Int] { list.withLock { $0 } }
    func add(_ number: Int) { list.withLock { $0.append(number) } }
  }
}

@Suite(.usesObserver) struct ConfigurationTests {
  @Test(arguments: [
    (
      Configuration(stallThreshold: .zero),
      "stallThreshold is 0.0 seconds; it must be from 0.01 seconds to 2147483648.0 seconds"
    ),
    (
      Configuration(stallThreshold: .seconds(-4)),
      "stallThreshold is -4.0 seconds; it must be from 0.01 seconds to 2147483648.0 seconds"
    ),
    (
      Configuration(stallThreshold: .seconds(4), sampleInterval: .seconds(5)),
      "sampleInterval is 5.0 seconds; it must be from 0.01 seconds to the stallThreshold of 4.0 seconds"
    ),
    (
      Configuration(sampleInterval: .milliseconds(9)),
      "sampleInterval is 0.009 seconds; it must be from 0.01 seconds to the stallThreshold of 4.0 seconds"
    ), (Configuration(stackBytesMax: 100), "stackBytesMax is 100; it must be from 4096 to 8388608 bytes"),
    (Configuration(reportWidth: 20), "reportWidth is 20; it must be at least 40 characters"),
    (Configuration(directory: ""), "directory is \"\"; it must be a path"),
  ])
  func valuesThatMakeNoSenseAreRefusedInASentence(configuration: Configuration, sentence: String) {
    let error = #expect(throws: WatchdogError.self) { try Watchdog(configuration) }
    #expect(error?.description == sentence)
  }

  @Test func theIntervalFollowsAShortThreshold() {
    #expect(Configuration(stallThreshold: .milliseconds(100)).sampleInterval == .milliseconds(100))
    #expect(Configuration().sampleInterval == .seconds(1))
    #expect(Configuration().stallThreshold == .seconds(4))
  }

  @Test func aDirectoryThatCannotBeUsedIsRefused() throws {
    try withDirectory { directory in
      let file = "\(directory)/file"
      try Data().write(to: URL(fileURLWithPath: file))
      for path in [file, "\(file)/below", "/proc/nothing/here"] {
        let error = #expect(throws: WatchdogError.self) { try Watchdog(Configuration(directory: path)) }
        guard case .unusableDirectory(path, _) = error else {
          Issue.record("\(path): \(String(describing: error))")
          continue
        }
      }
    }
  }
}

@Suite struct ProcessMapTests {
  @Test func mapsAreReadAsTheKernelWritesThem() {
    let text = """
      55d0a0000000-55d0a0001000 r--p 00000000 fe:00 1234                       /opt/my shop/bin (deleted)
      55d0a0001000-55d0a0003000 r-xp 00001000 fe:00 1234                       /opt/my shop/bin (deleted)
      7f0000000000-7f0000001000 rw-p 00000000 00:00 0
      7f0000001000-7f0000002000 rwxp 00000000 00:00 0                          [heap]
      7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
      """
    let modules = ProcessMap.modules(maps: text) { [UInt8(truncatingIfNeeded: $0.value >> 40)] }
    #expect(modules.map(\.path) == ["/opt/my shop/bin (deleted)", "[vdso]"])
    #expect(modules[0].buildID == [0x55])
    #expect(modules[0].mappings.map(\.fileOffset) == [0x1000])
    #expect(modules[0].fileOffset(of: RuntimeAddress(0x55d0_a000_1010)) == 0x1010)
  }

  @Test func thisProcessHasItsModulesWithBuildIDs() {
    let modules = ProcessMap.modules()
    #expect(modules.contains { $0.name == "libc.so.6" && $0.buildID.count == 20 })
    #expect(modules.contains { $0.path == "[vdso]" })
  }
}
