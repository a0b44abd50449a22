import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritBlame

private func times(_ count: Int, _ stack: [String]) -> [[String]] { Array(repeating: stack, count: count) }

@Suite struct VerdictStabilityTests {
  private func blame(_ stacks: [[String]]) -> StallReport {
    var made = Synthetic()
    let stall = made.stall(stacks)
    return made.blame(stall)
  }

  /// A random part of the samples is in the algorithm's callback.
  @Test(arguments: ["c.sort", "c.qsort", "c.dispatch_apply"], 0..<20)
  func alwaysBlamesCallerOfAlgorithm(algorithm: String, run: Int) {
    var random = SplitMix(UInt64(run))
    let inCallback = Int.random(in: 0...20, using: &random)
    let work = times(inCallback, ["run", "A", algorithm, "compare"]) + times(20 - inCallback, ["run", "A", algorithm])
    #expect(blame(work.shuffled(using: &random)).culpritName == "A")
  }

  @Test(arguments: ["c.runloop", "d.retry", "d.sort", "c.dispatch_sync"], 0..<20)
  func alwaysBlamesCallbackOfFramework(framework: String, run: Int) {
    var random = SplitMix(UInt64(run))
    let own = Int.random(in: 0...8, using: &random)
    let work = times(own, ["run", "A", framework]) + times(20 - own, ["run", "A", framework, "visit"])
    #expect(blame(work.shuffled(using: &random)).culpritName == "visit")
  }

  @Test(
    arguments: [
      ("Sequence.map(_:)", "$sST3mapF", "Swift", true), ("Optional.map(_:)", "$sSq3mapF", "Swift", false),
      ("Dictionary.subscript.getter", "$sSDyq_Sgxcig", "Swift", true),
      ("JSONEncoder.encode(_:)", "$s11JSON", "Foundation", true),
      ("EventLoopFuture.map(_:)", "$s7NIOCore3mapF", "NIOCore", false),
      ("AsyncSequence.map(_:)", "$sSci3mapF", "_Concurrency", false),
      ("std::sort", "_ZSt4sortv", nil, true), ("shop::sort", "_ZN4shop4sortEv", nil, false),
      ("qsort", "qsort", nil, true),
      ("uv_run", "uv_run", nil, false),
    ] as [(String, String, String?, Bool)]
  )
  func recognizesAlgorithmsByName(function: String, symbol: String, module: String?, isAlgorithm: Bool) {
    let address = CodeAddress.file(FileAddress(1))
    let frame = ResolvedFrame(
      function: function,
      rawName: symbol,
      swiftModule: module,
      module: "/opt/shop/shop",
      address: address
    )
    #expect(RepeatedCalls.areMade(by: frame) == isAlgorithm)
  }

  @Test(arguments: 99...101) func nearlyEqualHalvesAreTie(first: Int) {
    func work(_ root: String) -> [[String]] {
      times(first, [root, "A", "deep"]) + times(200 - first, [root, "B", "c.x"])
    }
    let called = blame(work("run"))
    #expect(called.culpritName == "run" && Set(called.parts.map(\.frame.function)) == ["deep", "B"])
    let undecided = blame(work("main"))
    #expect(undecided.verdict == .noSingleCulprit && Set(undecided.contenderNames) == ["deep", "B"])
    #expect(undecided.dominant?.frame.function == "main")
  }

  @Test func clearMajorityIsNoTie() {
    #expect(blame(times(103, ["run", "A"]) + times(97, ["run", "B"])).culpritName == "A")
    #expect(blame(times(100, ["run", "A"]) + times(60, ["run", "B"]) + times(40, ["run", "C"])).culpritName == "A")
  }

  @Test(arguments: [["walk"], ["walk", "visit"]]) func reportsFunctionBelowRecursion(cycle: [String]) {
    let deep = (1...40).map { depth in
      ["run"] + Array(repeating: cycle, count: 1 + depth % 5).joined() + ["leaf", "c.read"]
    }
    let found = blame(times(60, ["run", "A"]) + deep)
    #expect(found.contenderNames == ["leaf"])
    #expect(found.timeline.map { $0.culprit?.frame.function } == ["A", "leaf"])
  }
}
