import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritBlame

/// A program with a fixed call graph, and a sample count for each node.
private struct CallingProgram {
  struct Node {
    var name: String
    var samples: Int
    var callees: [Node]
  }

  var root: Node

  /// A random program without recursion. Some functions belong to the system; some have several callers.
  init(using random: inout some RandomNumberGenerator) {
    var left = Int.random(in: 2...25, using: &random)
    func node(_ depth: Int, below caller: Int) -> Node {
      left -= 1
      let isSystem = Int.random(in: 0..<3, using: &random) == 0
      let number = isSystem ? caller : caller + Int.random(in: 1...4, using: &random)
      var made = Node(
        name: isSystem ? "c.f\(number)" : "F\(number)",
        samples: Bool.random(using: &random) ? Int.random(in: 0...20, using: &random) : 0,
        callees: []
      )
      while left > 0, depth < 8, Int.random(in: 0..<3, using: &random) > 0 {
        made.callees.append(node(depth + 1, below: number))
      }
      return made
    }
    root = Node(name: "main", samples: 1, callees: [])
    while left > 0 { root.callees.append(node(1, below: 0)) }
  }

  /// Every stack, repeated by its sample count.
  var stacks: [[String]] {
    func stacks(_ node: Node, _ above: [String]) -> [[String]] {
      let own = above + [node.name]
      return Array(repeating: own, count: node.samples) + node.callees.flatMap { stacks($0, own) }
    }
    return stacks(root, [])
  }
}

/// Properties of every verdict.
@Suite struct VerdictPropertyTests {
  /// Verdicts on random programs. Every second program calls its functions in random order.
  private static let verdicts: [(stacks: [[String]], blame: StallReport)] = (0..<200)
    .map { number in
      var random = SplitMix(UInt64(number))
      let stacks = CallingProgram(using: &random).stacks
      let ordered = number % 2 == 0 ? stacks : stacks.shuffled(using: &random)
      return (ordered, blame(ordered))
    }

  private static func blame(_ stacks: [[String]]) -> StallReport {
    var made = Synthetic()
    let stall = made.stall(stacks)
    return made.blame(stall)
  }

  private func isOwn(_ name: String) -> Bool { name != "main" && !name.hasPrefix("c.") }

  private func held(by name: String, in stacks: [[String]]) -> Int { stacks.count { $0.contains(name) } }

