import CulpritStallRecord

/// Identifies a function by module and full source name; by module, symbol and start address; or by address.
package struct FunctionIdentity: Hashable, Comparable, Sendable {
  /// Shared by all copies, because names are long and compared for each frame of each sample.
  private final class Storage: Sendable {
    let module: String
    let name: String
    let start: UInt64
    let digest: Int

    init(module: String, name: String, start: UInt64) {
      (self.module, self.name, self.start) = (module, name, start)
      var hasher = Hasher()
      hasher.combine(module)
      hasher.combine(name)
      hasher.combine(start)
      digest = hasher.finalize()
    }
  }

  private let storage: Storage
  var module: String { storage.module }
  var name: String { storage.name }

  package init(_ frame: ResolvedFrame) {
    if let function = frame.sourceFunction {
      // A merged function differs from the functions that share its code.
      storage = Storage(module: frame.module, name: frame.isMerged ? "merged " + function : function, start: 0)
      return
    }
    let name = frame.rawName ?? frame.function ?? ""
    // Mangled names are unique, also for inlined functions. Other names, such as those of static functions, can be
    // shared.
    let isMangled = ["$s", "$S", "_Z", "_R"].contains { name.hasPrefix($0) }
    let start = isMangled ? 0 : frame.start?.value ?? (name.isEmpty ? frame.address.value : 0)
    storage = Storage(module: frame.module, name: name, start: start)
  }

  package static func == (left: FunctionIdentity, right: FunctionIdentity) -> Bool {
    let (one, other) = (left.storage, right.storage)
    return one === other
      || (one.digest == other.digest && one.name == other.name && one.start == other.start
        && one.module == other.module)
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(storage.digest) }

  package static func < (left: FunctionIdentity, right: FunctionIdentity) -> Bool {
    let (one, other) = (left.storage, right.storage)
    return (one.name, one.module, one.start) < (other.name, other.module, other.start)
  }
}

/// A symbolized frame, shared by all copies.
package final class FrameContent: Sendable {
  package let identity: FunctionIdentity
  package let resolved: ResolvedFrame
  let captured: StackFrame?

  package init(_ resolved: ResolvedFrame, captured: StackFrame? = nil) {
    identity = FunctionIdentity(resolved)
    (self.resolved, self.captured) = (resolved, captured)
  }
}

struct WeightedStack {
  struct Frame: Sendable {
    let content: FrameContent
    var owner: CodeOwner

    init(_ resolved: ResolvedFrame, owner: CodeOwner, captured: StackFrame? = nil) {
      content = FrameContent(resolved, captured: captured)
      self.owner = owner
    }

    var identity: FunctionIdentity { content.identity }
    var resolved: ResolvedFrame { content.resolved }
    var captured: StackFrame? { content.captured }
    var isApplication: Bool { owner == .own }
    var isWrittenEntryPoint: Bool { owner == .entry && CodeOwner.isWrittenEntryPoint(resolved) }
  }

  var frames: [Frame]
  var time: Duration
}

extension WeightedStack.Frame {
  static let omission = {
    let frame = ResolvedFrame(function: "(frames that are left out)", module: "", address: .runtime(RuntimeAddress(0)))
    return WeightedStack.Frame(frame, owner: .system)
  }()
}

/// The times of the code locations in a function.
///
/// Comparing locations is much faster than comparing names, and frames of one function differ only in locations.
struct PlaceTimes {
  private struct Place: Hashable {
    var address: CodeAddress
    var line: Int
    var column: Int

    init(_ frame: ResolvedFrame) {
      address = frame.address
      (line, column) = (frame.location?.line ?? 0, frame.location?.column ?? 0)
    }
  }

  private var places: [Place: (content: FrameContent, time: Duration)] = [:]

  mutating func add(_ frame: WeightedStack.Frame, _ time: Duration) {
    places[Place(frame.resolved), default: (frame.content, .zero)].time += time
  }

  func heaviest(withLine: Bool = false) -> FrameContent? {
    places.max { left, right in
      let (one, other) = (left.value, right.value)
      let (isPlaced, isOtherPlaced) = (one.content.resolved.location != nil, other.content.resolved.location != nil)
      if withLine, isPlaced != isOtherPlaced { return isOtherPlaced }
      guard one.time == other.time else { return one.time < other.time }
      return (left.key.address.value, left.key.line, left.key.column)
        > (right.key.address.value, right.key.line, right.key.column)
    }?.value.content
  }
}

struct CallTree {
  let whole: Double
  let rules: OwnershipRules

  /// Returns the call trees of `stacks`, heaviest first, with recursion folded.
  func merged(_ stacks: [WeightedStack]) -> [StallReport.Node] {
    merged(stacks.map { Folded(frames: Recursion.folded($0.frames), time: $0.time) }, from: 0)
  }

  private struct Folded {
    var frames: [(frame: WeightedStack.Frame, count: Int)]
    var time: Duration
  }

  private struct Group {
    let first: FrameContent
    var time: Duration = .zero
    var selfTime: Duration = .zero
    var repetitions = 1
    var deeper: [Folded] = []
    var places = PlaceTimes()

    init(first: FrameContent) { self.first = first }

    mutating func add(_ stack: Folded, at depth: Int) {
      let (frame, count) = stack.frames[depth]
      time += stack.time
      repetitions = max(repetitions, count)
      places.add(frame, stack.time)
      if depth + 1 == stack.frames.count { selfTime += stack.time } else { deeper.append(stack) }
    }
  }

  private func merged(_ stacks: [Folded], from depth: Int) -> [StallReport.Node] {
    var groups: [FunctionIdentity: Group] = [:]
    for stack in stacks where depth < stack.frames.count {
      let frame = stack.frames[depth].frame
      groups[frame.identity, default: Group(first: frame.content)].add(stack, at: depth)
    }
    return
      groups
      .ordered { $0.value.time != $1.value.time ? $0.value.time > $1.value.time : $0.key < $1.key }
      .map { _, group in
        StallReport.Node(
          function: StallReport.Function(group.places.heaviest() ?? group.first, rules),
          share: whole > 0 ? group.time.inSeconds / whole : 0,
          seconds: Seconds(group.time),
          selfSeconds: Seconds(group.selfTime),
          repetitions: group.repetitions,
          children: merged(group.deeper, from: depth + 1)
        )
      }
  }
}
