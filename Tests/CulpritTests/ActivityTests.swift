import CulpritStallRecord
import Foundation
import SimulatedClock
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct ActivityTests {
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

  @Test func reportsOpenActivitiesAndContext() throws {
    try watching { watchdog, reports, leaks in
      let upload = try watchdog.beginActivity("upload")
      try watchdog.beginActivity("ended").end()
      watchdog.addContext("orders") { "17 waiting" }
      watchdog.withSection("slow", threshold: .milliseconds(200)) { stallByWaiting(for: .milliseconds(400)) }
      clock.wait { !reports.all.isEmpty }
      let report = try #require(reports.all.first)
      let activities = report.raw.stall.notes.filter { $0.kind == .activity }
      #expect(activities.map(\.title) == ["upload"])
      #expect(
        report.raw.stall.notes.filter { $0.kind == .context } == [
          StallNote(.context, title: "orders", text: "17 waiting")
        ]
      )
      #expect(report.description.contains("ACTIVITY  \"upload\" for "))
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

  @Test func reportsDroppedActivityWithItsStack() throws {
    try watching { watchdog, _, leaks in
      try beginAndForget(watchdog)
      clock.wait { !leaks.all.isEmpty }
      let leak = try #require(leaks.all.first)
      #expect(leak.name == "forgotten")
      #expect(leak.reason == .dropped)
      #expect(leak.stack().first?.contains("beginAndForget") == true, "\(leak)")
      #expect(leak.description.contains("its last reference was released"))
    }
  }

  /// A simulated stop of the process must not expire the activity.
  @Test func excludesStoppedTime() throws {
    try watching { watchdog, _, _ in
      let calls = Mutex(0)
      let kept = try watchdog.beginActivity("stopped", threshold: .seconds(2)) { calls.withLock { $0 += 1 } }
      clock.skip(.seconds(60))
      clock.settle()
      #expect(calls.withLock { $0 } == 0)
      #expect((kept.timeRemaining ?? .zero) > .seconds(1))
      clock.wait { calls.withLock { $0 } == 1 }
      kept.end()
    }
  }

  @Test func expiresLateActivityOnce() throws {
    try watching { watchdog, _, leaks in
      let calls = Mutex(0)
      let kept = try watchdog.beginActivity("late", threshold: .milliseconds(50)) { calls.withLock { $0 += 1 } }
      #expect(kept.timeRemaining == .milliseconds(50))
      let inTime = try watchdog.beginActivity("in time", threshold: .seconds(60)) { Issue.record("ended, but expired") }
      inTime.end()
      clock.wait { !leaks.all.isEmpty }
      #expect(calls.withLock { $0 } == 1)
      #expect(leaks.all.map(\.name) == ["late"])
      #expect(leaks.all.first?.reason == .expired)
      #expect(kept.timeRemaining == .zero)
      kept.end()
      let holder = Mutex<WatchedActivity?>(nil)
      let done = Finished()
      let ended = try watchdog.beginActivity("ended in time", threshold: .milliseconds(30)) {
        holder.withLock { $0 }?.end()
        done.set()
      }
      holder.withLock { $0 = ended }
      clock.block(for: .milliseconds(80))
      #expect(done.isSet)
      #expect(leaks.all.count == 1)
    }
  }

  /// Expiration handlers that exceed their threshold must be reported as a stall.
  @Test func reportsSlowExpirationHandlers() throws {
    try watching { watchdog, reports, _ in
      let activity = try watchdog.beginActivity("job", threshold: .milliseconds(20)) {
        stallByWaiting(for: .milliseconds(600))
      }
      clock.wait { !reports.all.isEmpty }
      let report = try #require(reports.all.first)
      #expect(report.source == StallReport.Source(kind: .section, name: "expiration handlers of \"job\""))
      #expect(report.culprit?.function.name == "stallByWaiting(for:)", "\(report)")
      activity.end()
    }
  }

  @Test func limitsOpenActivities() throws {
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

  @Test func truncatesLongContext() {
    #expect(ContextQueries.kept("17 waiting") == "17 waiting")
    let full = String(repeating: "x", count: ContextQueries.textBytesMax)
    #expect(ContextQueries.kept(full) == full)
    let long = ContextQueries.kept("y" + String(repeating: "ü", count: 500_000))
    #expect(long.hasPrefix("yü") && long.hasSuffix("ü… (4095 of 1000001 bytes)"))
    let one = "e" + String(repeating: "\u{301}", count: 100_000)
    #expect(ContextQueries.kept(one) == "… (0 of 200001 bytes)")
  }

  @Test func blockedContextDoesNotDelayReports() throws {
    try watching { watchdog, reports, _ in
      let gate = DispatchSemaphore(value: 0)
      let calls = Mutex(0)
      watchdog.addContext("stuck") {
        calls.withLock { $0 += 1 }
        clock.whileIdle { gate.wait() }
        return "late"
      }
      watchdog.addContext("fine") { "here" }
      for number in 1...2 {
        watchdog.withSection("slow", threshold: .milliseconds(200)) { stallByWaiting(for: .milliseconds(400)) }
        clock.wait { reports.all.count == number }
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
        stallByWaiting(for: .milliseconds(400))
        loop.label(String(repeating: "ä", count: 40) + ", second half")
        stallByWaiting(for: .milliseconds(400))
      }
      loop.withTurn { stallByWaiting(for: .milliseconds(400)) }
      clock.wait { reports.all.count == 2 }
      let report = try #require(reports.all.first)
      let labels = report.labels.map(\.text)
      #expect(labels.count == 2)
      #expect(labels.contains("request 17"))
      #expect(
        labels.contains {
          $0.hasSuffix("ää, second half") && $0.utf8.count <= 56 && !$0.contains("\u{fffd}")
        }
      )
      #expect(report.description.contains("LABELS    ") && report.description.contains("request 17 "))
      #expect(reports.all.last?.labels.isEmpty == true)
    }
  }

  @Test func ignoresExemptTime() throws {
    try watching { watchdog, reports, _ in
      let loop = try watchdog.watchLoop(named: "loop")
      loop.withTurn {
        loop.withExemption {
          loop.withExemption { clock.block(for: .milliseconds(100)) }
          clock.block(for: .milliseconds(500))
        }
      }
      watchdog.pause()
      loop.withTurn { clock.block(for: .milliseconds(500)) }
      watchdog.resume()
      let timer = watchdog.beginSection("timer", threshold: .milliseconds(200))
      timer.withExemption { clock.block(for: .milliseconds(500)) }
      #expect(timer.end())
      clock.block(for: .milliseconds(300))
      #expect(reports.all.isEmpty)
      loop.withTurn {
        loop.withExemption { clock.block(for: .milliseconds(300)) }
        stallByWaiting(for: .milliseconds(400))
      }
      clock.wait { !reports.all.isEmpty }
      #expect(reports.all.map(\.duration) == [.milliseconds(400)])
    }
  }

  @Test func excludesExemptTimeExactly() throws {
    try watching { watchdog, reports, _ in
      for number in 0..<20 {
        clock.block(for: .milliseconds(11 * number))
        let section = watchdog.beginSection("section", threshold: .seconds(1))
        section.withExemption { clock.block(for: .milliseconds(1_500)) }
        clock.block(for: .milliseconds(999))
        #expect(section.end(), "\(number)")
      }
      #expect(reports.all.isEmpty)
    }
  }

  @Test func excludesPausedTimeExactly() throws {
    try watching { watchdog, reports, _ in
      watchdog.pause()
      let sections = (0..<20).map { _ in
        clock.block(for: .milliseconds(11))
        return watchdog.beginSection("section", threshold: .seconds(1))
      }
      clock.block(for: .milliseconds(1_600))
      watchdog.resume()
      clock.block(for: .milliseconds(999))
      for section in sections { #expect(section.end()) }
      #expect(reports.all.isEmpty)
    }
  }

  @Test func declaresStallAfterExemptionInTime() throws {
    try watching { watchdog, reports, _ in
      let declared = Mutex<(time: SimulatedClock.Instant, age: Duration)?>(nil)
      let section = watchdog.beginSection("late", threshold: .milliseconds(400)) { event in
        declared.withLock { $0 = (.now, event.age) }
      }
      section.withExemption { clock.block(for: .milliseconds(1_500)) }
      let began = clock.now
      stallByWaiting(for: .milliseconds(900))
      #expect(!section.end())
      let (time, age) = try #require(declared.withLock { $0 })
      #expect(age == time - began)
      // A tick right before the threshold delays the declaration by the monitor's pause.
      let pause = Duration(wholeNanoseconds: Monitor.gap(sampled: 1))
      #expect(age >= .milliseconds(400) && age < .milliseconds(400) + pause, "\(age)")
      clock.wait { !reports.all.isEmpty }
      #expect(reports.all.map(\.duration) == [.milliseconds(900)])
    }
  }

  @Test func reportsBeginningHangAndEndOfStall() throws {
    var configuration = quick
    configuration.sampling.hangThreshold = .milliseconds(500)
    try watching(configuration) { watchdog, reports, _ in
      let events = Mutex<[String]>([])
      watchdog.onStallBegan { event in
        events.withLock { $0.append("began \(event.source.name) \(event.isHang) \(event.age >= event.threshold)") }
      }
      let gate = DispatchSemaphore(value: 0)
      watchdog.onStallBegan { _ in clock.whileIdle { gate.wait() } }
      watchdog.onHang { event in
        let culprit = event.report()?.culprit?.function.name ?? ""
        events.withLock { $0.append("hang \(event.source.name) \(event.isHang) \(culprit)") }
      }
      watchdog.withSection("short", threshold: .milliseconds(200)) { stallByWaiting(for: .milliseconds(300)) }
      watchdog.withSection("long", threshold: .milliseconds(200)) { stallByWaiting(for: .milliseconds(1500)) }
      clock.wait { reports.all.count == 2 && events.withLock { $0.count } == 3 }
      gate.signal()
      gate.signal()
      #expect(
        events.withLock { $0 } == [
          "began short false true", "began long false true", "hang long true stallByWaiting(for:)",
        ]
      )
      #expect(reports.all.map { report in report.raw.stall.notes.contains { $0.kind == .hang } } == [false, true])
      #expect(reports.all.last?.description.contains("a hang from ") == true)
    }
  }

  @Test func callsHandlersOfLateSectionsOnly() throws {
    try watching { watchdog, reports, _ in
      let fired = Reports.Counts()
      let late = watchdog.beginSection("late", threshold: .milliseconds(200)) { _ in fired.add(1) }
      stallByWaiting(for: .milliseconds(500))
      #expect(fired.all == [1])
      #expect(!late.end())
      #expect(!late.end())
      let inTime = watchdog.beginSection("in time", threshold: .seconds(20)) { _ in fired.add(2) }
      #expect(inTime.end())
      #expect(!inTime.end())
      clock.wait { !reports.all.isEmpty }
      #expect(fired.all == [1])
      let silent = watchdog.beginSection("no handler", threshold: .milliseconds(200))
      stallByWaiting(for: .milliseconds(500))
      #expect(!silent.end())
    }
  }

  @Test func reportsTaskOfExpiredActivity() async throws {
    _ = try await TaskProbe.knownLayout()
    let leaks = Leaks()
    let watchdog = try Watchdog(quick)
    watchdog.onLeakedActivity { leaks.add($0) }
    await Task.detached {
      let upload = try? watchdog.beginActivity("upload", threshold: .milliseconds(100))
      await waitForAnAnswer()
      withExtendedLifetime(upload) {}
    }.value
    let leak = try #require(leaks.all.first)
    #expect(leak.taskState == "its task is suspended", "\(leak)")
    #expect(leak.taskStack().contains("waitForAnAnswer()"), "\(leak)")
    #expect(leak.description.contains("Its task is suspended, in:\n"))
    let kept = await Task.detached { try? watchdog.beginActivity("import", threshold: .milliseconds(100)) }.value
    try await clock.sleep(for: .milliseconds(200))
    #expect(leaks.all.last?.taskState == "its task has ended", "\(leaks.all)")
    #expect(leaks.all.last?.description.hasSuffix("Its task has ended.\n") == true)
    withExtendedLifetime(kept) {}
    await watchdog.stop()
  }

  /// Returns the report of the first stall in `body`.
  private func report(_ body: (Watchdog) async throws -> Void) async throws -> StallReport {
    _ = try await TaskProbe.knownLayout()
    let reports = Reports()
    let watchdog = try Watchdog(quick)
    watchdog.onStall { reports.add($0) }
    try await body(watchdog)
    await watchdog.stop()
    return try #require(reports.all.first)
  }

  @Test func reportsSectionLeftOpenByEndedTask() async throws {
    let report = try await report { watchdog in
      let section = await Task.detached { watchdog.beginSection("left open", threshold: .milliseconds(200)) }.value
      try await clock.sleep(for: .milliseconds(500))
      section.end()
    }
    #expect(report.verdict == .noStacks, "\(report)")
    #expect(report.description.contains("its task had ended before the work"), "\(report)")
    #expect(report.evidence.noStack.contains { $0.reason.code == "taskEnded" }, "\(report)")
  }

  @Test func reportsSuspendedSections() async throws {
    let report = try await report { watchdog in
      let result = await watchdog.withSection("remote call", threshold: .milliseconds(200)) {
        await waitForAnAnswer()
        return 7
      }
      #expect(result == 7)
    }
    #expect(report.source.name == "remote call")
    #expect(report.culprit?.function.name == "waitForAnAnswer()", "\(report)")
    #expect(report.taskTimes?.suspended == .milliseconds(600))
    #expect(report.thread.id == 0)
    #expect(report.otherThreads?.groups.isEmpty == false)
  }

  @Test func requestsAreLabeledSections() async throws {
    let events = Mutex<[String]>([])
    let label = "GET /" + String(repeating: "a", count: 60) + "/orders/4711"
    struct Refusal: Error {}
    let report = try await report { watchdog in
      await #expect(throws: Refusal.self) {
        try await watchdog.withRequest(
          label: label,
          threshold: .milliseconds(200),
          onStall: { event in events.withLock { $0.append(event.source.name) } }
        ) {
          await waitForAnAnswer()
          throw Refusal()
        }
      }
    }
    #expect(report.source == StallReport.Source(kind: .section, name: "request"))
    #expect(report.culprit?.function.name == "waitForAnAnswer()", "\(report)")
    #expect(report.labels.map(\.text) == [String(label.suffix(56))], "\(report)")
    #expect(events.withLock { $0 } == ["request"])
  }

  /// Suspensions of 600 ms and 150 ms must get 80 % and 20 % of the time.
  @Test func attributesTimeToSuspensionPoints() async throws {
    let report = try await report { watchdog in
      await watchdog.withSection("remote calls", threshold: .milliseconds(200)) {
        await waitForAnAnswer()
        await waitForAnother()
      }
    }
    #expect(report.culprit?.function.name == "waitForAnAnswer()", "\(report)")
    #expect(abs((report.culprit?.share ?? 0) - 0.8) < 0.1, "\(report)")
    let stall = report.raw.stall
    #expect(stall.samples.count > 10 && stall.samples.allSatisfy { $0.stack != nil })
  }
}

@inline(never)
private func waitForAnAnswer() async {
  let task = FollowedTask.current
  await withCheckedContinuation { resume($0, of: task, after: .milliseconds(600)) }
}

@inline(never)
private func waitForAnother() async {
  let task = FollowedTask.current
  await withCheckedContinuation { resume($0, of: task, after: .milliseconds(150)) }
}

private func resume(_ answer: CheckedContinuation<Void, Never>, of task: FollowedTask?, after duration: Duration) {
  Thread.detachNewThread {
    while task?.whereabouts?.state != .isSuspended { usleep(100) }
    clock.block(for: duration)
    answer.resume()
  }
}
