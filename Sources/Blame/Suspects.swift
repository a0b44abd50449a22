import CulpritStallRecord

/// The application's functions that hold time of a stall, and which of them is to blame.
///
/// Who holds more than half of the stall is a candidate, so that a function with more than half is never nobody. Of the
/// candidates that one is to blame which is the innermost of them for most of the time: the others only led there. Where an
/// algorithm of a library calls it back again and again, the caller of the algorithm is to blame: it wanted the work done. The time
/// of a comparison belongs to the sort. A framework leads to its callback. The name of the library's function decides which of the
/// two it is (``RepeatedCalls``): a decision by samples differs from run to run.
struct Suspects {
  /// In order of time.
  private let stacks: [WeightedStack]
  private let total: Duration
  /// What each function of the application holds.
  private let times: [FunctionIdentity: Duration]
  /// Those that hold enough to be blamed.
  private let candidates: Set<FunctionIdentity>

  /// Who has less of its time than this for itself and for libraries only leads to others.
  private static let ownWorkMin = 0.1
  /// A callee with more than this part of its caller's time has it alone.
  private static let partMax = 0.75

  /// - Parameters:
  ///   - stacks: What was seen, in order of time.
  ///   - total: The time that they are of.
  ///   - isHalfEnough: Whether exactly half makes a candidate. Of the threads of a pool, which are few, it does not.
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

  /// The functions that hold half of the time, while another one holds the other half: neither is the one to blame. Which of them holds
  /// a little more is chance.
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
    // Functions that lead to each other are on the same stacks.
    let groups = Dictionary(grouping: places.keys) { places[$0] ?? [] }
    return groups.filter { group in groups.keys.contains { $0.isDisjoint(with: group.key) } }.flatMap(\.value)
  }

  /// Whether `time` may as well be the other half of `total`.
  static func isNearHalf(_ time: Duration, of total: Duration) -> Bool {
    total > .zero && abs(time.inSeconds / total.inSeconds - 0.5) <= Blame.tieMargin
  }

  /// Who is to blame, `nil` when nobody holds half of the stall; and the candidate that a library called back for it, if one did.
  func culprit() -> (function: FunctionIdentity, callback: FunctionIdentity?)? {
    guard let innermost = innermostCandidate else { return nil }
    var found = innermost
    var seen: Set<FunctionIdentity> = [found]
    while let caller = whoCalledTheLibrary(thatCalled: found), seen.insert(caller).inserted { found = caller }
    return (found, found == innermost ? nil : innermost)
  }

  /// From the outermost candidate on: who is the innermost for less time than those together to which it leads is passed over.
  /// One by one, functions that call each other would have a part of their time each, and who called them would have more.
  private var innermostCandidate: FunctionIdentity? {
    // The heaviest first, which is the order in which they are passed over.
    let order = candidates.sorted { holdsLess($1, than: $0) }
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

  /// The candidate that called the algorithm of a library which called `function` back, for most of that one's time.
  private func whoCalledTheLibrary(thatCalled function: FunctionIdentity) -> FunctionIdentity? {
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
    guard let caller = Blame.heaviest(callers).first, candidates.contains(caller),
      (callers[caller] ?? .zero) * 2 > (times[function] ?? .zero)
    else { return nil }
    return caller
  }

  /// The time of `function` in which it had called no other function of the application: it or a library worked.
  private func ownWork(of function: FunctionIdentity) -> Duration {
    stacks.reduce(.zero) { sum, stack in
      guard let place = stack.frames.lastIndex(where: { $0.identity == function }),
        !stack.frames[(place + 1)...].contains(where: \.isApplication)
      else { return sum }
      return sum + stack.time
    }
  }

  /// For each stack on which `function` has called another of the application's, the place of that one.
  private func callees(of function: FunctionIdentity) -> [Int: Int] {
    var places: [Int: Int] = [:]
    for (number, stack) in stacks.enumerated() {
      guard let place = stack.frames.lastIndex(where: { $0.identity == function }) else { continue }
      places[number] = stack.frames[(place + 1)...].firstIndex(where: \.isApplication)
    }
    return places
  }

  /// The functions that `function` only hands its time to, none of which has most of it; none when it works itself. For each the
  /// innermost that has all of its time.
  func parts(of function: FunctionIdentity) -> Group {
    let held = (times[function] ?? .zero).inSeconds
    let parts = group(innermost(callees(of: function)))
    guard parts.functions.count > 1, ownWork(of: function).inSeconds < Self.ownWorkMin * held,
      let heaviest = parts.functions.first, (parts.times[heaviest] ?? .zero).inSeconds <= Self.partMax * held
    else { return Group() }
    return parts
  }

  /// Functions, and on which stacks they hold the time that is counted for them.
  struct Group {
    /// Heaviest first.
    var functions: [FunctionIdentity] = []
    var times: [FunctionIdentity: Duration] = [:]
    /// For each stack that counts the place of its function.
    var places: [Int: Int] = [:]
  }

  private func group(_ places: [Int: Int]) -> Group {
    var times: [FunctionIdentity: Duration] = [:]
    for (number, place) in places {
      times[stacks[number].frames[place].identity, default: .zero] += stacks[number].time
    }
    return Group(functions: Blame.heaviest(times), times: times, places: places)
  }

  /// The functions of the application that called `function`: on each stack the nearest above it. Where that is one function on
  /// every stack those that called that one follow, and so on, for at most so many `levels`.
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
        // A function that stands for another, a protocol's for a type's, has its name.
        places[number] = frames[..<place].lastIndex { $0.isApplication && $0.resolved.displayName != name }
      }
      let level = group(places)
      guard !level.functions.isEmpty else { break }
      found.append(level)
      guard level.functions.count == 1, places.count == callees.count else { break }
    }
    return found
  }

  /// The functions that hold the time which `culprit` does not; all of it when there is none. Each stack counts for one: the
  /// outermost of the application's that never led to the culprit, or the innermost that has all of that one's time; where all of
  /// them did, the innermost.
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

  /// For each group of `places` the innermost function that has at least so much of its time, if there is one.
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
          // A function that calls itself, or is called back, leads on from its innermost call.
          let last = frames.lastIndex { $0.identity == frames[place].identity } ?? place
          guard let next = frames[(last + 1)...].firstIndex(where: \.isApplication) else { continue }
          deeper[frames[next].identity, default: (.zero, [:])].time += stacks[number].time
          deeper[frames[next].identity]?.places[number] = next
        }
        // Only one that has all: those that another would have stay with who called both.
        guard let (_, one) = deeper.first(where: { $0.value.time == whole }) else { break }
        places.merge(one.places) { $1 }
      }
    }
    return places
  }
}

