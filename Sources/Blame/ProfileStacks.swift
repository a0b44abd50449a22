import CulpritStallRecord

/// The distinct stacks of a recording, and the distinct frames that they are made of: what profiles refer to.
///
/// Frames are those of reports: with the names that callers know of merged functions, without thunks, with async callers. What was
/// not captured has a frame of its own that says so, in parentheses.
package final class ProfileStacks {
  /// A place in a function.
  package struct Frame: Hashable, Sendable {
    /// The number of the function; the same for each place in it.
    package var function: Int
    /// What it is called, and where it is.
    package var resolved: ResolvedFrame
    /// Whose code it is.
    package var owner: CodeOwner
    /// The address that was captured; `nil` for what stands for something that was not. Of several frames with the same one, those
    /// after the first were inlined into it.
    package var captured: StackFrame?
  }

  /// Every frame.
  package private(set) var frames: [Frame] = []
  /// Every stack, outermost first, as places in ``frames``.
  package private(set) var stacks: [[Int]] = []

  /// What stacks were recorded.
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
  /// Of each recorded stack, where it is here and whether callers are missing.
  private var known: [(place: Int, isCut: Bool)?]
  private var texts: [String: Int] = [:]
  private var matches: [Pair: CutStacks.Match?] = [:]

  private struct Pair: Hashable {
    var one: Int
    var other: Int
  }

  /// The stacks of `recording`.
  ///
  /// - Parameters:
  ///   - recording: What was observed.
  ///   - rules: What counts as the application's own code.
  ///   - isRaw: Whether frames are as they were captured, without names.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
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

  /// The stack that was recorded as number `index`, and whether callers are missing; `nil` when there is none, or nothing is on it.
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

  /// Whether something was captured of the stack at `place`, and it does not only say what was not.
  package func isCaptured(_ place: Int) -> Bool { stacks[place].contains { frames[$0].captured != nil } }

  /// A stack of nothing but a frame called `text`.
  func stack(saying text: String) -> Int { placeOfStack([frame(saying: text)]) }

  /// The stack at `place` with the first `count` frames of the one at `other` for callers.
  func stack(_ place: Int, calledBy count: Int, of other: Int) -> Int {
    placeOfStack(stacks[other][..<count] + stacks[place])
  }

  /// The stack at `place`, of which callers are missing that nobody knows.
  func stack(withoutCallers place: Int) -> Int {
    placeOfStack([frame(saying: "(callers are missing)")] + stacks[place])
  }

  /// Whether the stack at `place`, which is cut, may be called as the one at `other` is.
  func match(_ place: Int, in other: Int) -> CutStacks.Match? {
    // Names alone tell which functions are the same.
    guard !isRaw else { return nil }
    let pair = Pair(one: place, other: other)
    if let known = matches[pair] { return known }
    let match = CutStacks.match(stacks[place], in: stacks[other]) { frames[$0].function }
    matches[pair] = .some(match)
    return match
  }

  /// The threads of `all` that have a stack, as a place in ``stacks``.
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

  /// The frames as they were captured, outermost first; what they are called is whatever the reader finds out.
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
    // The same function may be inlined twice at an address, and a merged one be called by several names.
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
  /// Whether it marks where a task begins, and is no code that anybody called.
  fileprivate var isTaskMark: Bool {
    switch self {
    case .taskStart, .childStart, .taskLost: true
    case .programCounter, .returnAddress, .asyncCaller: false
    }
  }
}
