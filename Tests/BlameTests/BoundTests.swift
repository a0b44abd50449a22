import CulpritStallRecord
import SampleRecordings
import SplitMix
import Testing

@testable import CulpritBlame

@Suite struct BoundTests {
  private func frames(_ names: String) -> [WeightedStack.Frame] {
    names.map { letter in
      let frame = ResolvedFrame("\(letter)", raw: "\(letter)", at: UInt64(letter.asciiValue ?? 0))
      return WeightedStack.Frame(frame, owner: .own)
    }
  }

  private func text(_ frames: [WeightedStack.Frame]) -> String { frames.map { $0.resolved.function ?? "" }.joined() }

  /// Unfolding restores the original stack.
  @Test func foldingIsReversible() {
    var random = SplitMix(3)
    for _ in 0..<300 {
      let whole = String(
        (0..<Int.random(in: 0...30, using: &random)).map { _ in "abc".randomElement(using: &random) ?? "a" }
      )
      let folded = Recursion.folded(frames(whole))
      var unfolded = ""
      var place = 0
      while place < folded.count {
        let count = folded[place].count
        let lengths = count == 1 ? [1] : Array(1...8)
        let pieces = lengths.map { length -> String in
          let piece = text(folded[place..<min(folded.count, place + length)].map(\.frame))
          return String(repeating: piece, count: count)
        }
        let found = pieces.firstIndex { whole.dropFirst(unfolded.count).hasPrefix($0) }
        guard let found else {
          Issue.record("\(whole): \(folded.map { "\(text([$0.frame]))\($0.count)" })")
          break
        }
        unfolded += pieces[found]
        place += lengths[found]
      }
      #expect(unfolded == whole)
    }
  }

  @Test(arguments: [
    ("", []), ("a", [1]), ("aa", [2]), ("ab", [1, 1]), ("abab", [2, 1]), ("abcabcabc", [3, 1, 1]), ("xaab", [1, 2, 1]),
    ("abababa", [3, 1, 1]),
    ("abcdefghabcdefgh", [2, 1, 1, 1, 1, 1, 1, 1]),
    // Cycles of more than 8 functions are not searched.
    ("abcdefghiabcdefghi", Array(repeating: 1, count: 18)),
  ])
  func countsRepetitions(stack: String, counts: [Int]) {
    #expect(Recursion.folded(frames(stack)).map(\.count) == counts)
  }

  /// The nearest of the most similar stacks supplies the missing callers. At most three common functions count as
  /// similarity.
  @Test func completesTruncatedStacksFromNearestSimilar() {
    func completed(_ stacks: [String], cut: Int) -> String {
      var weighted = stacks.map { WeightedStack(frames: frames($0), time: .seconds(1)) }
      let isCut = stacks.indices.map { $0 == cut }
      let numbers = CutStacks.complete(&weighted, isCut: isCut)
      #expect(numbers == (text(weighted[cut].frames) == stacks[cut] ? [] : [cut]))
      return text(weighted[cut].frames)
    }
    #expect(completed(["xab", "ab", "yab"], cut: 1) == "xab")
    #expect(completed(["xa", "ab", "yab"], cut: 1) == "yab")
    #expect(completed(["xab", "za", "ab", "ya"], cut: 2) == "xab")
    #expect(completed(["xabcd", "yabc", "abcd"], cut: 2) == "yabcd")
    #expect(completed(["abcd", "xabc", "yabcd"], cut: 0) == "xabcd")
    // The outermost remaining function is matched at its last occurrence.
    #expect(completed(["xayab", "ab"], cut: 1) == "xayab")
    // A recursive function is matched where most of its callees agree.
    #expect(completed(["xabyac", "abyac"], cut: 1) == "xabyac")
    #expect(completed(["xaaab", "aab"], cut: 1) == "xaaab")
    #expect(completed(["xabab", "abab", "zab"], cut: 1) == "xabab")
    #expect(completed(["xb", "ab"], cut: 1) == "ab" && completed(["ab"], cut: 0) == "ab")
    for (distance, isNear) in [(15, true), (16, true), (17, false)] {
      let between = Array(repeating: "q", count: distance - 1)
      #expect(completed(["ab"] + between + ["xab"], cut: 0) == (isNear ? "xab" : "ab"))
      #expect(completed(["xab"] + between + ["ab"], cut: distance) == (isNear ? "xab" : "ab"))
    }
  }

