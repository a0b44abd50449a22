import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritBlame

private func times(_ count: Int, _ stack: [String]) -> [[String]] { Array(repeating: stack, count: count) }

@Suite struct BlameTests {
  @Test func blamesLargestShareNotLastStack() throws {
    var made = Synthetic()
    let stall = made.stall(
      times(40, ["c.start", "run", "handle", "A", "c.memcpy"]) + times(10, ["c.start", "run", "handle", "B"])
    )
    let blame = made.blame(stall)
    let culprit = try #require(blame.culprit)
    #expect(culprit.frame.function == "A")
    #expect(abs(culprit.share - 0.8) < 0.001)
    #expect(culprit.time == .seconds(4))
    #expect(culprit.sampleCount == 40)
    #expect(culprit.shareLow < 0.8 && culprit.shareHigh > 0.8)
    #expect(blame.lastStackBlames?.function == "B")
    #expect(blame.contenderNames == ["B"])
    #expect(blame.dominant?.frame.function == "c.memcpy")
    #expect(blame.callees.map(\.frame.function) == ["c.memcpy"])
    #expect(blame.callers.map(\.frame.function) == ["handle"])
    #expect(blame.outerCallers.map(\.frame.function) == ["run"])
  }

  @Test func blamesDeepestOwnFunctionWithHalf() {
    var made = Synthetic()
    let stall = made.stall(
      times(6, ["run", "A", "inner", "c.x"]) + times(3, ["run", "A", "other"]) + times(1, ["run"])
    )
    #expect(made.blame(stall).culpritName == "inner")
  }

  @Test func blamesFunctionWithExactlyHalf() {
    var made = Synthetic()
    let stall = made.stall(times(5, ["run", "A"]) + times(3, ["run", "B"]) + times(2, ["run", "C"]))
    #expect(made.blame(stall).culpritName == "A")
  }

  @Test func blamesCallerOfFunctionsBelowHalf() {
    var made = Synthetic()
    let stall = made.stall(times(4, ["run", "A"]) + times(3, ["run", "B"]) + times(3, ["run", "C"]))
    let blame = made.blame(stall)
    #expect(blame.culpritName == "run")
    #expect(blame.callees.map(\.frame.function) == ["A", "B", "C"])
    #expect(blame.parts.map(\.frame.function) == ["A", "B", "C"])
  }

