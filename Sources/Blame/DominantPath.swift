import StallRecord

/// The way from the outermost function down to where the stall's time went.
struct DominantPath {
  /// A stack and how much of it the path has passed.
  struct Position {
    var stack: WeightedStack
    var depth: Int

    var next: WeightedStack.Frame? { depth < stack.frames.count ? stack.frames[depth] : nil }
    var rest: ArraySlice<WeightedStack.Frame> { stack.frames[min(depth, stack.frames.count)...] }
  }

  /// The application's deepest function on the path.
  struct Culprit {
    var identity: FunctionIdentity
    /// The stacks that go through it, from the frame after it on.
    var below: [Position]
    /// What it called itself, heaviest first.
    var callees: [FunctionIdentity]
    /// The time of stacks that end in it.
    var ownTime: Duration
  }

  /// The functions on the path, outermost first.
  private(set) var steps: [FunctionIdentity] = []
  /// Those of them that are the application's own code.
  private(set) var ownSteps: [FunctionIdentity] = []
  /// The stacks that the path goes through, from its end on.
  private(set) var active: [Position]
  private(set) var culprit: Culprit?
  private let all: [Position]
  private let total: Duration

  init(_ observations: Observations) {
    all = observations.stacks.map { Position(stack: $0.stack, depth: 0) }
    active = all
    total = observations.duration
    while let step = heaviestCallee() ?? sharedFunction() { take(step) }
    // The path ends above the application's own code when there is some below its end and the end itself is not.
    if let last = lastFrame, !last.isApplication, active.contains(where: { $0.rest.contains(where: \.isApplication) }) {
      let ownBelow = Self.time(of: active.filter { $0.rest.contains(where: \.isApplication) })
      if ownBelow * 2 >= Self.time(of: active) { culprit = nil }
    }
  }

  private var lastFrame: WeightedStack.Frame?

  /// The heaviest function that comes next, if it holds at least half of the stall. When two hold exactly half each,
  /// neither is the one to blame.
  private func heaviestCallee() -> FunctionIdentity? {
    let times = Self.times(active.compactMap { position in position.next.map { ($0.identity, position.stack.time) } })
    let ranked = times.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
    guard let first = ranked.first, first.value * 2 >= total else { return nil }
    if ranked.count > 1, ranked[1].value == first.value { return nil }
    return first.key
  }

  /// A function of the application that holds more than half of the stall although it was reached by different ways, so
  /// that no single callee leads there; the outermost such function of the heaviest stack.
  private func sharedFunction() -> FunctionIdentity? {
    let times = Self.times(
      active.flatMap { position in
        Set(position.rest.filter(\.isApplication).map(\.identity)).map { ($0, position.stack.time) }
      }
    )
    let heavy = times.filter { $0.value * 2 > total }
    guard !heavy.isEmpty else { return nil }
    let heaviest = active.filter { $0.rest.contains { heavy[$0.identity] != nil } }
      .max { $0.stack.time < $1.stack.time }
    return heaviest?.rest.first { heavy[$0.identity] != nil }?.identity
  }

  private mutating func take(_ step: FunctionIdentity) {
    active = active.compactMap { position in
      guard let place = position.rest.firstIndex(where: { $0.identity == step }) else { return nil }
      // A direct callee is at the front; one that is shared by several ways may be deeper.
      lastFrame = position.stack.frames[place]
      return Position(stack: position.stack, depth: place + 1)
    }
    steps.append(step)
    guard lastFrame?.isApplication == true else { return }
    ownSteps.append(step)
    let callees = Self.times(active.compactMap { position in position.next.map { ($0.identity, position.stack.time) } })
    culprit = Culprit(
      identity: step,
      below: active,
      callees: callees.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }.map(\.key),
      ownTime: Self.time(of: active.filter { $0.next == nil })
    )
  }

  /// The stacks that do not contain the culprit.
  func beside(_ culprit: Culprit) -> [Position] {
    all.filter { position in !position.stack.frames.contains { $0.identity == culprit.identity } }
  }

  /// The application's functions that come first below the end of the path in `positions`, heaviest first.
  ///
  /// "Below the end" because functions above it have already been ruled out: they hold others' time too.
  func contenders(below positions: [Position]) -> [FunctionIdentity] {
    let passed = Set(steps)
    let times = Self.times(
      positions.compactMap { position in
        position.rest.first { $0.isApplication && !passed.contains($0.identity) }
          .map { ($0.identity, position.stack.time) }
      }
    )
    return times.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }.map(\.key)
  }

  private static func times(_ pairs: [(FunctionIdentity, Duration)]) -> [FunctionIdentity: Duration] {
    pairs.reduce(into: [:]) { $0[$1.0, default: .zero] += $1.1 }
  }

  private static func time(of positions: [Position]) -> Duration { positions.reduce(.zero) { $0 + $1.stack.time } }
}
