import StallRecord

/// The way from the outermost function down to where the stall's time went.
struct DominantPath {
  /// A stack and how much of it the path has passed.
  struct Position {
    /// The stack's number among the observations.
    var number: Int
    var stack: WeightedStack
    var depth: Int

    var next: WeightedStack.Frame? { depth < stack.frames.count ? stack.frames[depth] : nil }
    var rest: ArraySlice<WeightedStack.Frame> { stack.frames[min(depth, stack.frames.count)...] }
  }

  /// The functions on the path, outermost first.
  private(set) var steps: [FunctionIdentity] = []
  /// Those of them that are the application's own code.
  private(set) var ownSteps: [FunctionIdentity] = []
  /// The stacks that the path goes through, from its end on.
  private(set) var active: [Position]
  /// The application's deepest function on the path, if it is to blame.
  private(set) var culprit: FunctionIdentity?
  private let all: [Position]
  private let total: Duration

  init(_ observations: Observations) {
    all = observations.stacks.enumerated().map { Position(number: $0.offset, stack: $0.element.stack, depth: 0) }
    active = all
    total = observations.duration
    descend()
    // A function that is on more stacks than the culprit explains more of the stall, even where its callers divide it.
    while let better = widerFunction() {
      active = all
      take(better)
      descend()
    }
    nearestOwn = culprit
    // The path ends above the application's own code when there is some below its end and the end itself is not.
    if let last = lastFrame, !last.isApplication {
      let below = active.filter { $0.rest.contains(where: \.isApplication) }
      if !below.isEmpty, Self.time(of: below) * 2 >= Self.time(of: active) { culprit = nil }
    }
  }

  /// The application's deepest function on the path, even when it is not to blame.
  private(set) var nearestOwn: FunctionIdentity?

  private mutating func descend() {
    while let step = heaviestCallee() ?? sharedFunction() { take(step) }
  }

  /// A function of the application beside the path that holds more than half of the stall, and more than the culprit.
  private func widerFunction() -> FunctionIdentity? {
    let passed = Set(steps)
    let times = Self.times(
      all.flatMap { position in
        Set(position.stack.frames.filter { $0.isApplication && !passed.contains($0.identity) }.map(\.identity))
          .map { ($0, position.stack.time) }
      }
    )
    let held = culprit.map { time(of: $0) } ?? total / 2
    return Blame.heaviest(times).first { function in
      let time = times[function] ?? .zero
      return time * 2 > total && time > held
    }
  }

  private func time(of function: FunctionIdentity) -> Duration {
    Self.time(of: all.filter { position in position.stack.frames.contains { $0.identity == function } })
  }

  private var lastFrame: WeightedStack.Frame?

  /// The heaviest function that comes next, if it holds at least half of the stall. When two hold exactly half each,
  /// neither is the one to blame.
  private func heaviestCallee() -> FunctionIdentity? {
    let times = Self.times(active.compactMap { position in position.next.map { ($0.identity, position.stack.time) } })
    let ranked = Blame.heaviest(times)
    guard let first = ranked.first, let time = times[first], time * 2 >= total else { return nil }
    if ranked.count > 1, times[ranked[1]] == time { return nil }
    return first
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
      return Position(number: position.number, stack: position.stack, depth: place + 1)
    }
    steps.append(step)
    guard lastFrame?.isApplication == true else { return }
    ownSteps.append(step)
    culprit = step
  }

  /// The stacks that do not contain the culprit.
  func beside(_ culprit: FunctionIdentity) -> [Position] {
    all.filter { position in !position.stack.frames.contains { $0.identity == culprit } }
  }

  /// The application's functions that come first below the end of the path in `positions`, heaviest first, and for each
  /// stack that has one the place of it.
  ///
  /// "Below the end" because functions above it have already been ruled out: they hold others' time too.
  func contenders(below positions: [Position]) -> (functions: [FunctionIdentity], places: [Int: Int]) {
    let passed = Set(steps)
    var places: [Int: Int] = [:]
    var times: [FunctionIdentity: Duration] = [:]
    for position in positions {
      guard let place = position.rest.firstIndex(where: { $0.isApplication && !passed.contains($0.identity) }) else {
        continue
      }
      places[position.number] = place
      times[position.stack.frames[place].identity, default: .zero] += position.stack.time
    }
    return (Blame.heaviest(times), places)
  }

  private static func times(_ pairs: [(FunctionIdentity, Duration)]) -> [FunctionIdentity: Duration] {
    pairs.reduce(into: [:]) { $0[$1.0, default: .zero] += $1.1 }
  }

  private static func time(of positions: [Position]) -> Duration { positions.reduce(.zero) { $0 + $1.stack.time } }
}
