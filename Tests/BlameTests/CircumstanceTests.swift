import CulpritStallRecord
import SampleRecordings
import Testing

@testable import CulpritBlame

@Suite struct CircumstanceTests {
  private func frame(_ raw: String, start: UInt64) -> ResolvedFrame {
    ResolvedFrame("f", raw: raw, start: start, at: start)
  }

  /// Mangled names identify functions, because the start address of an inlined function is its caller's or unknown.
  @Test func mangledNameIdentifiesFunction() {
    #expect(FunctionIdentity(frame("$s4shop1fyyF", start: 16)) == FunctionIdentity(frame("$s4shop1fyyF", start: 32)))
    #expect(FunctionIdentity(frame("_ZN4shop1fEv", start: 16)) == FunctionIdentity(frame("_ZN4shop1fEv", start: 32)))
    #expect(FunctionIdentity(frame("f", start: 16)) != FunctionIdentity(frame("f", start: 32)))
  }

  private func stall(_ kind: SourceKind, _ samples: [(progress: UInt32, label: String)]) -> Stall {
    Stall(
      "test",
      kind: kind,
      samples: samples.enumerated()
        .map { index, sample in
          Sample(
            age: .milliseconds(100 * index + 50),
            stack: nil,
            outcome: .captured,
            cpuTime: nil,
            label: sample.label,
            progress: sample.progress
          )
        },
      duration: .milliseconds(100 * samples.count),
      hasEnded: true
    )
  }

  private func blame(_ stall: Stall) -> StallReport {
    StallReport(of: stall, in: Recording(process: nil, stacks: []), resolve: { _ in [] })
  }

  /// A queue with `waiting` items at each sample, the probe included. A change of `progress` means that an item was
  /// dequeued.
  private func queue(_ samples: [(progress: UInt32, waiting: UInt32)], _ kind: SourceKind = .queue) -> StallReport
    .WaitingWork?
  {
    var stall = stall(kind, samples.map { ($0.progress, "") })
    for index in samples.indices { stall.samples[index].waitingCount = samples[index].waiting }
    return blame(stall).waitingWork
  }

  private func work(_ count: Int, isLowerBound: Bool = false, oldest: Duration? = nil) -> StallReport.WaitingWork {
    StallReport.WaitingWork(count: count, isLowerBound: isLowerBound, oldestSeconds: oldest.map { Seconds($0) })
  }

  private func progress(_ stoodStill: Bool, _ samples: Int, of all: Int) -> StallReport.QueueProgress {
    StallReport.QueueProgress(stoodStill: stoodStill, samples: samples, of: all)
  }

  /// A sample between the end of the work and its report must not extend the stall. If the work is unfinished, the last
  /// sample determines the duration.
  @Test func ignoresSamplesAfterEnd() {
    var late = stall(.loop, [(0, "a"), (0, "a"), (0, "b"), (0, "b")])
    (late.duration, late.hasEnded) = (.milliseconds(200), true)
    #expect(Observations(stall: late, stacks: [], resolve: { _ in [] }).duration == .milliseconds(200))
    let labels = Dictionary(uniqueKeysWithValues: blame(late).labels.map { ($0.text, $0.time) })
    #expect(labels == ["a": .milliseconds(175), "b": .milliseconds(25)])
    late.hasEnded = false
    #expect(Observations(stall: late, stacks: [], resolve: { _ in [] }).duration == .milliseconds(350))
  }

  @Test func countsWaitingItems() {
    // Here the probe is the oldest item.
    #expect(queue([(5, 1), (5, 3), (5, 0), (5, 8), (5, 2)]) == work(7, oldest: .milliseconds(300)))
    #expect(queue([(5, 4), (6, 3), (6, 2)], .pool) == work(3, isLowerBound: true, oldest: .milliseconds(100)))
    // The next item can be dequeued before the last sample.
    #expect(queue([(5, 21), (5, 21), (5, 21), (6, 20)]) == work(20, oldest: .milliseconds(200)))
    // If each sample finds an item dequeued, the waiting time is unknown.
    #expect(queue([(5, 4), (6, 3), (7, 2)], .executor) == work(3))
    #expect(queue([(5, 1), (5, 1)]) == work(0))
    #expect(queue([(5, 1000), (6, 900)]) == work(999, isLowerBound: true))
    // The position of a pool's probe is unknown.
    #expect(queue([(5, 1), (5, 1)], .pool) == nil)
    #expect(queue([(5, 0), (5, 0)]) == nil && queue([(5, 2)], .loop) == nil)
  }

  @Test func detectsQueueProgress() {
    #expect(blame(stall(.queue, [(5, ""), (5, ""), (0, ""), (5, "")])).queueProgress == progress(true, 3, of: 3))
    // The work that was active when the probe was sent might have ended at once.
    #expect(blame(stall(.queue, [(4, ""), (5, ""), (5, ""), (5, "")])).queueProgress == progress(true, 3, of: 4))
    #expect(blame(stall(.queue, [(5, ""), (6, ""), (6, ""), (7, "")])).queueProgress == progress(false, 2, of: 3))
    #expect(blame(stall(.queue, [(5, ""), (0, "")])).queueProgress == nil)
    #expect(blame(stall(.loop, [(5, ""), (6, "")])).queueProgress == nil)
  }

  @Test func dividesTimeBetweenLabels() {
    let labels = blame(stall(.loop, [(0, "a"), (0, "b"), (0, "b"), (0, "")])).labels
    #expect(labels.map(\.text) == ["b", "a"])
    #expect(labels.map { Int(($0.share * 100).rounded()) } == [50, 25])
    #expect(blame(stall(.loop, [(0, "")])).labels.isEmpty)
  }

  @Test func countsOccupiedThreadsOfPool() throws {
    let names: [UInt64: String] = [0x10: "wait", 0x20: "swift_job_run", 0x30: "slow", 0x40: "quick"]
    let stacks = [[0x30, 0x20], [0x30, 0x20], [0x40, 0x20], [0x10]]
      .map { Stack(frames: $0.map { .programCounter(RuntimeAddress($0)) }, end: .outermost) }
    var pool = stall(.pool, [])
    pool.duration = .seconds(3)
    let threads = stacks.indices.map { ThreadSample(Int32($0), "", $0, .running) }
    pool.others = AllThreads(threads: threads, isComplete: true)
    let blame = StallReport(of: pool, in: Recording(process: nil, stacks: stacks)) { frame in
      let name = names[frame.address.value] ?? "?"
      let isSystem = name == "swift_job_run" || name == "wait"
      let module = isSystem ? "/usr/lib/swift/linux/libswift_Concurrency.so" : "/opt/shop/shop"
      return [ResolvedFrame(name, raw: name, in: module, at: frame.address.value)]
    }
    let culprit = try #require(blame.culprit)
    #expect(culprit.frame.function == "slow")
    #expect(culprit.sampleCount == 2 && blame.evidence.stackCount == 3)
    #expect(Int((culprit.share * 100).rounded()) == 67)
  }
}
