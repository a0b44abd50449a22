import CulpritStallRecord

/// A stall's samples with the time each stands for and names for its frames.
struct Observations {
  struct Observation {
    var stack: WeightedStack
    /// The age of the work and the thread's processor time when the sample was taken.
    var age: Duration
    var cpuTime: Duration?
    /// How long the thread had been ready by then without having a processor.
    var runDelay: Duration?
    var activity: ThreadActivity
    /// What the system call was on, if it was in one that is on any.
    var descriptor: Descriptor?
    /// Which thread, where there are several.
    var threadID: Int32?
    var end: StackEnd
    /// Whether the task was suspended, and no function of the stack is to blame for that.
    var isElsewhere: Bool
    /// The stack as it counts for blame.
    var blamed: WeightedStack { isElsewhere ? WeightedStack(frames: [], time: stack.time) : stack }
  }

  /// The samples that have a stack, those of each thread in order of time.
  private(set) var stacks: [Observation] = []
  private(set) var failures: [CaptureOutcome: Int] = [:]
  private(set) var truncations: [StackEnd: Int] = [:]
  /// How many stacks have callers that were not unwound: of an earlier stack of the same work, found at the same places, and
  /// of a stack near in time with the same functions.
  private(set) var joined = 0
  private(set) var completed = 0
  /// How many stacks have async callers that nobody knows the names of.
  private(set) var unknownCallers = 0
  /// How long the stall took.
  private(set) var duration: Duration
  /// The samples, with or without a stack, and the time that each stands for.
  let sampleTimes: [(sample: Sample, time: Duration)]
  /// For each of these where its stack is in ``stacks``; `nil` where it has none.
  private(set) var places: [Int?] = []
  /// How much of that no sample stands for, because some are missing.
  let unobserved: Duration

  init(
    stall: Stall,
    stacks recorded: [Stack],
    rules: OwnershipRules = OwnershipRules(),
    resolve: (StackFrame) -> [ResolvedFrame]
  ) {
    let samples = Self.places(of: stall, recorded).map { stall.samples[$0] }
    duration = stall.length(withSamplesUntil: samples.map(\.age).max())
    var resolved: [Int: (frames: [WeightedStack.Frame], unknown: Int)] = [:]
    var known = FrameTable()
    let times = SampleTimes(of: stall, samples, duration: duration)
    unobserved = times.unobserved
    sampleTimes = Array(zip(samples, times.all))
    var isCut: [Bool] = []
    for (sample, time) in zip(samples, times.all) {
      guard let index = sample.stack, recorded.indices.contains(index), !recorded[index].frames.isEmpty else {
        failures[sample.outcome, default: 0] += 1
        places.append(nil)
        continue
      }
      let stack = TaskStack(recorded[index])
      let (frames, unknown) = resolved[index] ?? Self.frames(of: recorded[index], stack, rules, &known, resolve)
      resolved[index] = (frames, unknown)
      let end = stack.end
      if end != .outermost { truncations[end, default: 0] += 1 }
      if recorded[index].joinedFrom != nil { joined += 1 }
      if unknown > 0 { unknownCallers += 1 }
      isCut.append(end != .outermost)
      places.append(stacks.count)
      stacks.append(
        Observation(
          stack: WeightedStack(frames: frames, time: time),
          age: min(sample.age, duration),
          cpuTime: sample.cpuTime,
          runDelay: sample.runDelay,
          activity: sample.activity,
          descriptor: sample.descriptor,
          threadID: sample.threadID,
          end: end,
          isElsewhere: sample.activity == .suspended && AwaitedElsewhere.has(frames)
        )
      )
    }
    if isCut.contains(true) {
      var weighted = stacks.map(\.stack)
      completed = CutStacks.complete(&weighted, isCut: isCut).count
      for number in weighted.indices { stacks[number].stack = weighted[number] }
    }
    passOverLockWrappers(rules)
  }

  /// The most wrappers around each other: `withLock` calls `lock`.
  private static let wrappersMax = 3
  /// A function that waits for less of its time than this is no wrapper of the call that it waits in.
  private static let waitingMin = 0.9

