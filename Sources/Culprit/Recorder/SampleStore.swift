import CulpritStallRecord

/// The samples of one work item, in bounded memory.
///
/// At the limit, every second sample of each thread is dropped and the stride doubles, so shares of time stay correct.
/// The first sample and the last few are always kept.
struct SampleStore {
  /// Maximum number of samples, not counting the last few.
  static let limit = 2048

  static let lastCount = 10

  /// A kept sample. A task that stays suspended with one stack has one body at many ages.
  private struct Kept {
    var age: Duration
    /// Index into ``bodies``. The age of the body can differ.
    var body: Int
  }

  private var spread: [Kept] = []
  private var bodies: [Sample] = []
  private var lastBody: Int?
  private struct Last {
    var sample: Sample
    var stack: Stack?
    /// Whether the sample has ever been in ``spread`` or has left the store.
    var wasKept: Bool
    /// Whether the sample is in ``spread``.
    var isKept: Bool
  }

  private var last: [Last] = []
  private var table = StackTable()
  /// One sample of `stride` is kept. `skipped` counts each thread's samples since the last kept one.
  private var stride = 1
  private var skipped: [Int32?: Int] = [:]

  /// A sample's `stack` is an index into the stacks.
  var content: (samples: [Sample], stacks: [Stack]) {
    var table = table
    let rest = last.filter { !$0.isKept }
      .map { entry in
        var kept = entry.sample
        kept.stack = entry.stack.map { table.place(of: $0) }
        return kept
      }
    let spread = spread.map { sample(of: $0) }
    return (rest.isEmpty ? spread : (spread + rest).ordered { $0.age < $1.age }, table.stacks)
  }

  var isEmpty: Bool { last.isEmpty }

  var latestStack: Stack? { last.last { $0.stack != nil }?.stack }

  /// Returns the most recent samples that were not kept permanently, each once.
  mutating func takeLastBeside() -> [(sample: Sample, stack: Stack?)] {
    let beside = last.filter { !$0.wasKept }.map { ($0.sample, $0.stack) }
    for index in last.indices { last[index].wasKept = true }
    return beside
  }

  /// Adds a sample. Returns `false` if it is kept only while it is among the most recent.
  @discardableResult
  mutating func add(_ sample: Sample, stack: Stack?) -> Bool {
    let count = skipped[sample.threadID, default: stride - 1] + 1
    let isSpread = count >= stride
    skipped[sample.threadID] = isSpread ? 0 : count
    if isSpread {
      if spread.count == Self.limit { thin() }
      lastBody = addBody(sample, stack)
      spread.append(Kept(age: sample.age, body: bodies.count - 1))
    } else {
      lastBody = nil
    }
    if last.count == Self.lastCount { last.removeFirst() }
    last.append(Last(sample: sample, stack: stack, wasKept: isSpread, isKept: isSpread))
    return isSpread
  }

  /// Repeats the last sample at `age`, for a task that is still suspended; `nil` if the sample shows no suspension.
  /// Returns whether the repetition was kept.
  mutating func repeatLast(at age: Duration) -> (sample: Sample, stack: Stack?, isKept: Bool)? {
    guard let entry = last.last, entry.sample.activity == .suspended else { return nil }
    var sample = entry.sample
    sample.age = age
    let count = skipped[sample.threadID, default: stride - 1] + 1
    let isSpread = count >= stride
    skipped[sample.threadID] = isSpread ? 0 : count
    guard isSpread else { return (sample, entry.stack, false) }
    if spread.count == Self.limit { thin() }
    let body = lastBody ?? addBody(sample, entry.stack)
    spread.append(Kept(age: age, body: body))
    lastBody = body
    return (sample, entry.stack, true)
  }

  private mutating func addBody(_ sample: Sample, _ stack: Stack?) -> Int {
    var kept = sample
    kept.stack = stack.map { table.place(of: $0) }
    bodies.append(kept)
    return bodies.count - 1
  }

  private func sample(of kept: Kept) -> Sample {
    var sample = bodies[kept.body]
    sample.age = kept.age
    return sample
  }

  private struct Moment: Hashable {
    var age: Duration
    var threadID: Int32?
  }

  private mutating func thin() {
    stride *= 2
    let old = (kept: spread, bodies: bodies, stacks: table.stacks)
    (spread, bodies, lastBody) = ([], [], nil)
    table = StackTable()
    var seen: [Int32?: Int] = [:]
    var places: [Int: Int] = [:]
    for kept in old.kept {
      let body = old.bodies[kept.body]
      let number = seen[body.threadID, default: 0]
      seen[body.threadID] = number + 1
      guard number % 2 == 0 else { continue }
      let place = places[kept.body] ?? addBody(body, body.stack.map { old.stacks[$0] })
      places[kept.body] = place
      spread.append(Kept(age: kept.age, body: place))
    }
    let ages = Set(spread.map { Moment(age: $0.age, threadID: bodies[$0.body].threadID) })
    for index in last.indices where last[index].isKept {
      let sample = last[index].sample
      last[index].isKept = ages.contains(Moment(age: sample.age, threadID: sample.threadID))
    }
  }
}
