import CulpritStallRecord

/// The distinct stacks and frames of a recording, referenced by profiles. Reports have equal frames. A placeholder
/// frame with a text in parentheses represents missing data.
package final class ProfileStacks {
  package struct Frame: Hashable, Sendable {
    package var function: Int
    package var resolved: ResolvedFrame
    package var owner: CodeOwner
    /// The captured address; `nil` for a placeholder. The first of several frames with one address contains the others
    /// as inlined functions.
    package var captured: StackFrame?
  }

  package private(set) var frames: [Frame] = []
  /// All stacks, outermost first, as indices of ``frames``.
  package private(set) var stacks: [[Int]] = []

  let recorded: [Stack]
  private let rules: OwnershipRules
  let resolve: (StackFrame) -> [ResolvedFrame]
  private let isRaw: Bool

  private var named = FrameTable()

  private struct FrameKey: Hashable {
    var captured: StackFrame?
    var function: FunctionIdentity
  }

  private var functions: [FunctionIdentity: Int] = [:]
  private var placesOfFrames: [FrameKey: [Int]] = [:]
  private var placesOfStacks: [[Int]: Int] = [:]
  private var known: [(place: Int, isCut: Bool)?]
  private var texts: [String: Int] = [:]
  private var matches: [Pair: CutStacks.Match?] = [:]

  private struct Pair: Hashable {
    var one: Int
    var other: Int
  }

  package init(
    _ recording: Recording,
    rules: OwnershipRules = OwnershipRules(),
    isRaw: Bool = false,
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    recorded = recording.stacks
    known = [(place: Int, isCut: Bool)?](repeating: nil, count: recording.stacks.count)
    self.rules = rules
    self.isRaw = isRaw
    self.resolve = resolve
  }

  /// Returns the place of the recorded stack `index`, and whether callers are missing; `nil` for a missing or empty
  /// stack.
  func stack(recorded index: Int?) -> (place: Int, isCut: Bool)? {
    guard let index, recorded.indices.contains(index), !recorded[index].frames.isEmpty else { return nil }
    if let known = known[index] { return known }
    let stack = TaskStack(recorded[index])
    let place = placeOfStack(
      isRaw ? rawFrames(recorded[index]) : namedFrames(recorded[index], stack)
    )
    let found = (place, stack.end != .outermost)
    known[index] = found
    return found
  }

  package func isCaptured(_ place: Int) -> Bool { stacks[place].contains { frames[$0].captured != nil } }

  func stack(saying text: String) -> Int { placeOfStack([frame(saying: text)]) }

  /// Returns the stack at `place` with the first `count` frames of the stack at `other` as callers.
  func stack(_ place: Int, calledBy count: Int, of other: Int) -> Int {
    placeOfStack(stacks[other][..<count] + stacks[place])
  }

  func stack(withoutCallers place: Int) -> Int {
    placeOfStack([frame(saying: "(callers are missing)")] + stacks[place])
  }

  func match(_ place: Int, in other: Int) -> CutStacks.Match? {
    // Raw frames cannot be compared by name.
    guard !isRaw else { return nil }
    let pair = Pair(one: place, other: other)
    if let known = matches[pair] { return known }
    let match = CutStacks.match(stacks[place], in: stacks[other]) { frames[$0].function }
    matches[pair] = .some(match)
    return match
  }

  package func threads(of all: AllThreads) -> [(thread: ThreadSample, stack: Int)] {
    all.threads.compactMap { thread in
      guard let (place, isCut) = stack(recorded: thread.stack) else { return nil }
      return (thread, isCut ? stack(withoutCallers: place) : place)
    }
  }

  private func namedFrames(_ stack: Stack, _ task: TaskStack) -> [Int] {
    Observations.frames(of: stack, task, rules, &named, resolve).frames.map { frame in
      place(of: frame.resolved, frame.identity, frame.owner, frame.captured)
    }
  }

  private func rawFrames(_ stack: Stack) -> [Int] {
    stack.frames.filter { !$0.kind.isTaskMark }.reversed()
      .map { captured in
        let resolved = ResolvedFrame(function: nil, module: "", address: .runtime(captured.lookupAddress))
        return place(of: resolved, FunctionIdentity(resolved), .system, captured)
      }
  }

  private func frame(saying text: String) -> Int {
    if let place = texts[text] { return place }
    let resolved = ResolvedFrame(function: text, module: "", address: .runtime(RuntimeAddress(0)))
    let place = place(of: resolved, FunctionIdentity(resolved), .system, nil)
    texts[text] = place
    return place
  }

  private func place(
    of resolved: ResolvedFrame,
    _ identity: FunctionIdentity,
    _ owner: CodeOwner,
    _ captured: StackFrame?
  ) -> Int {
    let key = FrameKey(captured: captured, function: identity)
    // A function can be inlined twice at one address, and a merged function can have several names.
    for place in placesOfFrames[key] ?? [] where frames[place].resolved == resolved && frames[place].owner == owner {
      return place
    }
    let function = functions[identity] ?? functions.count
    functions[identity] = function
    frames.append(Frame(function: function, resolved: resolved, owner: owner, captured: captured))
    placesOfFrames[key, default: []].append(frames.count - 1)
    return frames.count - 1
  }

  private func placeOfStack(_ frames: some Sequence<Int>) -> Int {
    let stack = Array(frames)
    if let place = placesOfStacks[stack] { return place }
    stacks.append(stack)
    placesOfStacks[stack] = stacks.count - 1
    return stacks.count - 1
  }
}

extension FrameKind {
  /// Whether the frame only marks the start of a task and is not a caller.
  fileprivate var isTaskMark: Bool {
    switch self {
    case .taskStart, .childStart, .taskLost: true
    case .programCounter, .returnAddress, .asyncCaller: false
    }
  }
}
