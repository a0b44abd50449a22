import Culprit
import Foundation
import Judges
import Programs
import SplitMix
import Synchronization

/// Stalls at the end of random chains of async functions with known callers.
struct Chains {
  /// A kind of call of the next function. `frames` are the frames that the report must have, innermost first.
  enum Link: String, CaseIterable, CustomStringConvertible {
    case plain, inlined, generic, closure, actor, throwing, letting, grouping, mainActor

    var description: String { rawValue }

    var frames: [String] {
      switch self {
      case .plain: ["plain(_:)"]
      case .inlined: ["thin(_:)"]
      case .generic: ["generic(_:_:)"]
      case .closure: ["closure #1 in closure(_:)", "call(_:)", "closure(_:)"]
      case .actor: ["Keeper.call(_:)"]
      case .throwing: ["throwing(_:)"]
      case .letting: ["letting(_:_:)", "letting(_:_:)"]
      case .grouping: ["closure #1 in closure #1 in grouping(_:_:)", "closure #1 in grouping(_:_:)", "grouping(_:_:)"]
      case .mainActor: ["mainActor(_:)"]
      }
    }
  }

  /// The plan of a chain.
  struct Path: Sendable {
    var links: [Link]
    /// The links before which the task suspends briefly.
    var suspensions: Set<Int>
    var isComputing: Bool
    var watchdog: Watchdog
    var place = 0
    /// The executor of the task that awaits this child task; `nil` if the same task continues the path.
    var parent: Parent?

    var next: Path {
      var path = self
      path.place += 1
      path.parent = nil
      return path
    }

    /// Returns the path for a child of the present task.
    func forChild(of parent: Parent) -> Path {
      var path = self
      path.parent = parent
      return path
    }
  }

  /// The executor of a task that awaits a child. Only a task that awaits is the child's caller. On a busy machine, the
  /// task might otherwise await only after the child's stall.
  actor Parent {
    /// Returns when the task awaits the child. Until then, the task occupies this executor.
    func waitUntilItAwaits() {}
  }

  private var random: SplitMix

  init(seed: UInt64) { random = SplitMix(seed) }

  mutating func run(_ count: Int) async throws {
    var reports = try await TaskReports()
    var (complete, wrong) = (0, 0)
    for number in 0..<count {
      let links = (0..<Int.random(in: 1...30, using: &random)).map { _ in
        Link.allCases.randomElement(using: &random) ?? .plain
      }
      let path = Path(
        links: links,
        suspensions: Set(links.indices.filter { _ in Int.random(in: 0..<4, using: &random) == 0 }),
        isComputing: Bool.random(using: &random),
        watchdog: reports.watchdog
      )
      await Task.detached { await beginTask(path) }.value
      guard let report = await reports.next() else { break }
      // Excludes the runtime's functions and the closure of the task.
      let found = (report.lastStack?.functions ?? []).filter { $0.isAwaiting && $0.moduleName == "tasks-process" }
        .map(\.name).filter { !$0.hasSuffix("in Chains.run(_:)") }
      let expected = Self.expected(links)
      let isIncomplete = report.lastStack.map { $0.missingCallers != nil } ?? true
      let judged = TaskJudgement.Chain(found: found, expected: expected, isIncomplete: isIncomplete)
      complete += judged == .whole ? 1 : 0
      wrong += judged == .wrong ? 1 : 0
      guard judged != .whole else { continue }
      let place = zip(found, expected).prefix { $0 == $1 }.count
      say(
        "trial=\(number) \(judged) \(links) \(path.suspensions.sorted()) computing=\(path.isComputing) from \(place)/"
          + "\(expected.count): \(found.dropFirst(place).prefix(4)) for \(expected.dropFirst(place).prefix(4)), "
          + "\(report.lastStack?.missingCallers?.text ?? "all"), \(report.lastStack?.functions.map(\.name).suffix(3) ?? [])"
      )
    }
    say("chains=\(count)\ncomplete=\(complete)\nwrong=\(wrong)")
    await reports.watchdog.stop(patience: .seconds(60))
  }

  /// Returns the async callers of the last function.
  private static func expected(_ links: [Link]) -> [String] {
    // The innermost function is on the thread's stack.
    links.reversed().flatMap { $0.frames + ["descend(_:)"] } + ["beginTask(_:)"]
  }
}

@inline(never)
private func beginTask(_ path: Chains.Path) async {
  await descend(path)
  returned.add(1, ordering: .relaxed)
}

/// Modified after a function's last call, to prevent a tail call without a caller.
private let returned = Atomic(0)

@inline(never)
private func descend(_ path: Chains.Path) async {
  await path.parent?.waitUntilItAwaits()
  if path.suspensions.contains(path.place) { await Task.yield() }
  guard path.place < path.links.count else {
    stop(path)
    return
  }
  switch path.links[path.place] {
  case .plain: await plain(path.next)
  case .inlined: await thin(path.next)
  case .generic: await generic(path.next, path.place)
  case .closure: await closure(path.next)
  case .actor: await Keeper().call(path.next)
  case .throwing: do { try await throwing(path.next) } catch {}
  case .letting: await letting(path.next, Chains.Parent())
  case .grouping: await grouping(path.next, Chains.Parent())
  case .mainActor: await mainActor(path.next)
  }
  returned.add(1, ordering: .relaxed)
}

@inline(never)
private func stop(_ path: Chains.Path) {
  path.watchdog.withSection("chain", threshold: .milliseconds(60)) {
    if path.isComputing { finishByComputing(150) } else { finishBySleeping(150) }
  }
}

/// Inlined into its caller by the optimizer.
@inline(__always)
private func thin(_ path: Chains.Path) async {
  await descend(path)
  returned.add(1, ordering: .relaxed)
}

@inline(never)
private func plain(_ path: Chains.Path) async {
  await descend(path)
  returned.add(1, ordering: .relaxed)
}

@inline(never)
private func generic<Value: Hashable & Sendable>(_ path: Chains.Path, _ value: Value) async {
  await descend(path)
  returned.add(value.hashValue & 1, ordering: .relaxed)
}

@inline(never)
private func closure(_ path: Chains.Path) async {
  await call {
    await descend(path)
    returned.add(1, ordering: .relaxed)
  }
  returned.add(1, ordering: .relaxed)
}

@inline(never)
private func call(_ body: @Sendable () async -> Void) async {
  await body()
  returned.add(1, ordering: .relaxed)
}

private actor Keeper {
  @inline(never)
  func call(_ path: Chains.Path) async {
    await descend(path)
    returned.add(1, ordering: .relaxed)
  }
}

private struct Thrown: Error {}

@inline(never)
private func throwing(_ path: Chains.Path) async throws {
  await descend(path)
  if returned.add(1, ordering: .relaxed).newValue < 0 { throw Thrown() }
}

@inline(never)
private func letting(_ path: Chains.Path, _ parent: isolated Chains.Parent) async {
  async let done: Void = descend(path.forChild(of: parent))
  await done
  returned.add(1, ordering: .relaxed)
}

@inline(never)
private func grouping(_ path: Chains.Path, _ parent: isolated Chains.Parent) async {
  await withTaskGroup(of: Int.self) { group in
    parent.assertIsolated()
    group.addTask {
      await descend(path.forChild(of: parent))
      return returned.add(1, ordering: .relaxed).newValue
    }
    for await value in group { returned.add(value & 1, ordering: .relaxed) }
  }
  returned.add(1, ordering: .relaxed)
}

@MainActor @inline(never)
private func mainActor(_ path: Chains.Path) async {
  await descend(path)
  returned.add(1, ordering: .relaxed)
}
