import CulpritStallRecord
import Foundation
import Synchronization
import TestSupport
import TestWorkloads
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct WatchdogTests {
  @TemporaryDirectory var directory: String

  let quick = Watchdog.Configuration(threshold: .milliseconds(400), interval: .milliseconds(50))
  var saving: Watchdog.Configuration {
    Watchdog.Configuration(threshold: .milliseconds(400), interval: .milliseconds(50), directory: directory)
  }

  func reports(_ configuration: Watchdog.Configuration? = nil, _ body: (Watchdog) throws -> Void) throws
    -> [StallReport]
  {
    let reports = Reports()
    let watchdog = try Watchdog(configuration ?? quick)
    watchdog.onStall { reports.add($0) }
    do { try body(watchdog) } catch {
      watchdog.stop()
      throw error
    }
    watchdog.stopPatiently()
    return reports.all
  }

  @Test func blamesFunctionWithMostTime() throws {
    var took = Duration.zero
    let found = try reports(saving) { watchdog in
      let loop = try watchdog.watchLoop(named: "accept")
      took = clock.measure {
        loop.begin()
        stallByComputing(for: .milliseconds(3500))
        computeAfterwards(for: .milliseconds(1500))
        loop.end()
      }
    }
    #expect(found.count == 1)
    let report = try #require(found.first)
    #expect(report.culprit?.function.name == "stallByComputing(for:)")
    #expect(report.lastStackBlames?.name == "computeAfterwards(for:)")
    #expect(report.source == StallReport.Source(kind: .loop, name: "accept"))
    #expect(report.hasEnded)
    #expect(report.duration >= report.threshold)
    // A busy virtual machine can update the coarse clock late.
    #expect(report.duration <= took + .milliseconds(20))
    #expect(report.cpuUse != nil)
    #expect(report.culprit?.function.location?.file.hasSuffix("WatchdogSupport.swift") == true)
    let file = try read(try #require(stallFiles(in: directory).first))
    #expect(file.problems.isEmpty)
    #expect(file.recording.stalls.first?.notes.contains { $0.kind == .reported } == true)
    // Removes the stack numbers, which can differ between file and memory, and the file's delivery note.
    func unnumbered(_ stall: Stall?) -> Stall? {
      var stall = stall
      stall?.notes.removeAll { $0.kind == .reported }
      stall?.samples = []
      for index in stall?.others?.threads.indices ?? 0..<0 { stall?.others?.threads[index].stack = nil }
      return stall
    }
    #expect(file.recording.stalls.map(unnumbered) == [unnumbered(report.raw.stall)])
    func others(_ recording: Recording) -> [Stack?] {
      recording.stalls[0].others?.threads.map { $0.stack.map { recording.stacks[$0] } } ?? []
    }
    #expect(others(file.recording) == others(report.raw.recording))
    #expect(file.recording.stalls.first?.samples.map(\.age) == report.raw.stall.samples.map(\.age))
    #expect(file.recording.modules == report.raw.recording.modules)
    let savedStacks = file.recording.stalls[0].samples.map { $0.stack.map { file.recording.stacks[$0] } }
    #expect(savedStacks == report.raw.stall.samples.map { $0.stack.map { report.raw.recording.stacks[$0] } })
  }

  @Test(arguments: [(1500, false), (8000, false), (8000, true)])
  func keepsBothEndsOfDeepStacks(depth: Int, isBlocked: Bool) throws {
    let found = try reports(saving) { watchdog in
      let loop = try watchdog.watchLoop(named: "deep")
      loop.withTurn {
        recurse(depth) {
          isBlocked ? stallByWaiting(for: .milliseconds(700)) : stallByComputing(for: .milliseconds(600))
        }
      }
    }
    let file = try read(try #require(stallFiles(in: directory).first))
    for recording in [try #require(found.first).raw.recording, file.recording] {
      let stacks = recording.stalls[0].samples.compactMap { $0.stack.map { recording.stacks[$0] } }
      #expect(stacks.count > 3, "\(recording.stalls[0].samples.map(\.outcome))")
      // Only one stack is copied whole at a time, so a late copy can truncate the next.
      let whole = stacks.filter { $0.end != .copyLimit }
      #expect(whole.count > stacks.count / 2)
      for stack in whole {
        let omission = try #require(stack.omission)
        #expect(omission.index == 256 && omission.count > depth - 600 && stack.frames.count == 512)
        #expect(stack.end == .outermost)
        for frame in stack.frames {
          let start = try #require(frame.functionStart)
          #expect(start <= frame.address && frame.address.value - start.value < 1 << 20)
        }
      }
    }
  }

  @Test(.enabled(if: frames_can_be_made(), "needs frames generated for this processor"))
  func joinsTruncatedStacks() throws {
    let stop = UnsafeMutablePointer<Int32>.allocate(capacity: 1)
    stop.initialize(to: 0)
    defer { stop.deallocate() }
    nonisolated(unsafe) let flag = stop
    let found = try reports(quick) { watchdog in
      let loop = try watchdog.watchLoop(named: "lost")
      let ender = Thread {
        clock.block(for: .seconds(4))
        // SAFETY: the flag outlives the turn below, which ends here.
        flag.pointee = 1
      }
      ender.start()
      loop.withTurn { frames_no_cfi_lost(stop) }
    }
    let recording = try #require(found.first).raw.recording
    let stacks = recording.stalls[0].samples.compactMap { $0.stack.map { recording.stacks[$0] } }
    let complete = try #require(stacks.firstIndex { $0.end == .outermost && $0.joinedFrom == nil })
    #expect(stacks[complete...].allSatisfy { $0.end == .outermost })
    #expect(stacks.contains { $0.joinedFrom == 1 })
  }

  @Test func resumesSamplingAfterSignalIsUnblocked() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "masked")
      loop.withTurn {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPROF)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        computeAfterwards(for: .milliseconds(200))
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        stallByComputing(for: .milliseconds(1500))
      }
    }
    let report = try #require(found.first)
    let outcomes = report.raw.stall.samples.map(\.outcome)
    let blocked = try #require(outcomes.firstIndex(of: .noAnswer), "\(report)")
    #expect(outcomes[blocked...].contains(.captured), "\(report)")
  }

  @Test func ignoresShortTurns() throws {
    let found = try reports(Watchdog.Configuration(threshold: .seconds(2))) { watchdog in
      let loop = try watchdog.watchLoop(named: "busy")
      for _ in 0..<200 { loop.withTurn { computeAfterwards(for: .milliseconds(20)) } }
    }
    #expect(found.isEmpty)
  }

  @Test func ignoresTurnsWithinThreshold() throws {
    let found = try reports(Watchdog.Configuration(threshold: .seconds(10))) { watchdog in
      let loop = try watchdog.watchLoop(named: "slow")
      loop.withTurn { while watchdog.status.captures < 2 { computeAfterwards(for: .milliseconds(20)) } }
    }
    #expect(found.isEmpty)
  }

  @Test func sectionsHaveTheirOwnThreshold() throws {
    let found = try reports { watchdog in
      let result = watchdog.withSection("rebuild", threshold: .milliseconds(200)) {
        stallByWaiting(for: .seconds(1))
        return 42
      }
      #expect(result == 42)
      watchdog.withSection("quick", threshold: .milliseconds(200)) { stallByWaiting(for: .milliseconds(20)) }
    }
    #expect(found.map(\.source) == [StallReport.Source(kind: .section, name: "rebuild")])
    #expect(found.first?.threshold == .milliseconds(200))
    #expect(found.first?.culprit?.function.name == "stallByWaiting(for:)")
  }

  @Test func rethrowsErrorsOfSectionBody() throws {
    struct Failure: Error, Equatable {}
    let found = try reports { watchdog in
      #expect(throws: Failure.self) {
        try watchdog.withSection("failing", threshold: .seconds(1)) { () throws(Failure) in throw Failure() }
      }
    }
    #expect(found.isEmpty)
  }

  @Test func reportsSectionOnceWhenEndedTwice() throws {
    let found = try reports { watchdog in
      let timer = watchdog.beginSection("import", threshold: .milliseconds(100))
      #expect(timer.isWatched)
      stallByWaiting(for: .milliseconds(400))
      timer.end()
      timer.end()
      stallByWaiting(for: .milliseconds(200))
    }
    #expect(found.count == 1)
    #expect(found.first?.source.name == "import")
  }

  @Test func sectionOutlivesItsThread() throws {
    let found = try reports { watchdog in
      let section = Mutex<WatchedSection?>(nil)
      clock.detachThread {
        section.withLock { $0 = watchdog.beginSection("handed on", threshold: .milliseconds(200)) }
      }
      clock.block(for: .seconds(1))
      #expect(section.withLock { $0 }?.end() == false)
    }
    #expect(found.map(\.source.name) == ["handed on"])
    #expect(found.first?.duration == .seconds(1))
  }

  @Test func sectionHasNoCulpritAfterItsCallbackReturned() throws {
    @Sendable @inline(never) func begin(_ name: String, _ watchdog: Watchdog, calls: Int) -> WatchedSection {
      guard calls > 0 else { return watchdog.beginSection(name, threshold: .milliseconds(200)) }
      return begin(name, watchdog, calls: calls - 1)
    }
    let found = try reports { watchdog in
      let isDone = Atomic(false)
      // A section of a task follows the task instead.
      clock.detachThread {
        for (name, calls) in [("callback", 60), ("wrapper", 2)] {
          let section = begin(name, watchdog, calls: calls)
          stallByWaiting(for: .seconds(1))
          section.end()
        }
        isDone.store(true, ordering: .relaxed)
      }
      clock.wait { isDone.load(ordering: .relaxed) }
    }
    #expect(found.map(\.source.name) == ["callback", "wrapper"])
    #expect(found.first?.culprit == nil)
    #expect(found.first?.evidence.noStack.map(\.reason.code) == ["sectionLeft"])
    #expect(found.last?.culprit?.function.name.contains("stallByWaiting") == true)
  }

  @Test func probeOutlivesThreadOfPreviousProbe() throws {
    let found = try reports { watchdog in
      let isStuck = Atomic<Bool>(false)
      let probe = try watchdog.watchLoop(named: "threads", threshold: .milliseconds(400)) { answer in
        let waits = isStuck.exchange(true, ordering: .relaxed) ? 3.0 : 0
        clock.detachThread {
          clock.block(for: .seconds(waits))
          answer()
          // The next probe is attributed to this thread until the thread ends.
          clock.block(for: .seconds(1))
        }
      }
      clock.block(for: .seconds(3.8))
      probe.stop()
    }
    let first = try #require(found.first)
    #expect(first.source.name == "threads" && first.duration >= .seconds(2), "\(first.duration)")
  }

  @Test func clampsExtremeThresholds() throws {
    let found = try reports { watchdog in
      for budget in [Duration.seconds(Int64.max), .seconds(-5), .zero, .nanoseconds(1)] {
        watchdog.withSection("absurd", threshold: budget) {}
      }
      let endless = Duration.seconds(Int64.max)
      #expect(throws: WatchdogError.self) { try watchdog.watchLoop(named: "absurd", threshold: endless) }
    }
    #expect(found.isEmpty)
  }

  @Test func noticesShortThresholdDuringLongSleep() throws {
    let found = try reports(Watchdog.Configuration(threshold: .seconds(4))) { watchdog in
      clock.block(for: .seconds(0.5))
      watchdog.withSection("short", threshold: .milliseconds(150)) { stallByWaiting(for: .milliseconds(600)) }
    }
    #expect(found.map(\.source.name) == ["short"])
    #expect((found.first?.samples.first?.age).map { $0 < .milliseconds(150) } == true)
  }

  @Test func reportsEachNestedSection() throws {
    let found = try reports { watchdog in
      watchdog.withSection("outer", threshold: .milliseconds(300)) {
        watchdog.withSection("inner", threshold: .milliseconds(100)) { stallByWaiting(for: .milliseconds(1500)) }
      }
    }
    #expect(Set(found.map(\.source.name)) == ["outer", "inner"])
    #expect(found.allSatisfy { $0.culprit?.function.name == "stallByWaiting(for:)" })
  }

  @Test func watchesSeveralLoopsAtOnce() throws {
    let found = try reports { watchdog in
      let threads = (0..<4).map { number in
        let finished = Finished()
        let thread = Thread {
          if let loop = try? watchdog.watchLoop(named: "loop \(number)") {
            loop.withTurn { stallByComputing(for: .milliseconds(600 + 50 * number)) }
          }
          finished.set()
        }
        thread.start()
        return finished
      }
      clock.wait { threads.allSatisfy(\.isSet) }
    }
    #expect(Set(found.map(\.source.name)) == Set((0..<4).map { "loop \($0)" }))
    #expect(found.allSatisfy { $0.culprit?.function.name == "stallByComputing(for:)" })
  }

  @Test func ignoresTurnOfEndedThread() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "forgetful")
      clock.detachThread { loop.begin() }
      clock.block(for: .seconds(0.8))
    }
    #expect(found.isEmpty)
  }

  @Test func rejectsSecondWatchOfLoop() throws {
    _ = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "one")
      #expect(throws: WatchdogError.alreadyWatched("one")) { try watchdog.watchLoop(named: "one") }
      loop.stop()
      loop.stop()
      let again = try watchdog.watchLoop(named: "one")
      loop.stop()
      #expect(throws: WatchdogError.alreadyWatched("one")) { try watchdog.watchLoop(named: "one") }
      again.stop()
    }
  }

  @Test func toleratesUnbalancedBeginAndEnd() throws {
    let found = try reports(Watchdog.Configuration(threshold: .seconds(2))) { watchdog in
      let loop = try watchdog.watchLoop(named: "odd")
      loop.end()
      loop.end()
      // Each begin starts a new turn, so no turn exceeds the threshold.
      for _ in 0..<30 {
        loop.begin()
        computeAfterwards(for: .milliseconds(150))
      }
      loop.end()
    }
    #expect(found.isEmpty)
  }

  @Test func reportsConsecutiveStalls() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "twice")
      for _ in 0..<3 { loop.withTurn { stallByWaiting(for: .milliseconds(600)) } }
    }
    #expect(found.count == 3)
    for report in found { #expect(report.raw.stall.gap < .milliseconds(100)) }
  }

  @Test func ignoresWorkThatEndsInTime() throws {
    let found = try reports { watchdog in
      for _ in 0..<50 {
        let section = watchdog.beginSection("close", threshold: .milliseconds(60))
        clock.block(for: .milliseconds(59))
        section.end()
      }
    }
    #expect(found.isEmpty)
  }
}
