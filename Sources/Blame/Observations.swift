import StallRecord

/// A stall's samples with the time each stands for and names for its frames.
struct Observations {
  struct Observation {
    var stack: WeightedStack
    /// The age of the work and the thread's processor time when the sample was taken.
    var age: Duration
    var cpuTime: Duration?
  }

  /// The samples that have a stack, in order of time.
  private(set) var stacks: [Observation] = []
  private(set) var failures: [CaptureOutcome: Int] = [:]
  private(set) var truncations: [StackEnd: Int] = [:]
  private(set) var lastEnd = StackEnd.notCaptured
  /// How long the stall took.
  let duration: Duration

  init(stall: Stall, stacks recorded: [Stack], resolve: (StackFrame) -> [ResolvedFrame]) {
    let samples = stall.samples.sorted { $0.age < $1.age }
    duration = max(stall.duration, samples.last?.age ?? .zero)
    var resolved: [Int: [WeightedStack.Frame]] = [:]
    for (sample, time) in zip(samples, Self.times(of: samples, duration: duration)) {
      guard let index = sample.stack, recorded.indices.contains(index), !recorded[index].frames.isEmpty else {
        failures[sample.outcome, default: 0] += 1
        continue
      }
      let frames = resolved[index] ?? Self.frames(of: recorded[index], resolve)
      resolved[index] = frames
      lastEnd = recorded[index].end
      if lastEnd != .outermost { truncations[lastEnd, default: 0] += 1 }
      stacks.append(
        Observation(stack: WeightedStack(frames: frames, time: time), age: sample.age, cpuTime: sample.cpuTime)
      )
    }
  }

  /// The time that each of `samples` stands for: an instant belongs to the sample nearest to it, so the border between
  /// two is halfway, the first sample has all before it and the last all after it.
  static func times(of samples: [Sample], duration: Duration) -> [Duration] {
    samples.indices.map { index in
      let begin = index == 0 ? .zero : (samples[index - 1].age + samples[index].age) / 2
      let end = index == samples.count - 1 ? duration : (samples[index].age + samples[index + 1].age) / 2
      return max(.zero, end - begin)
    }
  }

  private static func frames(of stack: Stack, _ resolve: (StackFrame) -> [ResolvedFrame]) -> [WeightedStack.Frame] {
    stack.frames.reversed()
      .flatMap { resolve($0).reversed() }
      .map {
        WeightedStack.Frame(
          identity: FunctionIdentity($0),
          resolved: $0,
          isApplication: CodeOwner.isApplication($0)
        )
      }
  }

  /// What `function` took of the stall, on every stack that contains it; or of the stacks where `caller` called it.
  func claim(on function: FunctionIdentity, calledBy caller: FunctionIdentity? = nil) -> Claim {
    func contains(_ frames: [WeightedStack.Frame]) -> Int? {
      frames.indices.last { index in
        frames[index].identity == function && (caller == nil || index > 0 && frames[index - 1].identity == caller)
      }
    }
    var places: [ResolvedFrame: Duration] = [:]
    var time = Duration.zero
    var count = 0
    for observation in stacks {
      guard let place = contains(observation.stack.frames) else { continue }
      time += observation.stack.time
      count += 1
      places[observation.stack.frames[place].resolved, default: .zero] += observation.stack.time
    }
    let heaviest = places.max { $0.value != $1.value ? $0.value < $1.value : $0.key.address > $1.key.address }?.key
    return Claim(
      frame: heaviest ?? ResolvedFrame(function: function.name, module: function.module, address: 0),
      share: share(of: time),
      sampleCount: count,
      processorUse: processorUse { contains($0) != nil }
    )
  }

  /// `time` as a part of the stall.
  func share(of time: Duration) -> Share {
    Share(time: time, of: duration, weights: stacks.map { $0.stack.time.inSeconds })
  }

  /// How much the thread used a processor between neighbouring samples whose stacks both satisfy `condition`.
  func processorUse(where condition: ([WeightedStack.Frame]) -> Bool) -> Double? {
    var used = Duration.zero
    var passed = Duration.zero
    for (earlier, later) in zip(stacks, stacks.dropFirst()) {
      guard let before = earlier.cpuTime, let after = later.cpuTime, after >= before, later.age > earlier.age,
        condition(earlier.stack.frames), condition(later.stack.frames)
      else { continue }
      used += after - before
      passed += later.age - earlier.age
    }
    return passed > .zero ? min(1, used.inSeconds / passed.inSeconds) : nil
  }

  /// Why there is no stack at all.
  var failureText: String {
    guard let (outcome, _) = failures.max(by: { $0.value < $1.value }) else { return "no sample was taken" }
    return outcome == .captured ? "the stacks are lost" : outcome.explanation
  }
}