  @Test func blamesEntryPointForItsSelfTime() {
    for (stacks, culprit) in [
      (times(9, ["_start", "main", "c.read"]), "main"),
      (times(6, ["main", "c.read"]) + times(4, ["main", "A"]), "main"),
      (times(4, ["main", "c.read"]) + times(6, ["main", "A"]), "A"),
      (times(5, ["main", "c.read"]) + times(5, ["main", "A"]), "A"),
      (times(4, ["main", "c.read"]) + times(3, ["main", "A"]) + times(3, ["main", "B"]), nil),
      (times(9, ["_start", "c.read"]), nil),
      (times(9, ["main", "c.call", "d.retry", "c.read"]), "d.retry"),
    ] {
      var made = Synthetic()
      let stall = made.stall(stacks)
      let blame = made.blame(stall)
      #expect(blame.culpritName == culprit, "\(stacks)")
      if culprit == nil { #expect(!blame.contenderNames.contains("main")) }
    }
  }

  /// The caller of the run loop is the culprit, with the callbacks as parts.
  @Test func listsPartsBelowRunLoop() {
    var made = Synthetic()
    let stall = made.stall(
      times(4, ["serve", "c.runloop", "A"]) + times(3, ["serve", "c.runloop", "B"])
        + times(3, ["serve", "c.runloop", "C"])
    )
    let blame = made.blame(stall)
    #expect(blame.culpritName == "serve")
    #expect(blame.parts.map(\.frame.function) == ["A", "B", "C"])
    #expect(blame.parts.map { ($0.share * 10).rounded() } == [4, 3, 3])
    #expect(blame.dominant?.frame.function == "c.runloop")
  }

  @Test func blamesLargestCallbackOfFramework() {
    var made = Synthetic()
    let stall = made.stall(
      times(60, ["serve", "c.runloop", "A", "c.x"]) + times(2, ["serve", "c.runloop"])
        + times(38, ["serve", "c.runloop", "B"])
    )
    #expect(made.blame(stall).culpritName == "A")
  }

  @Test func reportsPackageThatUsedTheTime() {
    var made = Synthetic()
    let stall = made.stall(
      times(7, ["run", "A", "d.squeeze", "d.lengths", "c.x"]) + times(1, ["run", "A", "c.y"]) + times(2, ["run", "B"])
    )
    let blame = made.blame(stall)
    #expect(blame.culpritName == "A")
    #expect(blame.spentIn?.frame.function == "d.lengths")
    #expect(abs((blame.spentIn?.share ?? 0) - 0.7) < 0.001)
    #expect(blame.spentIn.flatMap { CodeOwner.package(of: $0.frame) } == "retries")
    let closure = made.stall(times(8, ["run", "d.retry", "A"]) + times(2, ["run", "d.retry", "B"]))
    #expect(made.blame(closure).culpritName == "A")
    #expect(made.blame(closure).spentIn == nil)
  }

  @Test func blamesPackageOnItsOwnThread() {
    var made = Synthetic()
    let stall = made.stall(times(8, ["c.start", "d.loop", "d.parse", "c.x"]) + times(2, ["c.start", "d.loop", "A"]))
    #expect(made.blame(stall).culpritName == "d.parse")
  }

  @Test func dividesCulpritTimeBetweenCallers() {
    var made = Synthetic()
    let stall = made.stall(
      times(5, ["run", "first", "A"]) + times(3, ["run", "second", "c.each", "A"]) + times(2, ["run", "B"])
    )
    let blame = made.blame(stall)
    #expect(blame.culpritName == "A")
    #expect(blame.callers.map(\.frame.function) == ["first", "second"])
    #expect(blame.callers.map { ($0.share * 10).rounded() } == [5, 3])
    #expect(blame.outerCallers.isEmpty)
  }

  @Test func contendersAreInnermostWithFullShare() {
    var made = Synthetic()
    let stall = made.stall(
      times(6, ["run", "A"]) + times(3, ["run", "outer", "c.each", "inner", "c.x"]) + times(1, ["run", "C"])
    )
    #expect(made.blame(stall).contenderNames == ["inner", "C"])
    let split = made.stall(times(6, ["run", "A"]) + times(2, ["run", "outer", "inner"]) + times(1, ["run", "outer"]))
    #expect(made.blame(split).contenderNames == ["outer"])
  }

  @Test func blamesCallerOfSplitSystemCode() {
    var made = Synthetic()
    let stall = made.stall(
      times(4, ["run", "A", "c.malloc", "c.x"]) + times(3, ["run", "A", "c.malloc", "c.y"])
        + times(3, ["run", "A", "c.z"])
    )
    #expect(made.blame(stall).culpritName == "A")
  }

  @Test func countsRecursionOnce() throws {
    var made = Synthetic()
    let stall = made.stall(
      times(4, ["run", "walk", "walk", "walk", "c.x"]) + times(3, ["run", "walk"]) + times(1, ["run", "walk", "walk"])
        + times(2, ["run", "B"])
    )
    let blame = made.blame(stall)
    let culprit = try #require(blame.culprit)
    #expect(culprit.frame.function == "walk")
    #expect(abs(culprit.share - 0.8) < 0.001)
    #expect(culprit.sampleCount == 8)
  }

  @Test func singleSampleHasWideInterval() throws {
    var made = Synthetic()
    let stall = made.stall([["run", "A"]], lasting: .seconds(5))
    let culprit = try #require(made.blame(stall).culprit)
    #expect(culprit.frame.function == "A")
    #expect(culprit.share == 1)
    #expect(culprit.shareLow < 0.25)
  }

  @Test func sumsAlternatingStacks() {
    var made = Synthetic()
    let stall = made.stall((0..<30).map { $0 % 3 == 2 ? ["run", "B"] : ["run", "A", "c.\($0 % 2)"] })
    let blame = made.blame(stall)
    #expect(blame.culpritName == "A")
    #expect(abs((blame.culprit?.share ?? 0) - 2.0 / 3) < 0.02)
  }

  @Test func sumsFunctionOverCallPaths() throws {
    var made = Synthetic()
    let stall = made.stall(
      times(4, ["run", "viaOne", "A", "c.x"]) + times(4, ["run", "viaTwo", "A", "c.x"]) + times(2, ["run", "B"])
    )
    let culprit = try #require(made.blame(stall).culprit)
    #expect(culprit.frame.function == "A")
    #expect(abs(culprit.share - 0.8) < 0.001)
  }

  @Test func ignoresSystemCodeSharedByCallPaths() {
    var made = Synthetic()
    let stall = made.stall(
      times(5, ["run", "A", "c.malloc"]) + times(4, ["run", "B", "c.malloc"]) + times(2, ["run", "C", "c.malloc"])
    )
    #expect(made.blame(stall).culpritName == "run")
  }

  @Test func blamesFunctionWithLargerTotal() throws {
    var made = Synthetic()
    let stall = made.stall(times(2, ["main", "D", "B"]) + times(1, ["main", "D"]) + times(2, ["main", "B"]))
    let blame = made.blame(stall)
    #expect(blame.culpritName == "B")
    #expect(abs((blame.culprit?.share ?? 0) - 0.8) < 0.001)
    let other = made.stall(times(6, ["R", "F", "A"]) + times(5, ["R", "F", "B"]) + times(9, ["R", "G", "A"]))
    #expect(made.blame(other).culpritName == "A")
  }

  @Test func blamesMutualRecursionNotItsCaller() {
    var made = Synthetic()
    let inner = [["div", "closure"], ["div", "closure", "div"]]
    let page = (0..<13).map { ["main", "T", "page", "div", "closure"] + inner[$0 % 2] }
    let stall = made.stall(page + times(7, ["main", "T", "plain"]))
    let name = made.blame(stall).culpritName
    #expect(name == "div" || name == "closure")
  }

  @Test func callerOfCulpritContendsForSelfTime() {
    var made = Synthetic()
    let upload = times(6, ["main", "upload", "log"]) + times(8, ["main", "upload", "c.find"])
    let stall = made.stall(upload + times(6, ["main", "list", "log"]))
    let blame = made.blame(stall)
    #expect(blame.culpritName == "log")
    #expect(blame.contenderNames == ["upload"])
    #expect(abs((blame.contenders.first?.share ?? 0) - 0.4) < 0.001)
  }

  @Test func reportsCallbackBesidesCallerOfLibrary() {
    var made = Synthetic()
    let kinds = [["c.sort", "compare"], ["c.sort"], ["c.sort", "compare"]]
    let stall = made.stall((0..<30).map { ["main", "F"] + kinds[$0 % 3] })
    let blame = made.blame(stall)
    #expect(blame.culpritName == "F")
    #expect(blame.spentIn?.frame.function == "compare")
  }

  private var halves: [WeightedStack] {
    [["fill", "now"], ["fill"]]
      .map { names in
        let frames = names.map { name in
          let file = FileAddress(1)
          let frame = ResolvedFrame(function: name, rawName: name, module: "/opt/shop/shop", address: .file(file))
          return WeightedStack.Frame(frame, owner: .own)
        }
        return WeightedStack(frames: frames, time: .seconds(1))
      }
  }

  /// Half of the time is enough in a stall, but not in a pool of two threads.
  @Test func exactlyHalfOfPoolIsInsufficient() {
    func culprit(_ isHalfEnough: Bool) -> String? {
      Suspects(halves, total: .seconds(2), isHalfEnough: isHalfEnough).culprit()?.function.name
    }
    #expect(culprit(false) == "fill")
    #expect(culprit(true) == "now")
  }

  @Test func exactlyHalfOfStallIsSufficient() {
    #expect(Suspects(halves, total: .seconds(2)).culprit()?.function.name == "now")
  }

  /// Some code of the culprit has no line, so another frame supplies it.
  @Test func locationOfCulpritHasLine() {
    var made = Synthetic()
    let stall = made.stall(times(6, ["run", "A"]) + times(4, ["run", "B"]))
    let places = made
    let blame = StallReport(of: stall, in: Recording(process: nil, stacks: made.stacks)) { frame in
      places.resolve(frame)
        .map { resolved in
          var resolved = resolved
          if resolved.function == "B" { resolved.location = SourceLocation(file: "/opt/shop/a.swift", line: 7) }
          if resolved.function != "run" {
            (resolved.function, resolved.rawName, resolved.start) = ("A", "A", FileAddress(1))
          }
          return resolved
        }
    }
    #expect(blame.culpritName == "A" && blame.culprit?.frame.location?.line == 7)
  }

  @Test func excludesSuspendedTimeFromSelfTime() {
    var made = Synthetic()
    var stall = made.stall(times(4, ["run", "A"]) + times(6, ["run", "A"]))
    for place in 4..<10 { stall.samples[place].activity = .suspended }
    let blame = made.blame(stall)
    #expect(blame.culpritName == "A" && abs(blame.ownTime.inSeconds - 0.4) < 0.001)
  }

  @Test func blamesFunctionThatDistributesTime() {
    var made = Synthetic()
    let ways = [["lead", "A"], ["B"], ["C"]]
    let stall = made.stall((0..<9).map { ["main", "F", "c.each"] + ways[$0 % 3] })
    let blame = made.blame(stall)
    #expect(blame.culpritName == "F")
    #expect(Set(blame.parts.map(\.frame.function)) == ["A", "B", "C"])
    #expect(blame.contenders.isEmpty)
  }

  @Test func survivesVeryDeepStacks() {
    var made = Synthetic()
    let stall = made.stall([["main"] + Array(repeating: "walk", count: 20_000)])
    #expect(made.blame(stall).culpritName == "walk")
  }

  @Test func systemFramesAloneHaveNoCulprit() {
    var made = Synthetic()
    let stall = made.stall(times(10, ["c.start", "c.poll"]))
    let blame = made.blame(stall)
    #expect(blame.verdict == .noSingleCulprit)
    #expect(blame.contenders.isEmpty)
    #expect(blame.dominant?.frame.function == "c.poll")
    #expect(blame.lastStackBlames == nil)
  }

  @Test func explainsMissingSamplesAndStacks() {
    var made = Synthetic()
    let nothing = made.stall([])
    #expect(made.blame(nothing).verdictReason == "no sample was taken")
    let failed = made.stall([[], []])
    let blame = made.blame(failed)
    #expect(blame.verdict == .noStacks && blame.verdictReason == "the thread did not answer in time")
    #expect(blame.evidence.noStack.map(\.reason.code) == ["noAnswer"] && blame.evidence.noStack.first?.count == 2)
  }

  /// Time without a stack must not increase the other shares.
  @Test func countsTimeWithoutStackInTotal() throws {
    var made = Synthetic()
    let stall = made.stall(times(6, ["run", "A"]) + times(4, []))
    let blame = made.blame(stall)
    #expect(abs((blame.culprit?.share ?? 0) - 0.6) < 0.001)
  }

  @Test func weighsSamplesBySurroundingTime() {
    var made = Synthetic()
    var stall = made.stall(times(5, ["run"]))
    for (place, age) in [500, 700, 900, 1900, 2900].enumerated() { stall.samples[place].age = .milliseconds(age) }
    let found = SampleTimes(of: stall, stall.samples, duration: .milliseconds(3000)).all
    #expect(found == [600, 200, 600, 1000, 600].map { .milliseconds($0) })
    #expect(found.reduce(.zero, +) == .milliseconds(3000))
  }

  @Test(arguments: [0, 1, 2]) func reportsUnobservedTime(way: Int) {
    var made = Synthetic()
    // A works for 4 s and B for 1 s, sampled every 100 ms.
    var stall = made.stall((0..<50).map { ["run", $0 < 40 ? "A" : "B"] })
    for index in stall.samples.indices { stall.samples[index].age = .milliseconds(100 * index + 50) }
    stall.duration = .seconds(5)
    #expect(made.blame(stall).culpritName == "A" && made.blame(stall).evidence.unobserved == .zero)
    stall.samples.removeSubrange(12..<40)
    switch way {
    case 0: stall.lostSamples = 28
    case 1: stall.isDamaged = true
    // The end of the stall has no samples.
    default: stall.samples.removeSubrange(12...)
    }
    let blame = made.blame(stall)
    // The common caller of A and B can be the culprit.
    #expect(blame.culpritName != "A" && blame.culpritName != "B", "\(String(describing: blame.culpritName))")
    #expect(blame.evidence.unobserved >= .seconds(2))
  }

  @Test func acceptsUnorderedAndLateSamples() {
    var made = Synthetic()
    var stall = made.stall(times(3, ["run", "A"]) + times(1, ["run", "B"]))
    stall.samples.reverse()
    stall.duration = .milliseconds(10)
    #expect(made.blame(stall).culpritName == "A")
  }

  @Test func countsMissingStackAsFailure() {
    var made = Synthetic()
    var stall = made.stall(times(2, ["run", "A"]))
    stall.samples[0].stack = 99
    let blame = made.blame(stall)
    #expect(Observations(stall: stall, stacks: made.stacks, resolve: made.resolve).failures == [.captured: 1])
    #expect(blame.evidence.stackCount == 1)
  }

  @Test func reportsCPUUsePerFunction() throws {
    var made = Synthetic()
    // Samples are 100 ms apart: A uses 90 ms of each interval, B none.
    let cpu = (0..<8).map { Duration.milliseconds(90 * $0) } + (0..<2).map { _ in Duration.milliseconds(630) }
    let stall = made.stall(times(8, ["run", "A"]) + times(2, ["run", "B"]), cpu: cpu)
    let blame = made.blame(stall)
    #expect(abs((blame.culprit?.cpuUse?.share ?? 0) - 0.9) < 0.001)
    #expect(blame.contenders.first?.cpuUse == StallReport.CPUUse(share: 0, runnableShare: nil))
  }

  @Test func callTreeTimesAddUp() {
    var made = Synthetic()
    let stall = made.stall(times(7, ["run", "A", "c.x"]) + times(2, ["run", "A"]) + times(1, ["run", "B"]))
    let blame = made.blame(stall)
    func check(_ node: StallReport.Node) {
      #expect(node.time == node.children.reduce(node.selfTime) { $0 + $1.time })
      node.children.forEach(check)
    }
    blame.tree.forEach(check)
    #expect(blame.tree.first?.children.map(\.frame.function) == ["A", "B"])
  }

  @Test func confidenceIntervalsCoverTrueShare() {
    var random = SplitMix(7)
    var held = 0
    for _ in 0..<400 {
      let truth = Double.random(in: 0.1...0.9, using: &random)
      let hits = (0..<40).filter { _ in Double.random(in: 0...1, using: &random) < truth }.count
      let share = Share(time: .seconds(hits), of: .seconds(40), weights: Array(repeating: 1, count: 40))
      if share.low <= truth && truth <= share.high { held += 1 }
    }
    // 95 % of 400 are 380; 356 is more than five standard deviations below.
    #expect(held >= 356)
  }

  @Test func unequalWeightsWidenInterval() {
    let even = Share(time: .seconds(5), of: .seconds(10), weights: Array(repeating: 1, count: 10))
    let uneven = Share(time: .seconds(5), of: .seconds(10), weights: [5] + Array(repeating: 5.0 / 9, count: 9))
    #expect(uneven.high - uneven.low > even.high - even.low)
  }
}
