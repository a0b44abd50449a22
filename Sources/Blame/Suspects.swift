import CulpritStallRecord

/// Determines which application function is to blame.
///
/// Each function that holds at least half of the stall is a candidate. The candidate that is innermost for most of the
/// time is the culprit; the others only lead to it. If a library algorithm calls the candidate repeatedly, the
/// algorithm's caller is to blame: the time of a comparison belongs to the sort. The callback of a framework is itself
/// to blame. The name of the library function decides (``RepeatedCalls``), because a decision by samples would vary
/// between runs.
package struct Suspects {
  private let stacks: [WeightedStack]
  private let total: Duration
  private let times: [FunctionIdentity: Duration]
  private let candidates: Set<FunctionIdentity>

  /// Differences from half of the stall below this share are noise.
  package static let tieMargin = 0.01
  static let claimsMax = 8
  static let callersMax = 3
  /// Minimum share of a function's own work. Below this share, the function only leads to others.
  private static let ownWorkMin = 0.1
  /// Maximum share of the heaviest part among several.
  private static let partMax = 0.75

  /// `isHalfEnough` is whether a function with exactly half of the time is a candidate. It is false for pools, where
  /// two threads can hold half each.
  init(_ stacks: [WeightedStack], total: Duration, isHalfEnough: Bool = true) {
    self.stacks = stacks
    self.total = total
    var times: [FunctionIdentity: Duration] = [:]
    for stack in stacks { for function in stack.ownFunctions { times[function, default: .zero] += stack.time } }
    self.times = times
    let halves = times.filter { $0.value * 2 == total }.map(\.key)
    candidates = Set(times.filter { $0.value * 2 >= total && $0.value > .zero }.map(\.key))
      .subtracting(Self.rivals(times, stacks, total)).subtracting(isHalfEnough ? [] : halves)
  }

  /// Returns functions that hold half of the time each. Their difference is noise, so none is to blame.
  private static func rivals(
    _ times: [FunctionIdentity: Duration],
    _ stacks: [WeightedStack],
    _ total: Duration
  ) -> [FunctionIdentity] {
    let near = times.filter { isNearHalf($0.value, of: total) }
    guard near.count > 1 else { return [] }
    var places: [FunctionIdentity: Set<Int>] = [:]
    for (number, stack) in stacks.enumerated() {
      for function in stack.ownFunctions where near[function] != nil { places[function, default: []].insert(number) }
    }
    // Functions on the same stacks lead to each other.
    let groups = Dictionary(grouping: places.keys) { places[$0] ?? [] }
    return groups.filter { group in groups.keys.contains { $0.isDisjoint(with: group.key) } }.flatMap(\.value)
  }

  static func heaviest(_ times: [FunctionIdentity: Duration]) -> [FunctionIdentity] {
    times.ordered { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }.map(\.key)
  }

  static func isNearHalf(_ time: Duration, of total: Duration) -> Bool {
    total > .zero && abs(time.inSeconds / total.inSeconds - 0.5) <= tieMargin
  }

  func culprit() -> (function: FunctionIdentity, callback: FunctionIdentity?)? {
    guard let innermost = innermostCandidate else { return nil }
    var found = innermost
    var seen: Set<FunctionIdentity> = [found]
    while let caller = callerOfLibrary(thatCalled: found), seen.insert(caller).inserted { found = caller }
    return (found, found == innermost ? nil : innermost)
  }

  /// The culprit, ignoring callbacks: the outermost candidate that is innermost for more time than all candidates to
  /// which it leads together. Separate comparisons would favor the caller of functions that call each other.
  private var innermostCandidate: FunctionIdentity? {
    let order = candidates.ordered { holdsLess($1, than: $0) }
    guard order.count > 1 else { return order.first }
    let numbers = Dictionary(uniqueKeysWithValues: zip(order, order.indices))
    let chains = stacks.map { stack in
      (candidates: stack.frames.compactMap { numbers[$0.identity] }, time: stack.time)
    }
    for outermost in order.indices.dropLast() {
      var times = [Duration](repeating: .zero, count: order.count)
      var led: Set<Int> = []
      for chain in chains {
        guard let last = chain.candidates.last(where: { $0 >= outermost }) else { continue }
        times[last] += chain.time
        if last != outermost, chain.candidates.contains(outermost) { led.insert(last) }
      }
      if led.reduce(Duration.zero, { $0 + times[$1] }) < times[outermost] { return order[outermost] }
    }
    return order.last
  }

  private func holdsLess(_ one: FunctionIdentity, than other: FunctionIdentity) -> Bool {
    let (left, right) = (times[one] ?? .zero, times[other] ?? .zero)
    return left != right ? left < right : one < other
  }

  /// Returns the candidate whose call of a library algorithm led to `function` for most of its time.
  private func callerOfLibrary(thatCalled function: FunctionIdentity) -> FunctionIdentity? {
    var callers: [FunctionIdentity: Duration] = [:]
    var repeats: [FunctionIdentity: Bool] = [:]
    func isRepeating(_ frame: WeightedStack.Frame) -> Bool {
      if let known = repeats[frame.identity] { return known }
      let found = RepeatedCalls.areMade(by: frame.resolved)
      repeats[frame.identity] = found
      return found
    }
    for stack in stacks {
      guard let place = stack.frames.firstIndex(where: { $0.identity == function }),
        let caller = stack.frames[..<place].lastIndex(where: \.isApplication),
        stack.frames[(caller + 1)..<place].contains(where: isRepeating)
      else { continue }
      callers[stack.frames[caller].identity, default: .zero] += stack.time
    }
    guard let caller = Self.heaviest(callers).first, candidates.contains(caller),
      (callers[caller] ?? .zero) * 2 > (times[function] ?? .zero)
    else { return nil }
    return caller
  }

  /// Returns the time in which `function` itself or a library works: no application function is below it.
  private func ownWork(of function: FunctionIdentity) -> Duration {
    stacks.reduce(.zero) { sum, stack in
      guard let place = stack.frames.lastIndex(where: { $0.identity == function }),
        !stack.frames[(place + 1)...].contains(where: \.isApplication)
      else { return sum }
      return sum + stack.time
    }
  }

  private func callees(of function: FunctionIdentity) -> [Int: Int] {
    var places: [Int: Int] = [:]
    for (number, stack) in stacks.enumerated() {
      guard let place = stack.frames.lastIndex(where: { $0.identity == function }) else { continue }
      places[number] = stack.frames[(place + 1)...].firstIndex(where: \.isApplication)
    }
    return places
  }

  /// Returns the functions among which `function` divides its time. Empty if one part has most of the time, or if
  /// `function` itself works. The innermost function with all of a part's time represents the part.
  func parts(of function: FunctionIdentity) -> Group {
    let held = (times[function] ?? .zero).inSeconds
    let parts = group(innermost(callees(of: function)))
    guard parts.functions.count > 1, ownWork(of: function).inSeconds < Self.ownWorkMin * held,
      let heaviest = parts.functions.first, (parts.times[heaviest] ?? .zero).inSeconds <= Self.partMax * held
    else { return Group() }
    return parts
  }

  struct Group {
    var functions: [FunctionIdentity] = []
    var times: [FunctionIdentity: Duration] = [:]
    var places: [Int: Int] = [:]
  }

  private func group(_ places: [Int: Int]) -> Group {
    var times: [FunctionIdentity: Duration] = [:]
    for (number, place) in places {
      times[stacks[number].frames[place].identity, default: .zero] += stacks[number].time
    }
    return Group(functions: Self.heaviest(times), times: times, places: places)
  }

  /// Returns the nearest application callers of `function`, then their callers, up to `levels`. Stops after a level
  /// with several functions, or without a caller on some stacks.
  func callers(of function: FunctionIdentity, levels: Int) -> [Group] {
    var places: [Int: Int] = [:]
    for (number, stack) in stacks.enumerated() { places[number] = stack.frames.firstIndex { $0.identity == function } }
    var found: [Group] = []
    while found.count < levels {
      let callees = places
      places = [:]
      for (number, place) in callees {
        let frames = stacks[number].frames
        let name = frames[place].resolved.displayName
        // Skips functions of equal name that only forward calls, such as witnesses.
        places[number] = frames[..<place].lastIndex { $0.isApplication && $0.resolved.displayName != name }
      }
      let level = group(places)
      guard !level.functions.isEmpty else { break }
      found.append(level)
      guard level.functions.count == 1, places.count == callees.count else { break }
    }
    return found
  }

  /// Returns the functions that hold the time outside `culprit`. Each stack counts for its outermost application
  /// function that never led to the culprit, or else for its innermost application function. A callee with all of a
  /// function's time replaces the function.
  func contenders(beside culprit: FunctionIdentity?) -> Group {
    var passed: Set<FunctionIdentity> = []
    if let culprit {
      for stack in stacks {
        guard let place = stack.frames.lastIndex(where: { $0.identity == culprit }) else { continue }
        passed.formUnion(stack.frames[...place].lazy.filter(\.isApplication).map(\.identity))
      }
    }
    var places: [Int: Int] = [:]
    for (number, stack) in stacks.enumerated() {
      if let culprit, stack.contains(culprit) { continue }
      places[number] =
        stack.frames.firstIndex { $0.isApplication && !passed.contains($0.identity) }
        ?? stack.frames.lastIndex(where: \.isApplication)
    }
    return group(innermost(places))
  }

  private func innermost(_ places: [Int: Int]) -> [Int: Int] {
    var places = places
    let groups = Dictionary(grouping: places.keys) { stacks[$0].frames[places[$0] ?? 0].identity }
    for numbers in groups.values {
      while true {
        let whole = numbers.reduce(Duration.zero) { $0 + stacks[$1].time }
        var deeper: [FunctionIdentity: (time: Duration, places: [Int: Int])] = [:]
        for number in numbers {
          guard let place = places[number] else { continue }
          let frames = stacks[number].frames
          // In recursion, the search continues at the innermost call.
          let last = frames.lastIndex { $0.identity == frames[place].identity } ?? place
          guard let next = frames[(last + 1)...].firstIndex(where: \.isApplication) else { continue }
          deeper[frames[next].identity, default: (.zero, [:])].time += stacks[number].time
          deeper[frames[next].identity]?.places[number] = next
        }
        // Only a function with all of the time replaces its caller.
        guard let (_, one) = deeper.first(where: { $0.value.time == whole }) else { break }
        places.merge(one.places) { $1 }
      }
    }
    return places
  }
}

extension WeightedStack {
  var withDependencies: WeightedStack {
    var stack = self
    for place in stack.frames.indices where stack.frames[place].owner == .dependency {
      stack.frames[place].owner = .own
    }
    return stack
  }

  /// The stack with its entry point counted as the application's, if it has no application code. Examples are the top
  /// level of `main.swift`, and a loop in `main`.
  var withEntryPoint: WeightedStack {
    guard !frames.contains(where: { $0.owner == .own || $0.owner == .dependency }),
      let place = frames.lastIndex(where: \.isWrittenEntryPoint)
    else { return self }
    var stack = self
    stack.frames[place].owner = .own
    return stack
  }

  func below(_ function: FunctionIdentity) -> WeightedStack? {
    guard let place = frames.lastIndex(where: { $0.identity == function }) else { return nil }
    var stack = self
    stack.frames = Array(frames[(place + 1)...])
    for place in stack.frames.indices where stack.frames[place].owner == .own { stack.frames[place].owner = .system }
    return stack.withDependencies
  }

  fileprivate var ownFunctions: Set<FunctionIdentity> { Set(frames.lazy.filter(\.isApplication).map(\.identity)) }

  func contains(_ function: FunctionIdentity) -> Bool { frames.contains { $0.identity == function } }
}
