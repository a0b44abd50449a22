import CCulpritLinux
import CulpritStallRecord
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Culprit

@inline(never)
private func waitForTheEnd(_ stop: DispatchSemaphore) {
  stop.wait()
  computed.wrappingAdd(1, ordering: .relaxed)
}

private func withThreads(
  _ count: Int,
  _ body: @escaping @Sendable (DispatchSemaphore) -> Void,
  _ during: () throws -> Void
) throws {
  let (stop, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
  let begun = Mutex<[pid_t]>([])
  for number in 0..<count {
    let thread = Thread {
      clinux_task_set_name("bystander \(number)")
      begun.withLock { $0.append(clinux_task_self()) }
      body(stop)
      ended.signal()
    }
    thread.stackSize = 256 << 10
    thread.start()
  }
  while begun.withLock({ $0.count }) < count { usleep(100) }
  for id in begun.withLock({ $0 }) { while !isAsleep(id) { usleep(100) } }
  defer {
    for _ in 0..<count { stop.signal() }
    for _ in 0..<count { ended.wait() }
  }
  try during()
}

extension WatchdogTests {
  @Test func reportsAllThreadsAtStall() throws {
    var found: [StallReport] = []
    try withThreads(3, waitForTheEnd) {
      let isOver = Finished()
      defer { isOver.set() }
      Thread.detachNewThread { while !isOver.isSet { computed.wrappingAdd(1, ordering: .relaxed) } }
      found = try reports(saving) { watchdog in
        watchdog.withSection("stuck", threshold: .milliseconds(200)) { stallByWaiting(for: .milliseconds(900)) }
      }
    }
    let report = try #require(found.first)
    let others = try #require(report.raw.stall.others)
    #expect(others.isComplete && others.leftOut == 0)
    #expect(!others.threads.contains { $0.thread.id == report.thread.id })
    #expect(!others.threads.contains { $0.thread.name.hasPrefix("culprit-") })
    let waiting = try #require(
      report.otherThreads?.groups.first { $0.functions.contains { $0.name == "waitForTheEnd(_:)" } }
    )
    #expect(waiting.threads.count == 3, "\(report.description)")
    #expect(waiting.activity.kind == .inSystemCall)
    #expect(waiting.missingCallers == nil)
    #expect(waiting.threads.allSatisfy { $0.name.hasPrefix("bystander") })
    #expect(others.threads.contains { $0.activity == .running && $0.outcome == .captured })
    #expect(report.description.contains("OTHERS    "))
    #expect(report.description.contains("3 threads waiting in futex"))
    let samples = report.raw.stall.samples.count
    #expect(report.raw.stall.cost.fromOutside + report.raw.stall.cost.bySignal >= others.threads.count + samples / 2)
    let file = try read(try #require(stallFiles(in: directory).first))
    #expect(file.problems.isEmpty)
    let saved = file.recording.stalls.first
    #expect(saved?.others?.threads.map(\.thread) == others.threads.map(\.thread))
    #expect(file.recording.stalls.first?.cost == report.raw.stall.cost)
  }

  @Test func simultaneousStallsHaveAllThreads() throws {
    let found = try reports { watchdog in
      let start = DispatchSemaphore(value: 0)
      try withThreads(
        4,
        { stop in
          clock.countingThread {
            start.wait()
            watchdog.withSection("one of four", threshold: .milliseconds(200)) {
              stallByWaiting(for: .milliseconds(600))
            }
          }
          waitForTheEnd(stop)
        }
      ) {
        for _ in 0..<4 { start.signal() }
        clock.block(for: .seconds(1))
      }
    }
    #expect(found.count == 4)
    for report in found {
      let others = report.raw.stall.others?.threads.map(\.thread.id) ?? []
      #expect(Set(others).count == others.count)
      let stuck = Set(found.map(\.thread.id)).subtracting([report.thread.id])
      #expect(stuck.isSubset(of: others), "\(others) lacks \(stuck)")
    }
  }

  @Test func capturesThreadsOnRequest() throws {
    let watchdog = try Watchdog(quick)
    defer { watchdog.stop() }
    try withThreads(40, waitForTheEnd) {
      for _ in 0..<3 {
        let report = try watchdog.captureThreads()
        #expect(report.isComplete && report.omittedCount == 0)
        let waiting = report.groups.filter { $0.functions.contains { $0.name == "waitForTheEnd(_:)" } }
        #expect(waiting.reduce(0) { $0 + $1.threads.count } == 40)
        #expect(waiting.allSatisfy { $0.missingCallers == nil }, "\(report.text(width: 200))")
        #expect(report.description.contains("waitForTheEnd(_:)"))
        #expect(report.groups.contains { $0.functions.contains { $0.name == "Watchdog.captureThreads(timeout:)" } })
      }
    }
    watchdog.stop()
    #expect(throws: WatchdogError.stopped) { try watchdog.captureThreads() }
  }

  @Test func handlersCanCaptureThreads() throws {
    let counts = Reports.Counts()
    let watchdog = try Watchdog(quick)
    watchdog.onStall { [weak watchdog] _ in counts.add((try? watchdog?.captureThreads())?.count ?? 0) }
    watchdog.withSection("stuck", threshold: .milliseconds(50)) { stallByWaiting(for: .milliseconds(400)) }
    clock.wait { !counts.all.isEmpty }
    watchdog.stop()
    #expect(counts.all.map { $0 > 0 } == [true])
  }

  @Test func capturesThousandsOfThreads() throws {
    let watchdog = try Watchdog(quick)
    defer { watchdog.stop() }
    let count = 2000
    try withThreads(count, waitForTheEnd) {
      let report = try watchdog.captureThreads(timeout: .seconds(60))
      #expect(report.isComplete && report.omittedCount == 0)
      let named = Set(report.groups.flatMap(\.threads).filter { $0.name.hasPrefix("bystander") }.map(\.id))
      #expect(named.count == count)
      #expect(report.groups.allSatisfy { $0.noStack == nil }, "\(report.text(width: 200).prefix(3000))")
    }
  }
}
