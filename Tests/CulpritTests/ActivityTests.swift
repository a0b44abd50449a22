import CulpritStallRecord
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Culprit

/// What is going on beside the work that is watched, and what the application says of it.
@Suite(.serialized, .usesObserver) struct ActivityTests {
  private var quick: Watchdog.Configuration {
    var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
    configuration.activities.countMax = 5
    configuration.activities.expirationThreshold = .milliseconds(200)
    return configuration
  }

  private final class Leaks: Sendable {
    private let list = Mutex<[Watchdog.LeakedActivity]>([])
    var all: [Watchdog.LeakedActivity] { list.withLock { $0 } }
    func add(_ leak: Watchdog.LeakedActivity) { list.withLock { $0.append(leak) } }
  }

  private func watching(
    _ configuration: Watchdog.Configuration? = nil,
    _ body: (Watchdog, Reports, Leaks) throws -> Void
  ) throws {
    let (reports, leaks) = (Reports(), Leaks())
    let watchdog = try Watchdog(configuration ?? quick)
    watchdog.onStall { reports.add($0) }
    watchdog.onLeakedActivity { leaks.add($0) }
    defer { watchdog.stop() }
    try body(watchdog, reports, leaks)
  }

  private func wait(until condition: () -> Bool) {
    for _ in 0..<2000 where !condition() { usleep(10_000) }
  }

  /// Waits until it is known where tasks have what is read of them.
  private func tasksAreKnown() async throws {
    TaskProbe.shared.start()
    for _ in 0..<2000 where !TaskProbe.shared.hasFound { try await Task.sleep(for: .milliseconds(10)) }
    try #require(TaskProbe.shared.hasFound)
  }

