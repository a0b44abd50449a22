import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritBlame

@Suite struct TimelineTests {
  private var synthetic = Synthetic()

  private mutating func timeline(_ functions: [String]) -> [StallReport.Stretch] {
    let stall = synthetic.stall(functions.map { ["c.start", "turn", $0, "c.read"] })
    return synthetic.blame(stall).timeline
  }

  private func names(_ timeline: [StallReport.Stretch]) -> [String?] { timeline.map { $0.culprit?.frame.function } }

  @Test mutating func reportsConsecutiveStretches() {
    let found = timeline(Array(repeating: "load", count: 40) + Array(repeating: "store", count: 10))
    #expect(names(found) == ["load", "store"])
    #expect(found.map(\.begin) == [.zero, .seconds(4)] && found.map(\.end) == [.seconds(4), .seconds(5)])
    #expect(found.allSatisfy { $0.culprit?.share == 1 })
  }

  @Test mutating func omitsUniformTimeline() {
    #expect(timeline(Array(repeating: "load", count: 40)).isEmpty)
    #expect(timeline((0..<60).map { $0 % 3 == 0 ? "store" : "load" }).isEmpty)
    #expect(timeline([]).isEmpty)
  }

  @Test mutating func mergesSingleSamplesIntoSurroundings() {
    var functions = Array(repeating: "load", count: 40) + Array(repeating: "store", count: 40)
    functions[20] = "store"
    functions[60] = "log"
    #expect(names(timeline(functions)) == ["load", "store"])
  }

  /// Consecutive samples form a stretch if they cover enough of the stall. A single sample must cover more.
  @Test mutating func keepsShortStretches() {
    func of(_ counts: [(String, Int)]) -> [String?] {
      names(timeline(counts.flatMap { Array(repeating: $0.0, count: $0.1) }))
    }
    #expect(of([("load", 28), ("store", 2), ("log", 10)]) == ["load", "store", "log"])
    #expect(of([("load", 2), ("store", 1), ("log", 1)]) == ["load", "store", "log"])
    #expect(of([("load", 20), ("store", 1), ("log", 10)]) == ["load", "log"])
    #expect(timeline((0..<10).map { $0 % 2 == 0 ? "load" : "store" }).isEmpty)
  }

  @Test mutating func reportsStretchWithoutCulprit() {
    let load = Array(repeating: ["c.start", "turn", "load"], count: 30)
    let nobody = Array(repeating: ["c.start", "c.epoll"], count: 20)
    let stall = synthetic.stall(load + nobody)
    let found = synthetic.blame(stall).timeline
    #expect(names(found) == ["load", nil])
  }

  @Test(arguments: 0..<50) mutating func stretchesCoverWholeStall(seed: Int) {
    var random = SplitMix(UInt64(seed))
    let names = ["load", "store", "log", "sort"]
    var functions: [String] = []
    for _ in 0..<Int.random(in: 1...12, using: &random) {
      let name = names.randomElement(using: &random) ?? "load"
      functions += Array(repeating: name, count: Int.random(in: 1...30, using: &random))
    }
    let found = timeline(functions)
    guard let first = found.first, let last = found.last else { return }
    #expect(first.begin == .zero && last.end == .milliseconds(100 * functions.count) && found.count <= 8)
    for (one, next) in zip(found, found.dropFirst()) {
      #expect(one.end == next.begin && one.begin < one.end)
      #expect(one.culprit?.frame.function != next.culprit?.frame.function)
    }
  }
}
