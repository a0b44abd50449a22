import Culprit
import CulpritReports
import Foundation
import TestSupport
import Testing

/// Threads that wait for each other: who holds what the work waits for is told, with what that thread did.
@Suite(.serialized) struct WaitChainTests {
  private static let optimised = ProcessInfo.processInfo.environment["OPTIMISED_PROGRAMS"]

  private func report(_ scenario: String, in directory: String? = nil) throws -> StallReport {
    let program = directory.map { "\($0)/waiting-process" } ?? ChildProcess.built("waiting-process")
    let child = try ChildProcess(program, [scenario, "json"])
    return try #require(
      try? JSONDecoder().decode(StallReport.self, from: Data(child.output.utf8)),
      "\(scenario): \(child)"
    )
  }

  /// What is held, and in which function its holder was.
  @Test(arguments: [
    ("mutex", "mutex", "rebuildIndex()"), ("recursive", "mutex", "rebuildIndex()"),
    ("computing-holder", "mutex", "computeForLong()"), ("swift-mutex", "lock", "rebuildIndex()"),
    ("write-lock", "readWriteLock", "rebuildIndex()"), ("join", "threadEnd", "rebuildIndex()"),
    ("queue", "queue", "rebuildIndex()"), ("once", "lock", "rebuildIndex()"), ("stream", "stream", "rebuildIndex()"),
    ("target-queue", "queue", "rebuildIndex()"),
  ])
  func whoHoldsItIsTold(scenario: String, kind: String, function: String) throws {
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

  /// The compiler takes liberties there that it does not take in code for debugging.
  @Test(
    .enabled(if: optimised != nil, "tools/test without arguments builds the program"),
    arguments: [("mutex", "mutex"), ("swift-mutex", "lock"), ("write-lock", "readWriteLock"), ("queue", "queue")]
  )
  func optimisedCodeFindsHolders(scenario: String, kind: String) throws {
    let report = try report(scenario, in: Self.optimised)
    let link = try #require(report.waitChains.first?.links.first, "\(report)")
    #expect(link.kind.rawValue == kind && link.culprit?.function.name == "rebuildIndex()", "\(report)")
  }

  @Test(.enabled(if: optimised != nil, "tools/test without arguments builds the program"))
  func optimisedCodeFindsDeadlocks() throws {
    let report = try report("deadlock", in: Self.optimised)
    #expect(report.waitChains.first?.isDeadlock == true, "\(report)")
  }

  /// Who waits himself is followed to the one who does not.
  @Test func aChainIsFollowedToItsEnd() throws {
    let report = try report("chain")
    let chain = try #require(report.waitChains.first, "\(report)")
    #expect(chain.links.map(\.kind) == [.mutex, .queue] && !chain.isDeadlock, "\(report)")
    #expect(chain.links.map { $0.culprit?.function.name } == ["storeOrder(_:)", "rebuildIndex()"], "\(report)")
    #expect(chain.links.first?.holder.name == "keeper")
    #expect(report.headline.hasSuffix("in rebuildIndex()"), "\(report.headline)")
  }

  /// A cycle whose links were all found twice, with nobody doing anything in between.
  @Test(arguments: [
    ("deadlock", ["mutex", "mutex"]), ("deadlock-queue", ["queue", "mutex"]),
    ("deadlock-three", ["mutex", "mutex", "mutex"]), ("self-deadlock", ["mutex"]),
  ])
  func deadlocksAreTold(scenario: String, kinds: [String]) throws {
    let report = try report(scenario)
    let chain = try #require(report.waitChains.first, "\(report)")
    // A ring begins anywhere.
    #expect(
      chain.isDeadlock && chain.isCycle && chain.links.map(\.kind.rawValue).sorted() == kinds.sorted(),
      "\(report)"
    )
    #expect(chain.links.contains { $0.holder.id == report.thread.id }, "\(report)")
    #expect(report.description.contains("DEADLOCK"), "\(report)")
    #expect(report.headline.contains("in a deadlock"), "\(report.headline)")
  }

  @Test func whatTheDeadHoldNobodyLetsGo() throws {
    let report = try report("orphan")
    let link = try #require(report.waitChains.first?.links.first, "\(report)")
    #expect(link.hasHolderEnded && link.kind == .mutex && !report.waitChains[0].isDeadlock, "\(report)")
    #expect(report.description.contains("nobody is left to let go"), "\(report)")
  }

  /// What nobody owns has no holder, and is no deadlock.
  @Test(arguments: ["read-lock", "semaphore", "condition", "sleep"])
  func whatNobodyOwnsHasNoHolder(scenario: String) throws {
    let report = try report(scenario)
    #expect(report.waitChains.isEmpty && report.culprit != nil, "\(report)")
    #expect(!report.description.contains("HOLDER") && !report.description.contains("DEADLOCK"), "\(report)")
  }

  /// Who takes over from another is told, too: each has its own time, and all together no more than the stall.
  @Test func whoHeldItAfterAnotherIsTold() throws {
    let report = try report("handover")
    let names = report.waitChains.compactMap { $0.links.first?.holder.name }
    // Whether the main thread is the next to have it is up to the kernel.
    #expect(names.contains("first") && Set(names).isSubset(of: ["first", "second"]), "\(report)")
    #expect(report.waitChains.reduce(0) { $0 + $1.share } <= 1.001, "\(report)")
  }

  /// What ends by itself is no deadlock, nor is a queue that waits for the one that is its target.
  @Test func whatIsNoDeadlockIsNotCalledOne() throws {
    let timed = try report("timed-deadlock")
    #expect(timed.waitChains.first.map { $0.links.count == 2 && !$0.isDeadlock } == true, "\(timed)")
    let target = try report("target-queue")
    #expect(
      target.waitChains.allSatisfy { !$0.isDeadlock && $0.links.last?.holder.id != target.thread.id },
      "\(target)"
    )
  }
}
