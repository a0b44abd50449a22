import CCulpritLinux
import Foundation
import SimulatedClock
import Synchronization
import TestSupport
import Testing

@testable import Culprit

/// README and docs/internals/architecture.md document these numbers of threads.
@Suite(.serialized, .usesSimulatedClock) struct ThreadCountTests {
  @TemporaryDirectory private var directory: String
  private static let idle = ["culprit-monitor", "culprit-record", "culprit-report", "culprit-sample", "culprit-sample"]

  private final class Calls: Sendable {
    private let number = Atomic<Int>(0)
    var count: Int { number.load(ordering: .relaxed) }
    func add() { number.add(1, ordering: .relaxed) }
  }

  /// Threads that earlier tests have started.
  private let earlier = ids

  private static var ids: Set<String> {
    Set((try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? [])
  }

  /// The names of Culprit's threads that this test started, sorted.
  private var threads: [String] {
    let names = Self.ids.subtracting(earlier).compactMap {
      try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)
    }
    return names.map { $0.trimmingCharacters(in: .newlines) }.filter { $0.hasPrefix("culprit-") }.sorted()
  }

  @Test func idleWatchdogHasFiveThreads() throws {
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .seconds(100)))
    defer { watchdog.stopPatiently() }
    clock.wait { threads == Self.idle }
    #expect(threads == Self.idle)
  }

  @Test func directoryAddsTwoThreads() throws {
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .seconds(100), directory: directory))
    defer { watchdog.stopPatiently() }
    let expected = (Self.idle + ["culprit-disk", "culprit-note"]).sorted()
    clock.wait { threads == expected }
    #expect(threads == expected)
  }

  @Test func lateSectionsAddOneThread() throws {
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .seconds(100), directory: directory))
    let most = Mutex<[String]>([])
    let (calls, begun, ended) = (Calls(), Calls(), Calls())
    let count = { @Sendable in
      let present = threads
      most.withLock { if present.count > $0.count { $0 = present } }
    }
    watchdog.onStallBegan { _ in
      count()
      begun.add()
    }
    watchdog.onStall { _ in
      count()
      ended.add()
    }
    let expected = (Self.idle + ["culprit-disk", "culprit-handler", "culprit-note"]).sorted()
    clock.wait { threads == expected }
    let sections = (0..<500)
      .map { number in
        watchdog.beginSection("late \(number % 5)", threshold: .milliseconds(400)) { _ in
          if number % 50 == 0 { count() }
          calls.add()
        }
      }
    clock.block(for: .milliseconds(900))
    clock.wait { calls.count == 500 && begun.count > 0 }
    for section in sections { section.end() }
    clock.wait { ended.count > 0 }
    watchdog.stopPatiently()
    let found = most.withLock { $0 }
    let isHandler = { (name: String) in name == "culprit-handler" }
    #expect(found.filter { !isHandler($0) } == expected.filter { !isHandler($0) })
    // One thread, plus one for each handler that gets no CPU for 20 ms.
    #expect((1...9).contains(found.count(where: isHandler)))
  }
}