  @Test func whatIsGoingOnIsInEveryReport() throws {
    try watching { watchdog, reports, leaks in
      let upload = try watchdog.beginActivity("upload")
      try watchdog.beginActivity("ended").end()
      watchdog.addContext("orders") { "17 waiting" }
      watchdog.withSection("slow", threshold: .milliseconds(200)) { stallByComputing(for: .milliseconds(400)) }
      wait { !reports.all.isEmpty }
      let report = try #require(reports.all.first)
      let activities = report.raw.stall.notes.filter { $0.kind == .activity }
      #expect(activities.map(\.title) == ["upload"])
      #expect(
        report.raw.stall.notes.filter { $0.kind == .context } == [
          StallNote(.context, title: "orders", text: "17 waiting")
        ]
      )
      #expect(report.description.contains("GOING ON  \"upload\" for "))
      #expect(report.description.contains("CONTEXT   orders: 17 waiting"))
      upload.end()
      upload.end()
      #expect(upload.timeRemaining == .zero)
      #expect(leaks.all.isEmpty)
    }
  }

  @inline(never) private func beginAndForget(_ watchdog: Watchdog) throws {
    _ = try watchdog.beginActivity("forgotten")
  }

  @Test func aDroppedActivityIsToldWithTheStackThatBeganIt() throws {
    try watching { watchdog, _, leaks in
      try beginAndForget(watchdog)
      wait { !leaks.all.isEmpty }
      let leak = try #require(leaks.all.first)
      #expect(leak.name == "forgotten")
      #expect(leak.reason == .dropped)
      #expect(leak.stack().first?.contains("beginAndForget") == true, "\(leak)")
      #expect(leak.description.contains("nobody refers to it any more"))
    }
  }

  @Test func whatTakesTooLongExpiresOnce() throws {
    try watching { watchdog, _, leaks in
      let calls = Mutex(0)
      let kept = try watchdog.beginActivity("late", threshold: .milliseconds(50)) { calls.withLock { $0 += 1 } }
      #expect(kept.timeRemaining.map { $0 > .zero && $0 <= .milliseconds(50) } == true)
      let inTime = try watchdog.beginActivity("in time", threshold: .seconds(60)) { Issue.record("expired") }
      inTime.end()
      wait { !leaks.all.isEmpty }
      #expect(calls.withLock { $0 } == 1)
      #expect(leaks.all.map(\.name) == ["late"])
      #expect(leaks.all.first?.reason == .expired)
      #expect(kept.timeRemaining == .zero)
      kept.end()
      // One whose handler ends it is no leak.
      let holder = Mutex<WatchedActivity?>(nil)
      let done = Finished()
      let ended = try watchdog.beginActivity("ended in time", threshold: .milliseconds(30)) {
        while holder.withLock({ $0 == nil }) { usleep(1000) }
        holder.withLock { $0 }?.end()
        done.set()
      }
      holder.withLock { $0 = ended }
      wait { done.isSet }
      usleep(50_000)
      #expect(leaks.all.count == 1)
    }
  }

  /// Expiration handlers have a budget for all of them together; what overruns it is reported like any stall.
  @Test func anExpirationHandlerThatTakesTooLongIsReported() throws {
    try watching { watchdog, reports, _ in
      let activity = try watchdog.beginActivity("job", threshold: .milliseconds(20)) {
        stallByComputing(for: .milliseconds(600))
      }
      wait { !reports.all.isEmpty }
      let report = try #require(reports.all.first)
      #expect(report.source == StallReport.Source(kind: .section, name: "expiration handlers of \"job\""))
      #expect(report.culprit?.function.name == "stallByComputing(for:)", "\(report)")
      activity.end()
    }
  }

  @Test func thereIsALimit() throws {
    try watching { watchdog, _, _ in
      let many = try (0..<5).map { try watchdog.beginActivity("number \($0)") }
      #expect(throws: WatchdogError.tooManyActivities(limit: 5)) { try watchdog.beginActivity("one more") }
      many[0].end()
      try watchdog.beginActivity("one more").end()
      #expect(watchdog.withActivity("scoped") { 7 } == 7)
      for activity in many { activity.end() }
      #expect(throws: WatchdogError.self) { try watchdog.beginActivity("no time", threshold: .zero) }
    }
  }

  /// However much the application says: a report is not made of it.
  @Test func onlyTheBeginningOfALongContextIsKept() {
    #expect(ContextQueries.kept("17 waiting") == "17 waiting")
    let full = String(repeating: "x", count: ContextQueries.textBytesMax)
    #expect(ContextQueries.kept(full) == full)
    let long = ContextQueries.kept("y" + String(repeating: "ü", count: 500_000))
    #expect(long.hasPrefix("yü") && long.hasSuffix("ü… (4095 of 1000001 bytes)"))
    // A character that is longer than all that is kept.
    let one = "e" + String(repeating: "\u{301}", count: 100_000)
    #expect(ContextQueries.kept(one) == "… (0 of 200001 bytes)")
  }

  /// Context that does not come in time is said not to, and is not asked for again while it is stuck.
  @Test func contextThatBlocksHoldsUpNobody() throws {
    try watching { watchdog, reports, _ in
      let gate = DispatchSemaphore(value: 0)
      let calls = Mutex(0)
      watchdog.addContext("stuck") {
        calls.withLock { $0 += 1 }
        gate.wait()
        return "late"
      }
      watchdog.addContext("fine") { "here" }
      for number in 1...2 {
        watchdog.withSection("slow", threshold: .milliseconds(200)) { stallByComputing(for: .milliseconds(400)) }
        wait { reports.all.count == number }
        let notes = try #require(reports.all.last).raw.stall.notes.filter { $0.kind == .context }
        #expect(
          notes == [
            StallNote(.context, title: "stuck", text: "(did not answer within 200 ms)"),
            StallNote(.context, title: "fine", text: "here"),
          ]
        )
      }
      #expect(calls.withLock { $0 } == 1)
      gate.signal()
    }
  }

  @Test func samplesCarryLabels() throws {
    try watching { watchdog, reports, _ in
      let loop = try watchdog.watchLoop(named: "requests")
      loop.withTurn(label: "request 17") {
        stallByComputing(for: .seconds(1))
        loop.label("request 17, second half " + String(repeating: "ä", count: 40))
        stallByComputing(for: .seconds(1))
      }
      loop.withTurn { stallByComputing(for: .seconds(1)) }
      wait { reports.all.count == 2 }
      let report = try #require(reports.all.first)
      let labels = report.raw.blame.labels.map(\.label)
      #expect(labels.count == 2)
      #expect(labels.contains("request 17"))
      // Cut at a character.
      #expect(
        labels.contains {
          $0.hasPrefix("request 17, second half ää") && $0.utf8.count <= 56 && !$0.contains("\u{fffd}")
        }
      )
      #expect(report.description.contains("LABELS    request 17"))
      #expect(reports.all.last?.raw.blame.labels.isEmpty == true)
    }
  }

  @Test func whatIsExpectedToBeSlowIsNoStall() throws {
    try watching { watchdog, reports, _ in
      let loop = try watchdog.watchLoop(named: "loop")
      loop.withTurn {
        loop.withExemption {
          loop.withExemption { _ = usleep(100_000) }
          usleep(500_000)
        }
      }
      watchdog.pause()
      loop.withTurn { _ = usleep(500_000) }
      watchdog.resume()
      let timer = watchdog.beginSection("timer", threshold: .milliseconds(200))
      timer.withExemption { _ = usleep(500_000) }
      #expect(timer.end())
      usleep(300_000)
      #expect(reports.all.isEmpty)
      // Only that part of the time is exempt.
      let began = ContinuousClock.now
      loop.withTurn {
        loop.withExemption { _ = usleep(300_000) }
        stallByComputing(for: .milliseconds(400))
      }
      let took = ContinuousClock.now - began
      wait { !reports.all.isEmpty }
      let stall = try #require(reports.all.first)
      #expect(stall.duration < took - .milliseconds(250))
    }
  }

  /// An exemption begins and ends between two looks, and counts to the nanosecond.
  @Test func noExemptTimeIsCharged() throws {
    try watching { watchdog, reports, _ in
      let lives = Mutex<[(isInTime: Bool, own: Duration)]>([])
      for number in 0..<20 {
        Thread.detachNewThread {
          usleep(UInt32(number) * 11_000)
          let began = ContinuousClock.now
          let section = watchdog.beginSection("section", threshold: .seconds(1))
          let exempt = section.withExemption { ContinuousClock().measure { _ = usleep(1_500_000) } }
          usleep(930_000)
          let isInTime = section.end()
          let own = ContinuousClock.now - began - exempt
          lives.withLock { $0.append((isInTime, own)) }
        }
      }
      wait { lives.withLock { $0.count } == 20 }
      let all = lives.withLock { $0 }
      // One that had no processor in between may have taken too long.
      let short = all.filter { $0.own < .seconds(1) }
      #expect(!short.isEmpty && short.allSatisfy(\.isInTime), "\(all)")
      #expect(reports.all.count <= all.count { !$0.isInTime })
    }
  }

  /// The same for a pause.
  @Test func noTimeOfAPauseIsCharged() throws {
    try watching { watchdog, reports, _ in
      let isOver = Finished()
      let resumed = Mutex(ContinuousClock.now)
      let lives = Mutex<[(isInTime: Bool, own: Duration)]>([])
      watchdog.pause()
      for number in 0..<20 {
        Thread.detachNewThread {
          usleep(UInt32(number) * 11_000)
          let section = watchdog.beginSection("section", threshold: .seconds(1))
          while !isOver.isSet { usleep(500) }
          usleep(930_000)
          let isInTime = section.end()
          lives.withLock { $0.append((isInTime, ContinuousClock.now - resumed.withLock { $0 })) }
        }
      }
      usleep(1_600_000)
      resumed.withLock { $0 = .now }
      watchdog.resume()
      isOver.set()
      wait { lives.withLock { $0.count } == 20 }
      let all = lives.withLock { $0 }
      let short = all.filter { $0.own < .seconds(1) }
      #expect(!short.isEmpty && short.allSatisfy(\.isInTime), "\(all)")
    }
  }

  /// What comes after it is judged as ever, and is charged with no more than itself.
  @Test func aStallAfterAnExemptionIsDeclaredInTime() throws {
    try watching { watchdog, reports, _ in
      let toldAt = Mutex<ContinuousClock.Instant?>(nil)
      let section = watchdog.beginSection("late", threshold: .milliseconds(400)) { _ in
        toldAt.withLock { $0 = .now }
      }
      section.withExemption { _ = usleep(1_500_000) }
      let began = ContinuousClock.now
      stallByComputing(for: .milliseconds(900))
      #expect(!section.end())
      let took = ContinuousClock.now - began
      let told = try #require(toldAt.withLock { $0 })
      #expect(told - began >= .milliseconds(395) && told - began < .milliseconds(1400), "\(told - began)")
      wait { !reports.all.isEmpty }
      let stall = try #require(reports.all.first)
      let isExact = stall.duration <= took + .milliseconds(5) && stall.duration > took - .milliseconds(50)
      #expect(isExact, "\(took) \(stall)")
    }
  }

  @Test func aStallBeginsBecomesAHangAndEnds() throws {
    var configuration = quick
    configuration.sampling.hangThreshold = .milliseconds(500)
    try watching(configuration) { watchdog, reports, _ in
      let events = Mutex<[String]>([])
      watchdog.onStallBegan { event in
        events.withLock { $0.append("began \(event.source.name) \(event.isHang) \(event.age >= event.threshold)") }
      }
      // One that blocks holds up nobody.
      let gate = DispatchSemaphore(value: 0)
      watchdog.onStallBegan { _ in gate.wait() }
      watchdog.onHang { event in
        let culprit = event.report()?.culprit?.function.name ?? ""
        events.withLock { $0.append("hang \(event.source.name) \(event.isHang) \(culprit)") }
      }
      watchdog.withSection("short", threshold: .milliseconds(200)) { stallByComputing(for: .milliseconds(300)) }
      watchdog.withSection("long", threshold: .milliseconds(200)) { stallByComputing(for: .milliseconds(1500)) }
      wait { reports.all.count == 2 && events.withLock { $0.count } == 3 }
      gate.signal()
      gate.signal()
      #expect(
        events.withLock { $0.sorted() } == [
          "began long false true", "began short false true", "hang long true stallByComputing(for:)",
        ]
      )
      #expect(reports.all.map { report in report.raw.stall.notes.contains { $0.kind == .hang } } == [false, true])
      #expect(reports.all.last?.description.contains("a hang from ") == true)
    }
  }

  @Test func aTimerFiresOrIsInvalidated() throws {
    try watching { watchdog, reports, _ in
      let fired = Reports.Counts()
      let late = watchdog.beginSection("late", threshold: .milliseconds(200)) { _ in fired.add(1) }
      stallByComputing(for: .milliseconds(500))
      wait { !fired.all.isEmpty }
      #expect(!late.end())
      #expect(!late.end())
      let inTime = watchdog.beginSection("in time", threshold: .seconds(20)) { _ in fired.add(2) }
      #expect(inTime.end())
      #expect(!inTime.end())
      wait { !reports.all.isEmpty }
      #expect(fired.all == [1])
      // Also where nobody is to be told.
      let untold = watchdog.beginSection("untold", threshold: .milliseconds(200))
      stallByComputing(for: .milliseconds(500))
      wait { reports.all.count > 1 }
      #expect(!untold.end())
    }
  }

  /// An activity that never ends tells where the task waits that began it, or that there is no such task any more.
  @Test func anActivityTellsWhereItsTaskIs() async throws {
    try await tasksAreKnown()
    let leaks = Leaks()
    let watchdog = try Watchdog(quick)
    watchdog.onLeakedActivity { leaks.add($0) }
    let waiting = Task.detached {
      let upload = try? watchdog.beginActivity("upload", threshold: .milliseconds(100))
      await waitForAnAnswer()
      withExtendedLifetime(upload) {}
    }
    for _ in 0..<2000 where leaks.all.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
    let leak = try #require(leaks.all.first)
    #expect(leak.taskState == "its task is suspended", "\(leak)")
    #expect(leak.taskStack().contains("waitForAnAnswer()"), "\(leak)")
    #expect(leak.description.contains("Its task is suspended, in:\n"))
    await waiting.value
    let kept = await Task.detached { try? watchdog.beginActivity("import", threshold: .milliseconds(100)) }.value
    for _ in 0..<2000 where leaks.all.count < 2 { try await Task.sleep(for: .milliseconds(10)) }
    #expect(leaks.all.last?.taskState == "its task has ended without it", "\(leaks.all)")
    #expect(leaks.all.last?.description.hasSuffix("Its task has ended without it.\n") == true)
    withExtendedLifetime(kept) {}
    await watchdog.stop()
  }

  /// A section that is left open by a task that has ended.
  @Test func aSectionWithoutItsTaskSaysSo() async throws {
    try await tasksAreKnown()
    let reports = Reports()
    let watchdog = try Watchdog(quick)
    watchdog.onStall { reports.add($0) }
    let section = await Task.detached { watchdog.beginSection("left open", threshold: .milliseconds(200)) }.value
    try await Task.sleep(for: .milliseconds(500))
    section.end()
    await watchdog.stop()
    let report = try #require(reports.all.first)
    #expect(report.verdict == .noStacks && report.description.contains("its task had ended without it"), "\(report)")
    #expect(report.evidence.noStack.contains { $0.reason.code == "taskEnded" }, "\(report)")
  }

  /// What has given up its turn, and has not had another one since: who has the threads is to blame. In a process whose pool nobody
  /// else uses.
  @Test func aSectionThatYieldsWaitsForAThread() throws {
    let child = try ChildProcess(ChildProcess.built("policy-process"), ["yield"])
    #expect(child.hasExited && child.status == 0, "\(child)")
    #expect(child.output == "culprit=computeInTheWay(_:)\nready=true\nsuspended=false\n", "\(child)")
  }

  /// No thread works on it, and what it waits in is to blame all the same.
  @Test func aSectionThatWaitsIsFollowed() async throws {
    // Where tasks are kept is found out with the first one.
    try await tasksAreKnown()
    let reports = Reports()
    let watchdog = try Watchdog(quick)
    watchdog.onStall { reports.add($0) }
    let result = await watchdog.withSection("remote call", threshold: .milliseconds(200)) {
      await waitForAnAnswer()
      return 7
    }
    #expect(result == 7)
    await watchdog.stop()
    let report = try #require(reports.all.first)
    #expect(report.source.name == "remote call")
    #expect(report.culprit?.function.name == "waitForAnAnswer()", "\(report)")
    #expect((report.taskTimes?.suspended ?? .zero) > .milliseconds(300) && report.thread.id == 0, "\(report)")
    #expect(report.otherThreads?.groups.isEmpty == false)
  }
}

@inline(never)
private func waitForAnAnswer() async { try? await Task.sleep(for: .milliseconds(600)) }
