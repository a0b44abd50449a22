import CulpritStallRecord

struct Observations {
  struct Observation {
    var stack: WeightedStack
    var age: Duration
    var cpuTime: Duration?
    var runDelay: Duration?
    var activity: ThreadActivity
    var descriptor: Descriptor?
    var threadID: Int32?
    var end: StackEnd
    /// Whether the task was suspended and no function is to blame.
    var isElsewhere: Bool
    var blamed: WeightedStack { isElsewhere ? WeightedStack(frames: [], time: stack.time) : stack }
  }

  /// The samples with a stack. Samples of one thread are in order of time.
  private(set) var stacks: [Observation] = []
  private(set) var failures: [CaptureOutcome: Int] = [:]
  private(set) var truncations: [StackEnd: Int] = [:]
  /// Number of stacks with outer frames from an earlier stack of the work at equal stack addresses.
  private(set) var joined = 0
  /// Number of stacks completed from a stack near in time with equal functions.
  private(set) var completed = 0
  private(set) var unknownCallers = 0
  private(set) var duration: Duration
  let sampleTimes: [(sample: Sample, time: Duration)]
  /// The index in ``stacks`` of each sample; `nil` without a stack.
  private(set) var places: [Int?] = []
  /// The part of the stall that belongs to no sample.
  let unobserved: Duration
  let rules: OwnershipRules
  let architecture: String

  init(
    stall: Stall,
    stacks recorded: [Stack],
    rules: OwnershipRules = OwnershipRules(),
    architecture: String = "",
    resolve: (StackFrame) -> [ResolvedFrame]
  ) {
    (self.rules, self.architecture) = (rules, architecture)
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
    skipLockWrappers(rules)
  }

  private static let wrappersMax = 3
  private static let waitingMin = 0.9