  @Test func blamesFunctionWithMoreThanHalf() {
    for (stacks, blame) in Self.verdicts {
      let names = Set(stacks.joined()).filter(isOwn)
      let most = names.map { held(by: $0, in: stacks) }.max() ?? 0
      let culprit = blame.culprit?.frame.function
      // Samples without own functions count for the entry point.
      let bare = stacks.count { !$0.contains(where: isOwn) && $0.contains("main") }
      // Two functions with half of the time each are a tie.
      if most * 100 > stacks.count * 51 { #expect(culprit != nil && culprit != "main", "\(stacks)") }
      if most * 100 < stacks.count * 49 { #expect(culprit == (bare * 2 >= stacks.count ? "main" : nil), "\(stacks)") }
    }
  }

  @Test func culpritShareMatchesSamples() {
    for (stacks, blame) in Self.verdicts {
      guard let culprit = blame.culprit, let name = culprit.frame.function else { continue }
      #expect(isOwn(name) || name == "main")
      #expect(culprit.sampleCount == held(by: name, in: stacks), "\(stacks)")
      #expect(culprit.sampleCount * 2 >= stacks.count, "\(stacks)")
    }
  }

  /// A culprit that gets samples of unrelated functions stays the culprit. Library callbacks and their callers are
  /// excluded.
  @Test func addedTimeKeepsCulprit() {
    var random = SplitMix(0)
    for (stacks, blame) in Self.verdicts {
      guard let name = blame.culprit?.frame.function else { continue }
      guard let place = stacks.firstIndex(where: { $0.contains(name) }),
        let last = stacks[place].lastIndex(of: name)
      else { continue }
      let path = Array(stacks[place][...last])
      var changed = stacks
      for index in changed.indices where !changed[index].contains(name) && Bool.random(using: &random) {
        changed[index] = path
      }
      let found = Self.blame(changed).culprit?.frame.function
      // The order of samples shows whether a library calls back repeatedly, so changed samples can change the verdict.
      let isCalledBack = stacks.contains { stack in
        guard let found, let one = stack.lastIndex(of: found), let other = stack.lastIndex(of: name) else {
          return false
        }
        return stack[min(one, other)..<max(one, other)].contains { $0.hasPrefix("c.") }
      }
      #expect(found == name || isCalledBack, "\(stacks) -> \(changed)")
    }
  }

  @Test func culpritShareMatchesCallTree() {
    for (stacks, blame) in Self.verdicts {
      guard let culprit = blame.culprit else { continue }
      func time(_ nodes: [StallReport.Node]) -> Duration {
        nodes.reduce(.zero) { $0 + ($1.frame.function == culprit.frame.function ? $1.time : time($1.children)) }
      }
      let difference = time(blame.tree) - culprit.time
      #expect(abs(difference.inSeconds) < 0.000001, "\(stacks)")
    }
  }

  @Test func partsDoNotExceedWhole() {
    for (stacks, blame) in Self.verdicts {
      let beside = blame.contenders.reduce(0) { $0 + $1.share }
      let whole = blame.culprit?.share ?? 0
      #expect(whole + beside <= 1.000001, "\(stacks)")
      if let culprit = blame.culprit, blame.callees.count < 8 {
        let parts = blame.callees.reduce(blame.ownTime) { $0 + $1.time }
        #expect(abs((parts - culprit.time).inSeconds) < 0.000001, "\(stacks)")
      }
      for group in [blame.callers, blame.parts] {
        #expect(group.reduce(0) { $0 + $1.share } <= whole + 0.000001, "\(stacks)")
      }
      for caller in blame.outerCallers { #expect(caller.share <= whole + 0.000001, "\(stacks)") }
    }
  }

  @Test func truncatedStacksKeepVerdict() {
    var made = Synthetic()
    let whole = (0..<100)
      .map { number in
        number < 70 ? ["c.start", "run", "A", "c.append", "c.grow\(number % 3)"] : ["c.start", "run", "B", "c.append"]
      }
    let stall = made.stall(whole)
    let before = made.blame(stall)
    // Every fourth stack keeps only its two innermost functions.
    var cut = Synthetic()
    let cutStall = cut.stall(whole.enumerated().map { $0.offset % 4 == 1 ? Array($0.element.suffix(2)) : $0.element })
    for number in whole.indices where number % 4 == 1 { cut.cut(number) }
    let after = cut.blame(cutStall)
    #expect(after.culprit?.share == before.culprit?.share)
    #expect(after.tree.map(\.time) == before.tree.map(\.time))
    #expect(after.evidence.missingCallers.map(\.count) == [25] && after.evidence.completedCount == 25)
  }

  @Test func leavesUnknownTruncatedStacksUnassigned() {
    var made = Synthetic()
    let stall = made.stall((0..<100).map { $0 % 5 == 0 ? ["c.strange"] : ["c.start", "run", $0 % 5 < 4 ? "A" : "B"] })
    for number in 0..<100 where number % 5 == 0 { made.cut(number) }
    let blame = made.blame(stall)
    #expect(abs((blame.culprit?.share ?? 0) - 0.6) < 0.001)
    #expect(blame.callers.first.map { $0.share } == blame.culprit?.share)
    #expect(blame.evidence.completedCount == 0)
  }

  @Test func foldsRecursionInCallTree() {
    var made = Synthetic()
    let stall = made.stall(
      (1...50).map { depth in ["run"] + Array(repeating: ["walk", "c.each", "visit"], count: depth).joined() + ["c.x"] }
    )
    let blame = made.blame(stall)
    func lines(_ nodes: [StallReport.Node]) -> Int { nodes.reduce(0) { $0 + 1 + lines($1.children) } }
    #expect(lines(blame.tree) < 12, "\(blame.tree)")
    #expect(blame.tree.first?.children.first?.repetitions == 50)
    #expect(blame.culprit?.share == 1)
  }
}
