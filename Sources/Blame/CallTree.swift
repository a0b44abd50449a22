import CulpritStallRecord

/// Identifies a function: by its module and full source name, which combines specializations and outlined parts;
/// otherwise by its module, symbol and start address, because several files of a program can each have a function of
/// that name; without a symbol, by its address.
package struct FunctionIdentity: Hashable, Comparable, Sendable {
  /// The compared values, shared by all copies. Names are long, and functions are looked up for each frame of each
  /// sample.
  private final class Storage: Sendable {
    let module: String
    let name: String
    let start: UInt64
    /// The hash of all values.
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
  /// The path of the module's file.
  var module: String { storage.module }
  /// The full source name of the function, or its symbol; empty if unknown.
  var name: String { storage.name }

  /// Creates the identity of the function of `frame`.
  package init(_ frame: ResolvedFrame) {
    if let function = frame.sourceFunction {
      // A merged function is distinct from the functions whose names it has.
      storage = Storage(module: frame.module, name: frame.isMerged ? "merged " + function : function, start: 0)
      return
    }
    let name = frame.rawName ?? frame.function ?? ""
    // Mangled names are unique, for called and for inlined functions. Other names can be shared, such as those of
    // static functions.
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

  /// An arbitrary but reproducible order.
  package static func < (left: FunctionIdentity, right: FunctionIdentity) -> Bool {
    let (one, other) = (left.storage, right.storage)
    return (one.name, one.module, one.start) < (other.name, other.module, other.start)
  }
}

/// A function in the call tree.
package struct CallNode: Hashable, Sendable {
  /// The function, with the address and location of the heaviest place in it.
  package var frame: ResolvedFrame
  /// The inclusive time.
  package var time: Duration
  /// The self time.
  package var selfTime: Duration
  /// The maximum number of consecutive repetitions of the function and its recursive callees; 1 without recursion.
  /// Repetitions are folded into one node.
  package var repetitions: Int
  /// The callees, heaviest first.
  package var children: [CallNode]
}

/// A stack with its time.
struct WeightedStack {
  struct Frame: Sendable {
    /// The parts that all copies of a frame share.
    private final class Content: Sendable {
      let identity: FunctionIdentity
      let resolved: ResolvedFrame
      let captured: StackFrame?

      init(_ resolved: ResolvedFrame, _ captured: StackFrame?) {
        identity = FunctionIdentity(resolved)
        (self.resolved, self.captured) = (resolved, captured)
      }
    }

    private let content: Content
    var owner: CodeOwner

    /// Creates a frame with the symbolized frame `resolved` and the captured frame `captured`.
    init(_ resolved: ResolvedFrame, owner: CodeOwner, captured: StackFrame? = nil) {
      content = Content(resolved, captured)
      self.owner = owner
    }

    /// The identity of the function.
    var identity: FunctionIdentity { content.identity }
    /// The symbolized frame.
    var resolved: ResolvedFrame { content.resolved }
    /// The captured frame; `nil` for a placeholder.
    var captured: StackFrame? { content.captured }
    /// Whether the frame is the application's own code.
    var isApplication: Bool { owner == .own }
    /// Whether the frame is an entry point from source code.
    var isWrittenEntryPoint: Bool { owner == .entry && CodeOwner.isWrittenEntryPoint(resolved) }
  }

  /// The frames, outermost first.
  var frames: [Frame]
  var time: Duration
}

extension WeightedStack.Frame {
  /// A placeholder for omitted frames.
  static let omission = {
    let frame = ResolvedFrame(function: "(frames that are left out)", module: "", address: .runtime(RuntimeAddress(0)))
    return WeightedStack.Frame(frame, owner: .system)
  }()
}

extension CallNode {
  /// Merges `stacks` into call trees. Folds recursion.
  static func merge(_ stacks: [WeightedStack]) -> [CallNode] {
    merge(stacks.map { Folded(frames: Recursion.folded($0.frames), time: $0.time) }, from: 0)
  }

  private struct Folded {
    var frames: [(frame: WeightedStack.Frame, count: Int)]
    var time: Duration
  }

  /// A place in a function. Comparing places is much faster than comparing names, and frames of one function differ
  /// only in them.
  private struct Place: Hashable {
    var address: CodeAddress
    var line: Int
    var column: Int

    init(_ frame: ResolvedFrame) {
      address = frame.address
      (line, column) = (frame.location?.line ?? 0, frame.location?.column ?? 0)
    }
  }

  /// The stacks with the same function at a depth.
  private struct Group {
    let first: ResolvedFrame
    var time: Duration = .zero
    var selfTime: Duration = .zero
    var repetitions = 1
    var deeper: [Folded] = []
    var places: [Place: (frame: ResolvedFrame, time: Duration)] = [:]

    init(first: ResolvedFrame) { self.first = first }

    mutating func add(_ stack: Folded, at depth: Int) {
      let (frame, count) = stack.frames[depth]
      time += stack.time
      repetitions = max(repetitions, count)
      places[Place(frame.resolved), default: (frame.resolved, .zero)].time += stack.time
      if depth + 1 == stack.frames.count { selfTime += stack.time } else { deeper.append(stack) }
    }
  }

  /// Merges `stacks` into call trees, starting with the frame at `depth`.
  private static func merge(_ stacks: [Folded], from depth: Int) -> [CallNode] {
    var groups: [FunctionIdentity: Group] = [:]
    for stack in stacks where depth < stack.frames.count {
      let frame = stack.frames[depth].frame
      groups[frame.identity, default: Group(first: frame.resolved)].add(stack, at: depth)
    }
    return
      groups
      .sorted { $0.value.time != $1.value.time ? $0.value.time > $1.value.time : $0.key < $1.key }
      .map { _, group in
        CallNode(
          frame: heaviest(group.places) ?? group.first,
          time: group.time,
          selfTime: group.selfTime,
          repetitions: group.repetitions,
          children: merge(group.deeper, from: depth + 1)
        )
      }
  }

  private static func heaviest(_ places: [Place: (frame: ResolvedFrame, time: Duration)]) -> ResolvedFrame? {
    places.max { left, right in
      guard left.value.time == right.value.time else { return left.value.time < right.value.time }
      // Ties are broken in a fixed order.
      return (left.key.address.value, left.key.line, left.key.column)
        > (right.key.address.value, right.key.line, right.key.column)
    }?.value.frame
  }
}