  /// Passes over functions of the application that are called like a lock's (`Lock.lock()`, `withLock`), and only wait in one call:
  /// their callers are to blame.
  private mutating func passOverLockWrappers(_ rules: OwnershipRules) {
    for _ in 0..<Self.wrappersMax {
      var times: [FunctionIdentity: Duration] = [:]
      var waits: [FunctionIdentity: [FunctionIdentity: Duration]] = [:]
      var names: [FunctionIdentity: Bool] = [:]
      for observation in stacks {
        let frames = observation.stack.frames
        guard let place = frames.lastIndex(where: \.isApplication) else { continue }
        let function = frames[place].identity
        let isNamed = names[function] ?? rules.isNamedLikeLock(frames[place].resolved)
        names[function] = isNamed
        guard isNamed else { continue }
        times[function, default: .zero] += observation.stack.time
        guard observation.activity.isWaiting, observation.activity != .suspended, frames.indices.contains(place + 1),
          frames[..<place].contains(where: \.isApplication)
        else { continue }
        waits[function, default: [:]][frames[place + 1].identity, default: .zero] += observation.stack.time
      }
      let wrappers = times.filter { function, time in
        let longest = waits[function]?.values.max() ?? .zero
        return longest > .zero && longest.inSeconds >= Self.waitingMin * time.inSeconds
      }
      guard !wrappers.isEmpty else { return }
      for number in stacks.indices {
        for place in stacks[number].stack.frames.indices
        where wrappers[stacks[number].stack.frames[place].identity] != nil {
          stacks[number].stack.frames[place].owner = .dependency
        }
      }
    }
  }

  /// Where the samples of `stall` are that count, those of each thread in order of time.
  static func places(of stall: Stall, _ recorded: [Stack]) -> [Int] {
    let samples = stall.samples
    let places = placesOfTasks(stall, recorded)
    func isBefore(_ left: Int, _ right: Int) -> Bool {
      (samples[left].threadID ?? 0, samples[left].age, left) < (samples[right].threadID ?? 0, samples[right].age, right)
    }
    // Nearly always they are in this order already.
    return zip(places, places.dropFirst()).allSatisfy(isBefore) ? places : places.sorted(by: isBefore)
  }

  /// All, but for those of threads that run no task while a job, or the work of a pool, is to be seen: it was over already, which is
  /// noticed late.
  private static func placesOfTasks(_ stall: Stall, _ recorded: [Stack]) -> [Int] {
    guard stall.source.kind == .job || stall.source.kind == .pool else { return Array(stall.samples.indices) }
    var kinds: [Int: TaskStack.Kind] = [:]
    for case let index? in stall.samples.map(\.stack) where kinds[index] == nil && recorded.indices.contains(index) {
      kinds[index] = TaskStack(recorded[index]).kind
    }
    guard kinds.values.contains(.task) else { return Array(stall.samples.indices) }
    return stall.samples.indices.filter { place in stall.samples[place].stack.map { kinds[$0] != .thread } ?? true }
  }

  /// The sample with a stack that was taken last.
  var last: Observation? {
    stacks.indices.max { (stacks[$0].age, $0) < (stacks[$1].age, $1) }.map { stacks[$0] }
  }

  /// What was seen of each of several threads, as if it had been all, in the order of their ids; none where there is one.
  var byThread: [(threadID: Int32, observations: Observations)] {
    Dictionary(grouping: stacks.filter { $0.threadID != nil }) { $0.threadID ?? 0 }.sorted { $0.key < $1.key }
      .map { id, stacks in
        var part = self
        part.stacks = stacks
        return (id, part.asWhole)
      }
  }

  /// Those of the samples with these numbers, as if they had been all.
  func part(_ range: Range<Int>) -> Observations {
    var part = self
    part.stacks = Array(stacks[range])
    return part.asWhole
  }

  /// The same, as if nothing but what was seen had been all.
  var asWhole: Observations {
    var whole = self
    whole.duration = stacks.reduce(.zero) { $0 + $1.stack.time }
    return whole
  }

  /// The most frames of a stack that are used: what is left out is in the midst. The observer records fewer; a file may
  /// claim more.
  private static let framesMax = 512

