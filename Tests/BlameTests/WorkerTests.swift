import CulpritStallRecord
import SampleRecordings
import SplitMix
import Testing

@testable import CulpritBlame

@Suite struct WorkerTests {
  /// A thread's functions with their start times in ms, sampled every 10 ms.
  private typealias Work = [(function: UInt64, from: Int)]

  /// Returns the report of a pool's stall of 1 s. Its threads, numbered from 101, did `work`.
  private func blame(_ work: [Work], from first: [Int] = [], to last: [Int] = []) -> StallReport {
    var stall = Stall(
      "Swift concurrency",
      kind: .pool,
      thread: (0, ""),
      threshold: .milliseconds(800),
      duration: .milliseconds(1000),
      hasEnded: true
    )
    for (number, work) in work.enumerated() {
      let (begin, end) = (first.isEmpty ? 0 : first[number], last.isEmpty ? 1000 : last[number])
      for age in stride(from: begin + 5, to: end, by: 10) {
        let function = work.last { $0.from <= age }?.function ?? 0
        // CPU time is half of the age, with a different offset for each thread.
        let used = Duration.milliseconds(10_000 * number + age / 2)
        let thread = Int32(101 + number)
        stall.samples.append(Sample(.milliseconds(age), Int(function), .running, used: used, threadID: thread))
      }
    }
    stall.samples.sort { $0.age < $1.age }
    let stacks = (0..<8).map { Stack(frames: [.programCounter(RuntimeAddress($0))], end: .outermost) }
    return StallReport(of: stall, in: Recording(process: nil, stacks: stacks)) { frame in
      [ResolvedFrame("f\(frame.address.value)", at: frame.address.value)]
    }
  }

  private func percent(_ claim: StallReport.Finding?) -> Int? { claim.map { Int(($0.share * 100).rounded()) } }

  @Test func blamesFunctionSharedByAllThreads() throws {
    let blame = blame([[(1, 0), (2, 800)], [(1, 0), (2, 780)]])
    #expect(blame.culprit?.frame.function == "f1" && percent(blame.culprit) == 79)
    #expect(blame.workers.map(\.thread.id) == [101, 102])
    #expect(blame.workers.map { percent($0.culprit) } == [80, 78])
    #expect(blame.duration == .seconds(1) && blame.evidence.unobserved == .zero)
    #expect(blame.lastStack?.functions.map(\.function) == ["f2"])
    // CPU time is counted per thread.
    #expect(blame.culprit?.cpuUse.map { Int(($0.share * 100).rounded()) } == 50)
  }

  @Test func reportsCulpritPerThread() {
    let blame = blame([[(1, 0)], [(2, 0), (3, 400)], [(1, 0), (2, 250), (3, 500), (4, 750)]])
    #expect(blame.workers.map { $0.culprit?.frame.function } == ["f1", "f3", nil])
    #expect(blame.workers.map { percent($0.culprit) } == [100, 60, nil])
    #expect(blame.verdict == .noSingleCulprit)
  }

  @Test func exactlyHalfOfThreadsIsInsufficient() {
    #expect(blame([[(1, 0)], [(2, 0)]]).verdict == .noSingleCulprit)
  }

  @Test func weighsThreadsByPresence() {
    let blame = blame([[(1, 0)], [(2, 0)]], from: [0, 500], to: [1000, 1000])
    #expect(blame.culprit?.frame.function == "f1" && percent(blame.culprit) == 67)
    #expect(self.blame([[(1, 0)], [(2, 0)]], from: [0, 0], to: [1000, 250]).culprit.map { percent($0) } == 80)
  }

  @Test func threadTimesAddUpToStall() {
    var random = SplitMix(29)
    for _ in 0..<200 {
      let threads = Int.random(in: 2...5, using: &random)
      let first = (0..<threads).map { _ in Int.random(in: 0...600, using: &random) }
      let last = first.map { Int.random(in: $0 + 20...1000, using: &random) }
      let blame = blame(first.map { _ in [(1, 0)] }, from: first, to: last)
      let times = blame.tree.reduce(blame.evidence.unobserved) { $0 + $1.time }
      #expect(abs((times - .seconds(1)).inSeconds) < 1e-6, "\(first) \(last)")
    }
  }

  @Test func singleThreadHasNoWorkers() {
    var stall = Stall("main")
    stall.samples = [Sample(age: .seconds(1), stack: 0, outcome: .captured, cpuTime: nil)]
    let stack = Stack(frames: [.programCounter(RuntimeAddress(1))], end: .outermost)
    #expect(StallReport(of: stall, in: Recording(process: nil, stacks: [stack]), resolve: { _ in [] }).workers == [])
  }
}