extension WeightedStack {
  /// The stack with the functions of dependencies counted as the application's.
  var withDependencies: WeightedStack {
    var stack = self
    for place in stack.frames.indices where stack.frames[place].owner == .dependency {
      stack.frames[place].owner = .own
    }
    return stack
  }

  /// The stack with its entry point counted as the application's where that calls nothing of it: what is written at the top level of
  /// `main.swift`, or a loop in `main`, works there itself.
  var withEntryPoint: WeightedStack {
    guard !frames.contains(where: { $0.owner == .own || $0.owner == .dependency }),
      let place = frames.lastIndex(where: \.isWrittenEntryPoint)
    else { return self }
    var stack = self
    stack.frames[place].owner = .own
    return stack
  }

  /// What is below the last frame of `function`, where dependencies are all that counts; `nil` without such a frame.
  func below(_ function: FunctionIdentity) -> WeightedStack? {
    guard let place = frames.lastIndex(where: { $0.identity == function }) else { return nil }
    var stack = self
    stack.frames = Array(frames[(place + 1)...])
    for place in stack.frames.indices where stack.frames[place].owner == .own { stack.frames[place].owner = .system }
    return stack.withDependencies
  }

  /// The application's functions on the stack, each once.
  fileprivate var ownFunctions: Set<FunctionIdentity> { Set(frames.lazy.filter(\.isApplication).map(\.identity)) }

  func contains(_ function: FunctionIdentity) -> Bool { frames.contains { $0.identity == function } }
}