  /// The frames of `stack`, which is `task`, outermost first, and how many async callers have no name.
  static func frames(
    of stack: Stack,
    _ task: TaskStack,
    _ rules: OwnershipRules,
    _ known: inout FrameTable,
    _ resolve: (StackFrame) -> [ResolvedFrame]
  ) -> (frames: [WeightedStack.Frame], unknown: Int) {
    var inner = task.called
    var outer: ArraySlice<StackFrame> = []
    if let omission = stack.omission, inner.indices.contains(omission.index) {
      (inner, outer) = (inner[..<omission.index], inner[omission.index...])
    } else if inner.count > framesMax {
      (inner, outer) = (inner.prefix(framesMax / 2), inner.suffix(framesMax / 2))
    }
    let (awaiting, unknown) = task.namesOfAwaiting(resolve)
    func weighted(
      _ frames: ArraySlice<StackFrame>,
      with more: [(captured: StackFrame, names: [ResolvedFrame])] = []
    ) -> [WeightedStack.Frame] {
      let named = frames.suffix(framesMax).map { (captured: $0, names: resolve($0)) } + more
      let resolved = named.flatMap(\.names).namingMergedFunctions()
      let captured = named.flatMap { frame in frame.names.map { _ in frame.captured } }
      return placesWithoutThunks(resolved).reversed()
        .map {
          known.frame(resolved[$0], captured[$0]) { CodeOwner.owner(of: $0, rules) }
        }
    }
    guard !outer.isEmpty else {
      var frames = weighted(inner, with: awaiting)
      Deallocation.passOver(&frames)
      return (frames, unknown)
    }
    return (weighted(outer, with: awaiting) + [WeightedStack.Frame.omission] + weighted(inner), unknown)
  }

  /// Where `frames`, innermost first, are none that only lead to the function inside them, which has their name.
  private static func placesWithoutThunks(_ frames: [ResolvedFrame]) -> [Int] {
    frames.indices.filter { place in
      frames[place].kind != .thunk || place == 0 || frames[place - 1].displayName != frames[place].displayName
    }
  }

  /// What `function` took of the stall, on every stack that contains it.
  func claim(on function: FunctionIdentity) -> Claim {
    claim(on: function) { number, frames in
      stacks[number].isElsewhere ? nil : frames.lastIndex { $0.identity == function }
    }
  }

  /// What `function` took of the stall on the stacks that `places` gives a frame of it for, by their numbers.
  func claim(on function: FunctionIdentity, at places: [Int: Int]) -> Claim {
    claim(on: function) { number, frames in
      places[number].flatMap { frames[$0].identity == function ? $0 : nil }
    }
  }

  /// What `function` took of the stall on the stacks that contain it below `caller`.
  func claim(on function: FunctionIdentity, below caller: FunctionIdentity) -> Claim {
    claim(on: function) { number, frames in
      guard !stacks[number].isElsewhere, let place = frames.lastIndex(where: { $0.identity == caller }) else {
        return nil
      }
      return frames[(place + 1)...].lastIndex { $0.identity == function }
    }
  }

  /// The end of the way down `tree` along the heaviest callees that hold at least half of the stall. When two hold half each,
  /// neither is it.
  func dominant(of tree: [CallNode]) -> Claim? {
    var nodes = tree
    var last: CallNode?
    while let first = nodes.first, first.time * 2 >= duration,
      nodes.count == 1
        || !(Suspects.isNearHalf(first.time, of: duration) && Suspects.isNearHalf(nodes[1].time, of: duration))
    {
      last = first
      nodes = first.children
    }
    return last.map { FunctionIdentity($0.frame) }
      .map { function in claim(on: function) { _, frames in frames.lastIndex { $0.identity == function } } }
  }

  /// What `caller`'s own callees took of it, heaviest first, and what it spent in its own code. Each stack counts for the
  /// deepest place where it contains `caller`, so that all parts together make up its share.
  func breakdown(of caller: FunctionIdentity) -> (ownTime: Duration, callees: [Claim]) {
    var times: [FunctionIdentity: Duration] = [:]
    var ownTime = Duration.zero
    for observation in stacks where !observation.isElsewhere {
      let frames = observation.stack.frames
      guard let place = frames.lastIndex(where: { $0.identity == caller }) else { continue }
      if place + 1 < frames.count {
        times[frames[place + 1].identity, default: .zero] += observation.stack.time
      } else if observation.activity != .suspended {
        // A suspended function runs no code.
        ownTime += observation.stack.time
      }
    }
    let callees = Blame.heaviest(times).prefix(8).map { callee in
      claim(on: callee) { number, frames in
        guard !stacks[number].isElsewhere, let place = frames.lastIndex(where: { $0.identity == caller }),
          place + 1 < frames.count,
          frames[place + 1].identity == callee
        else { return nil }
        return place + 1
      }
    }
    return (ownTime, callees)
  }