  /// Excludes application functions named like a locking function (`Lock.lock()`, `withLock`) that only wait in one
  /// call.
  private mutating func skipLockWrappers(_ rules: OwnershipRules) {
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

  static func places(of stall: Stall, _ recorded: [Stack]) -> [Int] {
    let samples = stall.samples
    let places = placesOfTasks(stall, recorded)
    func isBefore(_ left: Int, _ right: Int) -> Bool {
      (samples[left].threadID ?? 0, samples[left].age, left) < (samples[right].threadID ?? 0, samples[right].age, right)
    }
    return zip(places, places.dropFirst()).allSatisfy(isBefore) ? places : places.ordered(by: isBefore)
  }

  /// Returns the indices of all samples. For jobs and pools with samples of tasks, omits threads without a task: they
  /// have finished the job, but the watchdog noticed the end late.
  private static func placesOfTasks(_ stall: Stall, _ recorded: [Stack]) -> [Int] {
    guard stall.source.kind == .job || stall.source.kind == .pool else { return Array(stall.samples.indices) }
    var kinds: [Int: TaskStack.Kind] = [:]
    for case let index? in stall.samples.map(\.stack) where kinds[index] == nil && recorded.indices.contains(index) {
      kinds[index] = TaskStack(recorded[index]).kind
    }
    guard kinds.values.contains(.task) else { return Array(stall.samples.indices) }
    return stall.samples.indices.filter { place in stall.samples[place].stack.map { kinds[$0] != .thread } ?? true }
  }

  var last: Observation? {
    stacks.indices.max { (stacks[$0].age, $0) < (stacks[$1].age, $1) }.map { stacks[$0] }
  }

  var byThread: [(threadID: Int32, observations: Observations)] {
    Dictionary(grouping: stacks.filter { $0.threadID != nil }) { $0.threadID ?? 0 }.ordered { $0.key < $1.key }
      .map { id, stacks in
        var part = self
        part.stacks = stacks
        return (id, part.asWhole)
      }
  }

  func part(_ range: Range<Int>) -> Observations {
    var part = self
    part.stacks = Array(stacks[range])
    return part.asWhole
  }

  var asWhole: Observations {
    var whole = self
    whole.duration = stacks.reduce(.zero) { $0 + $1.stack.time }
    return whole
  }

  /// Maximum number of frames of a stack. A file can contain more than the observer records.
  private static let framesMax = 512

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
      Deallocation.skipDeinitializers(&frames)
      return (frames, unknown)
    }
    return (weighted(outer, with: awaiting) + [WeightedStack.Frame.omission] + weighted(inner), unknown)
  }

  /// Returns the indices of `frames`, innermost first. Omits thunks that call a function of equal name.
  private static func placesWithoutThunks(_ frames: [ResolvedFrame]) -> [Int] {
    frames.indices.filter { place in
      frames[place].kind != .thunk || place == 0 || frames[place - 1].displayName != frames[place].displayName
    }
  }

  func claim(on function: FunctionIdentity) -> StallReport.Finding {
    claim(on: function) { number, frames in
      stacks[number].isElsewhere ? nil : frames.lastIndex { $0.identity == function }
    }
  }

  func claim(on function: FunctionIdentity, at places: [Int: Int]) -> StallReport.Finding {
    claim(on: function) { number, frames in
      places[number].flatMap { frames[$0].identity == function ? $0 : nil }
    }
  }

  func claim(on function: FunctionIdentity, below caller: FunctionIdentity) -> StallReport.Finding {
    claim(on: function) { number, frames in
      guard !stacks[number].isElsewhere, let place = frames.lastIndex(where: { $0.identity == caller }) else {
        return nil
      }
      return frames[(place + 1)...].lastIndex { $0.identity == function }
    }
  }

  /// Returns the last function on the path of heaviest callees that each hold at least half of the stall. The path ends
  /// at a tie of two callees.
  func dominant(of tree: [StallReport.Node]) -> StallReport.Finding? {
    // The times of nodes are rounded down to nanoseconds.
    func isHalf(_ node: StallReport.Node) -> Bool { (node.time + .nanoseconds(1)) * 2 > duration }
    var nodes = tree
    var last: StallReport.Node?
    while let first = nodes.first, isHalf(first),
      nodes.count == 1
        || !(Suspects.isNearHalf(first.time, of: duration) && Suspects.isNearHalf(nodes[1].time, of: duration))
    {
      last = first
      nodes = first.children
    }
    return last?.function.content.value
      .map { content in
        claim(on: content.identity) { _, frames in frames.lastIndex { $0.identity == content.identity } }
      }
  }

  /// Returns the self time of `caller`, and its callees, heaviest first.
  func breakdown(of caller: FunctionIdentity) -> (ownTime: Duration, callees: [StallReport.Finding]) {
    var times: [FunctionIdentity: Duration] = [:]
    var ownTime = Duration.zero
    for observation in stacks where !observation.isElsewhere {
      let frames = observation.stack.frames
      guard let place = frames.lastIndex(where: { $0.identity == caller }) else { continue }
      if place + 1 < frames.count {
        times[frames[place + 1].identity, default: .zero] += observation.stack.time
      } else if observation.activity != .suspended {
        ownTime += observation.stack.time
      }
    }
    let callees = Suspects.heaviest(times).prefix(8).map { callee in
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

  private func claim(
    on function: FunctionIdentity,
    _ place: (Int, [WeightedStack.Frame]) -> Int?
  ) -> StallReport.Finding {
    var places = PlaceTimes()
    var time = Duration.zero
    var count = 0
    for (number, observation) in stacks.enumerated() {
      guard let place = place(number, observation.stack.frames) else { continue }
      time += observation.stack.time
      count += 1
      places.add(observation.stack.frames[place], observation.stack.time)
    }
    let unknown = ResolvedFrame(function: function.name, module: function.module, address: .file(FileAddress(0)))
    let share = share(of: time)
    return StallReport.Finding(
      function: StallReport.Function(places.heaviest(withLine: true) ?? FrameContent(unknown), rules),
      share: share.fraction,
      shareLow: share.low,
      shareHigh: share.high,
      seconds: Seconds(share.time),
      sampleCount: count,
      cpuUse: cpuUse { place($0, $1) != nil },
      waiting: waiting { place($0, $1) != nil }
    )
  }

  private func waiting(where condition: (Int, [WeightedStack.Frame]) -> Bool) -> StallReport.Waiting? {
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
    return StallReport.Waiting(
      samples: waiting,
      of: known,
      systemCall: SystemCallText.of(most, isRestarted: areRestarted, architecture: architecture),
      target: descriptor(of: most, where: condition).flatMap(DescriptorText.of),
      suspended: suspended
    )
  }

  /// Returns the descriptor in most samples with the system call `call`.
  private func descriptor(of call: Int32?, where condition: (Int, [WeightedStack.Frame]) -> Bool) -> Descriptor? {
    var counts: [Descriptor: (count: Int, last: Descriptor)] = [:]
    var samples = 0
    for (number, observation) in stacks.enumerated()
    where observation.activity == call.map(ThreadActivity.inSystemCall) && condition(number, observation.stack.frames) {
      samples += 1
      guard let found = observation.descriptor else { continue }
      let key = Descriptor(number: found.number, target: found.target, isCut: found.isCut)
      let known = counts[key]
      // Samples can lack the peer of a socket.
      counts[key] = ((known?.count ?? 0) + 1, found.address.isEmpty ? known?.last ?? found : found)
    }
    guard let most = counts.values.max(by: { $0.count < $1.count }), 2 * most.count > samples else { return nil }
    return most.last
  }

  var culprit: StallReport.Finding? {
    Suspects(stacks.map(\.stack), total: duration).culprit().map { claim(on: $0.function) }
  }

  func share(of time: Duration) -> Share {
    Share(time: time, of: duration, weights: stacks.map { $0.stack.time.inSeconds })
  }

  func cpuUse(where condition: (Int, [WeightedStack.Frame]) -> Bool) -> StallReport.CPUUse? {
    let counts = stacks.map { StallReport.CPUUse.Count(age: $0.age, used: $0.cpuTime, delayed: $0.runDelay) }
    return StallReport.CPUUse(counts) { condition($0, stacks[$0].stack.frames) }
  }

  var failureText: String {
    guard let (outcome, _) = failures.max(by: { $0.value < $1.value }) else { return "no sample was taken" }
    return outcome == .captured ? "the stacks are lost" : outcome.explanation
  }
}