  @Test func breaksTiesByName() {
    var made = Synthetic()
    let stall = made.stall(["b", "a", "c"].map { ["run", $0] })
    let blame = made.blame(stall)
    #expect(blame.callees.map(\.frame.function) == ["a", "b", "c"])
    #expect(blame.tree.first?.children.map(\.frame.function) == ["a", "b", "c"])
    #expect(blame.tree.first?.repetitions == 1)
  }

  @Test func countsOmittedContenders() {
    var made = Synthetic()
    let stall = made.stall((0..<10).map { ["main", "F\($0)"] })
    #expect(made.blame(stall).contenders.count == 8 && made.blame(stall).contenderCount == 10)
    let few = made.stall([["main", "A"], ["main", "B"], ["main", "C"]])
    #expect(made.blame(few).contenderCount == 3)
    let called = made.stall((0..<10).map { ["main", "run", "F\($0)"] })
    #expect(made.blame(called).callees.count == 8)
  }

  @Test func countsJoinedAndTruncatedStacks() {
    var stacks = ["ab", "cd", "ef"].map { names in
      Stack(frames: names.utf8.map { .programCounter(RuntimeAddress(UInt64($0))) }, end: .outermost)
    }
    stacks[1].joinedFrom = 1
    stacks[2].joinedFrom = 0
    stacks[2].end = .copyLimit
    let stall = stall([0, 1, 2], activities: [.running, .running, .running])
    let blame = blame(stall, stacks)
    let evidence = blame.evidence
    #expect(evidence.joinedCount == 2 && evidence.completedCount == 0)
    #expect(evidence.missingCallers.map(\.reason.code) == ["copyLimit"] && evidence.missingCallers[0].count == 1)
    #expect(blame.lastStack?.missingCallers?.code == "copyLimit")
  }

  private func stall(_ stacks: [Int], activities: [ThreadActivity]) -> Stall {
    Stall(
      "test",
      samples: zip(stacks, activities).enumerated()
        .map { number, sample in Sample(.milliseconds(100 * number + 50), sample.0, sample.1) },
      duration: .milliseconds(100 * stacks.count),
      hasEnded: true
    )
  }

  private func blame(_ stall: Stall, _ stacks: [Stack]) -> StallReport {
    StallReport(of: stall, in: Recording(process: nil, stacks: stacks)) { frame in
      [ResolvedFrame("f\(frame.address.value)", at: frame.address.value)]
    }
  }