  /// The claim of `function` on the stacks in which `place` finds it.
  private func claim(on function: FunctionIdentity, _ place: (Int, [WeightedStack.Frame]) -> Int?) -> Claim {
    var places: [ResolvedFrame: Duration] = [:]
    var time = Duration.zero
    var count = 0
    for (number, observation) in stacks.enumerated() {
      guard let place = place(number, observation.stack.frames) else { continue }
      time += observation.stack.time
      count += 1
      places[observation.stack.frames[place].resolved, default: .zero] += observation.stack.time
    }
    // A place with a line is preferred.
    let heaviest = places.max { one, other in
      let (isPlaced, isOtherPlaced) = (one.key.location != nil, other.key.location != nil)
      if isPlaced != isOtherPlaced { return isOtherPlaced }
      return one.value != other.value ? one.value < other.value : one.key.address.value > other.key.address.value
    }?.key
    return Claim(
      frame: heaviest
        ?? ResolvedFrame(function: function.name, module: function.module, address: .file(FileAddress(0))),
      share: share(of: time),
      sampleCount: count,
      processorUse: processorUse { place($0, $1) != nil },
      waiting: waiting { place($0, $1) != nil }
    )
  }

  /// How many of the samples whose stacks satisfy `condition` found the thread waiting, and in which system call most did.
  private func waiting(where condition: (Int, [WeightedStack.Frame]) -> Bool) -> Waiting? {
    var known = 0
    var waiting = 0
    var calls: [Int32: Int] = [:]
    var areRestarted = false
    var suspended = 0
    for (number, observation) in stacks.enumerated()
    where observation.activity != .unknown && condition(number, observation.stack.frames) {
      known += 1
      if observation.activity.isWaiting { waiting += 1 }
      switch observation.activity {
      case .suspended: suspended += 1
      case .inSystemCall(let call): calls[call, default: 0] += 1
      case .inRestartedCall(let call):
        areRestarted = true
        if let call { calls[call, default: 0] += 1 }
      default: break
      }
    }
    let most = calls.max { $0.value != $1.value ? $0.value < $1.value : $0.key > $1.key }?.key
    guard known > 0 else { return nil }
    var found = Waiting(samples: waiting, of: known, systemCall: most, isRestarted: areRestarted, suspended: suspended)
    found.descriptor = descriptor(of: most, where: condition)
    return found
  }

  /// What most of the samples that found the system call `call` found it on; of several that are the same but for their counts
  /// the last one.
  private func descriptor(of call: Int32?, where condition: (Int, [WeightedStack.Frame]) -> Bool) -> Descriptor? {
    var counts: [Descriptor: (count: Int, last: Descriptor)] = [:]
    var samples = 0
    for (number, observation) in stacks.enumerated()
    where observation.activity == call.map(ThreadActivity.inSystemCall) && condition(number, observation.stack.frames) {
      samples += 1
      guard let found = observation.descriptor else { continue }
      let key = Descriptor(number: found.number, target: found.target, isCut: found.isCut)
      let known = counts[key]
      // What a socket is connected to is not found out each time.
      counts[key] = ((known?.count ?? 0) + 1, found.address.isEmpty ? known?.last ?? found : found)
    }
    guard let most = counts.values.max(by: { $0.count < $1.count }), 2 * most.count > samples else { return nil }
    return most.last
  }

  /// `time` as a part of the stall.
  func share(of time: Duration) -> Share {
    Share(time: time, of: duration, weights: stacks.map { $0.stack.time.inSeconds })
  }

  /// How the thread spent the time between neighbouring samples whose stacks both satisfy `condition`.
  func processorUse(where condition: (Int, [WeightedStack.Frame]) -> Bool) -> ProcessorUse? {
    let counts = stacks.map { ProcessorUse.Count(age: $0.age, used: $0.cpuTime, delayed: $0.runDelay) }
    return ProcessorUse(counts) { condition($0, stacks[$0].stack.frames) }
  }

  /// Why there is no stack at all.
  var failureText: String {
    guard let (outcome, _) = failures.max(by: { $0.value < $1.value }) else { return "no sample was taken" }
    return outcome == .captured ? "the stacks are lost" : outcome.explanation
  }
}
