import CulpritStallRecord

/// What makes two frames the same function: the module's file, and what the function that somebody has written is called
/// in full, so that its specialisations and the pieces that the compiler has cut it into are one; else the symbol and the
/// function's first address (two files of a program may each have a function of the same name); where no function is known,
/// the address.
package struct FunctionIdentity: Hashable, Comparable, Sendable {
  /// What is compared, once for all copies: names are long, and functions are looked up for each frame of each sample.
  private final class Storage: Sendable {
    let module: String
    let name: String
    let start: UInt64
    /// Of all of these.
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
  /// What the function is called in full, or its symbol; empty where none is known.
  var name: String { storage.name }

  /// That of the function that `frame` is in.
  package init(_ frame: ResolvedFrame) {
    if let function = frame.sourceFunction {
      // What has the name of several functions is none of them.
      storage = Storage(module: frame.module, name: frame.isMerged ? "merged " + function : function, start: 0)
      return
    }
    let name = frame.rawName ?? frame.function ?? ""
    // A mangled name is that of one function, whether it was called or inlined. Others may be those of several: static ones.
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

  /// An order that makes results repeatable; it means nothing.
  package static func < (left: FunctionIdentity, right: FunctionIdentity) -> Bool {
    let (one, other) = (left.storage, right.storage)
    return (one.name, one.module, one.start) < (other.name, other.module, other.start)
  }
}

/// A function in the call tree.
package struct CallNode: Hashable, Sendable {
  /// What the function is called. Address and location are those of the heaviest place in it.
  package var frame: ResolvedFrame
  /// The time of the samples that go through this node.
  package var time: Duration
  /// The time of the samples that end here.
  package var selfTime: Duration
  /// How often the function, and what it calls before it comes again, followed itself at most: 1 when it did not. What is
  /// repeated is told once.
  package var repetitions: Int
  /// The functions it called, the heaviest first.
  package var children: [CallNode]
}

/// One stack with the time it stands for.
struct WeightedStack {
  struct Frame: Sendable {
    /// What is the same wherever the frame is found: one for all of its copies.
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

    /// The frame called `resolved`, which was `captured`.
    init(_ resolved: ResolvedFrame, owner: CodeOwner, captured: StackFrame? = nil) {
      content = Content(resolved, captured)
      self.owner = owner
    }

    /// Which function it is.
    var identity: FunctionIdentity { content.identity }
    /// What it is called.
    var resolved: ResolvedFrame { content.resolved }
    /// What was captured; `nil` for what stands for something that was not.
    var captured: StackFrame? { content.captured }
    /// Whether it is the application's own code.
    var isApplication: Bool { owner == .own }
    /// Whether it is an entry point that somebody has written.
    var isWrittenEntryPoint: Bool { owner == .entry && CodeOwner.isWrittenEntryPoint(resolved) }
  }

  /// Outermost first.
  var frames: [Frame]
  var time: Duration
}

extension WeightedStack.Frame {
  /// What stands for frames that are left out.
  static let omission = {
    let frame = ResolvedFrame(function: "(frames that are left out)", module: "", address: .runtime(RuntimeAddress(0)))
    return WeightedStack.Frame(frame, owner: .system)
  }()
}

extension CallNode {
  /// The merged trees of `stacks`. What a stack repeats is told once.
  static func merge(_ stacks: [WeightedStack]) -> [CallNode] {
    merge(stacks.map { Folded(frames: Recursion.folded($0.frames), time: $0.time) }, from: 0)
  }

  private struct Folded {
    var frames: [(frame: WeightedStack.Frame, count: Int)]
    var time: Duration
  }

  /// A place in a function: frames of one function differ in nothing else. Names take much longer to be compared.
  private struct Place: Hashable {
    var address: CodeAddress
    var line: Int
    var column: Int

    init(_ frame: ResolvedFrame) {
      address = frame.address
      (line, column) = (frame.location?.line ?? 0, frame.location?.column ?? 0)
    }
  }

  /// The stacks that have the same function at a depth.
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

  /// The merged trees of `stacks`, each from its frame number `depth` on.
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
      // Of equal ones always the same.
      return (left.key.address.value, left.key.line, left.key.column)
        > (right.key.address.value, right.key.line, right.key.column)
    }?.value.frame
  }
}
