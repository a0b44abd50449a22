import CCulpritLinux
import Dispatch
import Foundation
import SimulatedClock
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct SectionHandlerTests {
  private static let count = 500

  private final class Calls: Sendable {
    private let calls = Mutex<[(time: SimulatedClock.Instant, thread: Int32)]>([])
    var count: Int { calls.withLock { $0.count } }
    var times: [SimulatedClock.Instant] { calls.withLock { $0.map(\.time) } }
    var threads: Set<Int32> { calls.withLock { Set($0.map(\.thread)) } }
    func add() { calls.withLock { $0.append((.now, clinux_task_self())) } }
  }

  private func watching(_ body: (Watchdog) throws -> Void) throws {
    var configuration = Watchdog.Configuration(threshold: .seconds(100))
    configuration.reporting.perMinute = 1
    let watchdog = try Watchdog(configuration)
    watchdog.onStall { _ in }
    defer { watchdog.stopPatiently() }
    try body(watchdog)
  }

  @Test func callsHandlersOfManySectionsAtTheirThreshold() throws {
    try watching { watchdog in
      let calls = Calls()
      let began = clock.now
      let sections = (0..<Self.count)
        .map { _ in watchdog.beginSection("late", threshold: .milliseconds(400)) { _ in calls.add() } }
      clock.block(for: .milliseconds(401))
      clock.wait { calls.count == Self.count }
      #expect(calls.times.allSatisfy { $0 - began >= .milliseconds(400) && $0 - began <= .milliseconds(450) })
      #expect(calls.threads.count <= 2 && !calls.threads.contains(clinux_task_self()))
      #expect(watchdog.engine.map { (1...2).contains($0.workers.threads) } == true)
      for section in sections { #expect(!section.end()) }
    }
  }

  @Test func blockedHandlersDoNotDelayOthers() throws {
    try watching { watchdog in
      let calls = Calls()
      let gate = DispatchSemaphore(value: 0)
      let blocked = (0..<6)
        .map { _ in
          watchdog.beginSection("blocked", threshold: .milliseconds(200)) { _ in clock.whileIdle { gate.wait() } }
        }
      let sections = (0..<Self.count)
        .map { _ in watchdog.beginSection("late", threshold: .milliseconds(400)) { _ in calls.add() } }
      let began = clock.now
      clock.block(for: .milliseconds(1_000))
      clock.wait { calls.count == Self.count }
      #expect(calls.times.allSatisfy { $0 - began <= .milliseconds(1_000) })
      let threads = watchdog.engine?.workers.threads ?? 0
      #expect((7...8).contains(threads), "\(threads)")
      for _ in blocked { gate.signal() }
      for section in sections + blocked { section.end() }
    }
  }

  @Test func doesNotCallHandlersOfEndedSections() throws {
    try watching { watchdog in
      let calls = Calls()
      let sections = (0..<Self.count)
        .map { _ in watchdog.beginSection("in time", threshold: .milliseconds(400)) { _ in calls.add() } }
      clock.block(for: .milliseconds(399))
      for section in sections { #expect(section.end()) }
      clock.block(for: .milliseconds(500))
      #expect(calls.count == 0)
    }
  }

  @Test func handlersCanGetInterimReport() throws {
    try watching { watchdog in
      let report = Mutex<StallReport?>(nil)
      let isCalled = Finished()
      let section = watchdog.beginSection("late", threshold: .milliseconds(400)) { event in
        report.withLock { $0 = event.report() }
        isCalled.set()
      }
      stallByWaiting(for: .milliseconds(900))
      clock.wait { isCalled.isSet }
      section.end()
      let found = try #require(report.withLock { $0 })
      #expect(found.source.name == "late" && found.culprit?.function.name == "stallByWaiting(for:)")
    }
  }

  @Test func reportsManySectionsAsOneGroup() throws {
    let reports = Reports()
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("culprit-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .seconds(100), directory: directory))
    watchdog.onStall { reports.add($0) }
    let sections = (0..<200).map { _ in watchdog.beginSection("request", threshold: .milliseconds(400)) }
    stallByWaiting(for: .milliseconds(900))
    for section in sections { section.end() }
    clock.wait { !reports.all.isEmpty }
    let counts = watchdog.metrics.sources.first { $0.source.name == "request" }
    watchdog.stopPatiently()
    let group = try #require(reports.all.first?.group)
    #expect(reports.all.count == 1 && group.count == 200 && group.atSamePlace == 200 && group.unrecordedCount == 192)
    #expect(stallFiles(in: directory).count == Storms.recordedMax)
    #expect(counts?.stalls == 200)
    #expect(reports.all.first?.description.contains("200 sections of this name late since ") == true)
  }
}