  @Test func countsWaitingSamples() throws {
    func waiting(_ activities: [ThreadActivity]) throws -> StallReport.Waiting? {
      let stack = Stack(frames: [.programCounter(RuntimeAddress(1))], end: .outermost)
      let stall = stall(activities.map { _ in 0 }, activities: activities)
      return try #require(blame(stall, [stack]).culprit).waiting
    }
    #expect(try waiting([.unknown, .unknown]) == nil)
    #expect(try waiting([.unknown, .running]) == StallReport.Waiting(samples: 0, of: 1, systemCall: nil))
    #expect(
      try waiting([.inSystemCall(7), .inSystemCall(9), .inSystemCall(9), .running, .blocked])
        == StallReport.Waiting(samples: 4, of: 5, systemCall: "system call 9")
    )
    // If calls are equally frequent, the lower number is reported.
    #expect(
      try waiting([.inSystemCall(9), .inSystemCall(7)])
        == StallReport.Waiting(samples: 2, of: 2, systemCall: "system call 7")
    )
    #expect(
      try waiting([.inRestartedCall(nil), .inRestartedCall(3), .running])
        == StallReport.Waiting(samples: 2, of: 3, systemCall: "system call 3 (restarted)")
    )
  }

  @Test func sampleTimesAddUpToDuration() {
    var random = SplitMix(11)
    for _ in 0..<300 {
      let count = Int.random(in: 0...30, using: &random)
      let ages = (0..<count).map { _ in Duration.milliseconds(Int.random(in: 0...5000, using: &random)) }.sorted()
      var stall = stall(Array(repeating: 0, count: count), activities: Array(repeating: .running, count: count))
      for (place, age) in ages.enumerated() { stall.samples[place].age = age }
      stall.lostSamples = UInt64.random(in: 0...1, using: &random)
      let duration = max(.milliseconds(Int.random(in: 1...6000, using: &random)), ages.last ?? .zero)
      let times = SampleTimes(of: stall, stall.samples, duration: duration)
      guard count > 0 else {
        #expect(times.all == [] && times.unobserved == .zero)
        continue
      }
      #expect(times.all.allSatisfy { $0 >= .zero } && times.unobserved >= .zero)
      let sum = times.all.reduce(times.unobserved, +)
      #expect(abs((sum - duration).inSeconds) < 1e-9)
      if stall.lostSamples == 0, count <= 8 { #expect(times.unobserved == .zero) }
    }
  }

  @Test func limitsSampleWeightToFourIntervals() {
    var stall = stall(Array(repeating: 0, count: 20), activities: Array(repeating: .running, count: 20))
    for place in stall.samples.indices {
      stall.samples[place].age = .milliseconds(100 * place + (place < 10 ? 0 : 3000))
    }
    stall.lostSamples = 1
    let times = SampleTimes(of: stall, stall.samples, duration: .milliseconds(5500))
    let expected: [Int] = [50] + Array(repeating: 100, count: 8) + [450, 450] + Array(repeating: 100, count: 8) + [450]
    #expect(times.all == expected.map { .milliseconds($0) })
    #expect(times.unobserved == .milliseconds(5500 - expected.reduce(0, +)))
    stall.notes = [StallNote(.unwatched, time: .milliseconds(20)), StallNote(.unwatched, time: .milliseconds(30))]
    #expect(SampleTimes(of: stall, stall.samples, duration: .milliseconds(5500)).all[0] == .milliseconds(20))
  }

  /// Wilson's intervals for 5, 0 and 10 of 10 (Agresti and Coull, 1998).
  @Test func sharesHaveWilsonIntervals() {
    func share(_ seconds: Int, of weights: [Double]) -> Share {
      Share(time: .seconds(seconds), of: .seconds(10), weights: weights)
    }
    let ten = Array(repeating: 1.0, count: 10)
    for (time, low, high) in [(5, 0.2366, 0.7634), (0, 0, 0.2775), (10, 0.7225, 1)] {
      let share = share(time, of: ten)
      #expect(abs(share.low - low) < 0.0001 && abs(share.high - high) < 0.0001)
      #expect(share.fraction == Double(time) / 10)
    }
    // A single sample is one observation, whatever its weight.
    #expect(abs(share(10, of: [10]).low - share(10, of: [3]).low) < 1e-9)
    #expect(share(5, of: []).low == 0 && share(5, of: []).high == 1)
    #expect(Share(time: .seconds(1), of: .zero, weights: ten).fraction == 0)
    #expect(share(20, of: ten).fraction == 1)
  }

  @Test func groupsThreadsWithEqualStacks() {
    let stacks = ["ab", "ab", "cb"].map { names in
      Stack(frames: names.utf8.map { .programCounter(RuntimeAddress(UInt64($0))) }, end: .outermost)
    }
    let activities: [ThreadActivity] = [.running, .running, .blocked, .running, .running, .running]
    let numbers = [2, 0, 0, 1, 0, 9]
    let threads = zip(numbers, activities).enumerated()
      .map { id, thread in
        ThreadSample(
          thread: ObservedThread(id: Int32(id), name: ""),
          stack: thread.0,
          outcome: thread.0 == 9 ? .noAnswer : .captured,
          cpuTime: nil,
          activity: thread.1
        )
      }
    let all = AllThreads(threads: threads)
    let groups = ThreadsReport(all, stacks: stacks, rules: OwnershipRules(), architecture: "x86_64") { frame in
      [ResolvedFrame(function: "f\(frame.address)", module: "/a", address: .file(FileAddress(frame.address.value)))]
    }
    .groups
    #expect(groups.map { $0.threads.map(\.id) } == [[1, 3, 4], [0], [2], [5]])
    #expect(
      groups.allSatisfy { $0.missingCallers == nil } && groups.map(\.noStack?.code) == [nil, nil, nil, "noAnswer"]
    )
    #expect(groups.map(\.activity.kind) == [.computing, .computing, .blocked, .computing])
    #expect(groups.map(\.functions.count) == [2, 2, 2, 0])
  }
}
