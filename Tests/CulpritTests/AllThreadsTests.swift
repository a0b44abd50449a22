import CCulpritLinux
import CulpritStallRecord
import Foundation
import Testing

@testable import Culprit

/// Waits in a function that tests look for, until `stop` is set. Rarely awake: a thread is somewhere else then.
@inline(never)
private func waitForTheEnd(_ stop: Finished) {
  while !stop.isSet { usleep(500_000) }
  computed.wrappingAdd(1, ordering: .relaxed)
}

/// Starts `count` threads that run `body` and returns what ends them.
private func withThreads(_ count: Int, _ body: @escaping @Sendable (Finished) -> Void, _ during: () throws -> Void)
  throws
{
  let stop = Finished()
  let ended = (0..<count).map { number in
    let ended = Finished()
    let thread = Thread {
      clinux_task_set_name("bystander \(number)")
      body(stop)
      ended.set()
    }
    thread.stackSize = 256 << 10
    thread.start()
    return ended
  }
  defer {
    stop.set()
    for ended in ended { while !ended.isSet { usleep(2000) } }
  }
  try during()
}

/// All threads of the process, at a stall and on request.
extension WatchdogTests {
  @Test func aStallsRecordHasTheOtherThreads() throws {
    try withDirectory { directory in
      var configuration = quick
      configuration.storage.directory = directory
      var found: [StallReport] = []
      try withThreads(3, waitForTheEnd) {
        try withThreads(1, { while !$0.isSet { computed.wrappingAdd(1, ordering: .relaxed) } }) {
          found = try reports(configuration) { watchdog in
            watchdog.withSection("stuck", threshold: .milliseconds(200)) { stallByComputing(for: .milliseconds(3000)) }
          }
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
      #expect(report.description.contains("3 threads waiting in clock_nanosleep"))
      // The cost counts them, too.
      let samples = report.raw.stall.samples.count
      #expect(report.raw.stall.cost.fromOutside + report.raw.stall.cost.bySignal >= others.threads.count + samples / 2)
      // The saved file says the same.
      let file = try read(try #require(stallFiles(in: directory).first))
      #expect(file.problems.isEmpty)
      #expect(file.recording.stalls.first?.others?.threads.map(\.thread) == others.threads.map(\.thread))
      #expect(file.recording.stalls.first?.cost == report.raw.stall.cost)
    }
  }

  /// Stalls that are declared together share a capture, and each has all threads.
  @Test func stallsAtTheSameTimeHaveTheirThreadsEach() throws {
    let found = try reports { watchdog in
      try withThreads(
        4,
        { stop in
          watchdog.withSection("one of four", threshold: .milliseconds(200)) {
            stallByComputing(for: .milliseconds(1500))
          }
          waitForTheEnd(stop)
        }
      ) { Thread.sleep(forTimeInterval: 2.5) }
    }
    #expect(found.count == 4)
    for report in found {
      let others = report.raw.stall.others?.threads.map(\.thread.id) ?? []
      #expect(Set(others).count == others.count)
      let stuck = Set(found.map(\.thread.id)).subtracting([report.thread.id])
      #expect(stuck.isSubset(of: others), "\(others) lacks \(stuck)")
    }
  }

  @Test func allThreadsAreCapturedOnRequest() throws {
    let watchdog = try Watchdog(quick)
    defer { watchdog.stop() }
    try withThreads(40, waitForTheEnd) {
      for _ in 0..<3 {
        let report = try watchdog.captureThreads()
        #expect(report.isComplete && report.leftOut == 0)
        let waiting = report.groups.filter { $0.functions.contains { $0.name == "waitForTheEnd(_:)" } }
        #expect(waiting.reduce(0) { $0 + $1.threads.count } == 40)
        #expect(waiting.allSatisfy { $0.missingCallers == nil }, "\(report.text(width: 200))")
        #expect(report.description.contains("waitForTheEnd(_:)"))
        // Who asks waits for the answer.
        #expect(report.groups.contains { $0.functions.contains { $0.name == "Watchdog.captureThreads(timeout:)" } })
      }
    }
    watchdog.stop()
    #expect(throws: WatchdogError.stopped) { try watchdog.captureThreads() }
  }

  @Test func threadsMayBeAskedForByAHandler() throws {
    let counts = Reports.Counts()
    let watchdog = try Watchdog(quick)
    watchdog.onStall { [weak watchdog] _ in counts.add((try? watchdog?.captureThreads())?.count ?? 0) }
    watchdog.withSection("stuck", threshold: .milliseconds(50)) { stallByComputing(for: .seconds(1)) }
    while counts.all.isEmpty { Thread.sleep(forTimeInterval: 0.02) }
    watchdog.stop()
    #expect(counts.all.allSatisfy { $0 > 0 })
  }

  /// Two thousand threads, none lost.
  @Test func everyOneOfManyThreadsIsCaptured() throws {
    let watchdog = try Watchdog(quick)
    defer { watchdog.stop() }
    let count = 2000
    try withThreads(count, waitForTheEnd) {
      let report = try watchdog.captureThreads(timeout: .seconds(60))
      #expect(report.isComplete && report.leftOut == 0)
      let named = Set(report.groups.flatMap(\.threads).filter { $0.name.hasPrefix("bystander") }.map(\.id))
      #expect(named.count == count)
      #expect(report.groups.allSatisfy { $0.noStack == nil }, "\(report.text(width: 200).prefix(3000))")
    }
  }
}
