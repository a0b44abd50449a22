import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

/// Stalls of Swift concurrency's thread pool, in separate processes because tests use the pool.
@Suite(.ownThread, .serialized) struct PoolTests {
  @TemporaryDirectory private var directory: String

  private func poolStall(in directory: String) throws -> Stall? {
    try stallFiles(in: directory).compactMap { try read($0).recording.stalls.first }.first { $0.source.kind == .pool }
  }

  @Test func reportsOccupantsOfPool() throws {
    let process = try ChildProcess(ChildProcess.built("stalling-process"), ["tasks", "computing", directory])
    #expect(process.hasExited && process.status == 0, "\(process)")
    let text = process.output
    #expect(text.contains("STALL     thread pool \"Swift concurrency\" was stuck for "), "\(text)")
    #expect(text.contains("CULPRIT   occupyThePool() "), "\(text)")
    #expect(text.contains(" % of the time of "), "\(text)")
    #expect(text.contains("\nWORKERS   "), "\(text)")
    #expect(try poolStall(in: directory) != nil, "\(text)")
  }

  /// Work that took most of the time must be blamed even if it returned before the declaration.
  @Test(arguments: ["waiting", "computing"]) func blamesEarlierWorkOfPool(kind: String) throws {
    let process = try ChildProcess(ChildProcess.built("stalling-process"), ["in-turn", kind, directory])
    #expect(process.hasExited && process.status == 0, "\(process)")
    let text = process.output
    #expect(text.contains("CULPRIT   fillTheCache() "), "\(text)")
    let stall = try #require(try poolStall(in: directory))
    let threads = Set(stall.samples.map(\.threadID))
    #expect(threads.count == max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) && !threads.contains(nil), "\(text)")
    #expect(text.contains("\nWORKERS   \(threads.count == 1 ? "thread" : "\(threads.count) threads")"), "\(text)")
    #expect(text.contains("10 jobs waited at a time, the oldest for "), "\(text)")
  }

  @Test func ignoresThreadsOfOtherPriorities() throws {
    let process = try ChildProcess(ChildProcess.built("stalling-process"), ["beside-others", "waiting", directory])
    #expect(process.hasExited && process.status == 0, "\(process)")
    #expect(process.output.contains("CULPRIT   fillTheCache() "), "\(process)")
    let stall = try #require(try namedStalls(in: directory).first { $0.stall.source.kind == .pool })
    // Threads that change their priority are sampled once more.
    // Counting all priorities would give these threads half of the samples.
    let others = stall.samples.filter { $0.names.contains { $0.contains("takeTurns()") } }
    #expect(others.count * 5 < stall.samples.count, "\(process)")
  }

  /// A job blocks one of several threads. A seccomp filter makes watchpoints unavailable.
  @Test(arguments: ["waiting", "computing"], [[], ["filtered"]]) func reportsStuckJob(kind: String, options: [String])
    throws
  {
    let words = ["one-job", kind, directory] + options
    let process = try ChildProcess(ChildProcess.built("stalling-process"), words)
    #expect(process.hasExited && process.status == 0, "\(process)")
    let text = process.output
    if sysconf(Int32(_SC_NPROCESSORS_ONLN)) < 2 { try Test.cancel("needs two cores") }
    let limitation =
      "limited=a job on an actor or after Task.yield() that computes for too long is noticed only if jobs occupy all "
      + "threads of the pool"
    // The test itself can run under a filter.
    let isFiltered = text.contains("\(limitation), because a seccomp filter is active")
    #expect(isFiltered || options.isEmpty, "\(text)")
    let certainty =
      isFiltered ? /was likely stuck for at least/ : /STALL     job "pool thread \d+" was stuck for at least/
    #expect(text.contains(certainty), "\(text)")
    #expect(text.contains("likely one job: ") == isFiltered, "\(text)")
    #expect(text.contains("CULPRIT   fillTheCache() "), "\(text)")
    #expect(!text.contains("thread pool"), "\(text)")
  }

  /// Without watchpoints, a yield from which the task resumes at once looks like no pause.
  @Test(arguments: [[], ["filtered"]]) func reportsStuckJobAfterYieldWithWatchpoints(options: [String]) throws {
    let words = ["after-yield", "computing", directory] + options
    let process = try ChildProcess(ChildProcess.built("stalling-process"), words)
    #expect(process.hasExited && process.status == 0, "\(process)")
    if sysconf(Int32(_SC_NPROCESSORS_ONLN)) < 2 { try Test.cancel("needs two cores") }
    let isFiltered = process.output.contains("limited=a job on an actor")
    #expect(isFiltered || options.isEmpty, "\(process)")
    #expect(process.output.contains("STALL     job ") != isFiltered, "\(process)")
  }

  @Test func removesWatchpointsWithWatch() throws {
    let process = try ChildProcess(ChildProcess.built("stalling-process"), ["let-go", "computing", directory])
    #expect(process.hasExited && process.status == 0, "\(process)")
    if sysconf(Int32(_SC_NPROCESSORS_ONLN)) < 2 { try Test.cancel("needs two cores") }
    if process.output.contains("computingJobs") { try Test.cancel("needs watchpoints") }
    #expect(process.output.contains("refused=true\nwatched=2\nleft=0\n"), "\(process)")
  }

  @Test(arguments: [[], ["filtered"]]) func ignoresYieldingTasks(options: [String]) throws {
    let words = ["pauses", "computing", directory] + options
    let process = try ChildProcess(ChildProcess.built("stalling-process"), words)
    #expect(process.hasExited && process.status == 0, "\(process)")
    // On a busy machine, the pool can be late.
    guard process.output.contains("healthy=true") else { return #expect(process.output.contains("healthy=false")) }
    #expect(!process.output.contains("STALL"), "\(process)")
  }

  @Test func blamesOccupantOfThreadForYieldedSection() throws {
    let child = try ChildProcess(ChildProcess.built("policy-process"), ["yield"])
    #expect(child.hasExited && child.status == 0, "\(child)")
    #expect(child.output == "culprit=computeInTheWay(_:)\nready=true\nsuspended=false\n", "\(child)")
  }
}
