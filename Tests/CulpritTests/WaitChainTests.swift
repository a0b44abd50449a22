import Culprit
import CulpritReports
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct WaitChainTests {
  private func report(_ scenario: String) throws -> StallReport {
    let child = try ChildProcess(ChildProcess.built("waiting-process"), [scenario, "json"])
    return try #require(
      try? JSONDecoder().decode(StallReport.self, from: Data(child.output.utf8)),
      "\(scenario): \(child)"
    )
  }

  @Test(arguments: [
    ("mutex", "mutex", "rebuildIndex()"), ("recursive", "mutex", "rebuildIndex()"),
    ("computing-holder", "mutex", "computeForLong()"), ("swift-mutex", "lock", "rebuildIndex()"),
    ("write-lock", "readWriteLock", "rebuildIndex()"), ("join", "threadEnd", "rebuildIndex()"),
    ("queue", "queue", "rebuildIndex()"), ("once", "lock", "rebuildIndex()"), ("stream", "stream", "rebuildIndex()"),
    ("target-queue", "queue", "rebuildIndex()"),
  ])
  func reportsLockOwner(scenario: String, kind: String, function: String) throws {
    let report = try report(scenario)
    let chain = try #require(report.waitChains.first, "\(report)")
    let link = try #require(chain.links.first)
    #expect(chain.links.count == 1 && !chain.isDeadlock && chain.share > 0.8, "\(report)")
    #expect(link.kind.rawValue == kind && !link.hasHolderEnded && !link.isLikely, "\(report)")
    #expect(link.culprit?.function.name == function && link.culprit.map { $0.share > 0.8 } == true, "\(report)")
    #expect(scenario.hasSuffix("queue") || link.holder.name == "keeper", "\(report)")
    let words = report.description.split { $0.isWhitespace }.joined(separator: " ")
    #expect(words.contains("answerRequest(_:) 100 %"), "\(report)")
    #expect(words.contains("HOLDER waiting for ") && words.contains("% of that time in \(function)"), "\(report)")
    #expect(report.headline.contains(" took ") && report.headline.contains(function), "\(report.headline)")
    #expect(report.metadata["culprit.holder.function"] == function && report.metadata["culprit.waited_for"] == kind)
  }

  @Test func followsChainToItsEnd() throws {
    let report = try report("chain")
    let chain = try #require(report.waitChains.first, "\(report)")
    #expect(chain.links.map(\.kind) == [.mutex, .queue] && !chain.isDeadlock, "\(report)")
    #expect(chain.links.map { $0.culprit?.function.name } == ["storeOrder(_:)", "rebuildIndex()"], "\(report)")
    #expect(chain.links.first?.holder.name == "keeper")
    #expect(report.headline.hasSuffix("in rebuildIndex()"), "\(report.headline)")
  }

  @Test(arguments: [
    ("deadlock", ["mutex", "mutex"]), ("deadlock-queue", ["queue", "mutex"]),
    ("deadlock-three", ["mutex", "mutex", "mutex"]), ("self-deadlock", ["mutex"]),
  ])
  func reportsDeadlocks(scenario: String, kinds: [String]) throws {
    let report = try report(scenario)
    let chain = try #require(report.waitChains.first, "\(report)")
    // A cycle can begin at any of its threads.
    #expect(
      chain.isDeadlock && chain.isCycle && chain.links.map(\.kind.rawValue).sorted() == kinds.sorted(),
      "\(report)"
    )
    #expect(chain.links.contains { $0.holder.id == report.thread.id }, "\(report)")
    #expect(report.description.contains("DEADLOCK"), "\(report)")
    #expect(report.headline.contains("in a deadlock"), "\(report.headline)")
  }

  @Test func reportsLockOfEndedThread() throws {
    let report = try report("orphan")
    let link = try #require(report.waitChains.first?.links.first, "\(report)")
    #expect(link.hasHolderEnded && link.kind == .mutex && !report.waitChains[0].isDeadlock, "\(report)")
    #expect(report.description.contains("no thread can unlock it"), "\(report)")
  }

  @Test(arguments: ["read-lock", "semaphore", "condition", "sleep"])
  func reportsNoOwnerWhereNoneExists(scenario: String) throws {
    let report = try report(scenario)
    #expect(report.waitChains.isEmpty && report.culprit != nil, "\(report)")
    #expect(!report.description.contains("HOLDER") && !report.description.contains("DEADLOCK"), "\(report)")
  }

  @Test func reportsSuccessiveOwners() throws {
    let report = try report("handover")
    let names = report.waitChains.compactMap { $0.links.first?.holder.name }
    // The kernel decides whether the main thread gets the lock before the second thread.
    #expect(names.contains("first") && Set(names).isSubset(of: ["first", "second"]), "\(report)")
    #expect(report.waitChains.reduce(0) { $0 + $1.share } <= 1.001, "\(report)")
  }

  @Test func reportsNoDeadlockWhereNoneExists() throws {
    let timed = try report("timed-deadlock")
    #expect(timed.waitChains.first.map { $0.links.count == 2 && !$0.isDeadlock } == true, "\(timed)")
    let target = try report("target-queue")
    #expect(
      target.waitChains.allSatisfy { !$0.isDeadlock && $0.links.last?.holder.id != target.thread.id },
      "\(target)"
    )
  }
}
