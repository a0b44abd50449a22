import CulpritStallRecord

/// The samples of one work item, in bounded memory.
///
/// Equal stacks are kept once. When there are too many samples, every second one of each thread is dropped and from then on
/// only half as many are kept: the time that each stands for doubles, shares stay what they are. The first and the last few are
/// kept whatever becomes of those between them.
struct SampleStore {
  /// The most samples that are kept, but for the last few.
  static let limit = 2048

  /// How many of the last ones are kept in any case.
  static let lastCount = 10

  /// A sample that is kept: a task that stays where it is suspended has one sample at many ages.
  private struct Kept {
    var age: Duration
    /// The place of its sample in ``bodies``, whose age may be another one.
    var body: Int
  }

  private var spread: [Kept] = []
  private var bodies: [Sample] = []
  /// The body of the last sample, where it has one.
  private var lastBody: Int?
  private struct Last {
    var sample: Sample
    var stack: Stack?
    /// Whether it was kept for good when it came, or has been taken since, and whether it still is kept.
    var wasKept: Bool
    var isKept: Bool
  }

  /// The last ones with their stacks, some of which are in ``spread``, too.
  private var last: [Last] = []
  private var table = StackTable()
  /// One sample of so many is kept, and so many of each thread have come since the last one of it that was.
  private var stride = 1
  private var skipped: [Int32?: Int] = [:]

  /// The samples and the distinct stacks: a sample's `stack` is an index into them.
  var content: (samples: [Sample], stacks: [Stack]) {
    var table = table
    let rest = last.filter { !$0.isKept }
      .map { entry in
        var kept = entry.sample
        kept.stack = entry.stack.map { table.place(of: $0) }
        return kept
      }
    let spread = spread.map { sample(of: $0) }
    return (rest.isEmpty ? spread : (spread + rest).sorted { $0.age < $1.age }, table.stacks)
  }

  /// The stack that was taken last.
  var latestStack: Stack? { last.last { $0.stack != nil }?.stack }

  /// Those of the last ones that ``add(_:stack:)`` did not keep for good; each once.
  mutating func takeLastBeside() -> [(sample: Sample, stack: Stack?)] {
    let beside = last.filter { !$0.wasKept }.map { ($0.sample, $0.stack) }
    for index in last.indices { last[index].wasKept = true }
    return beside
  }

  /// Adds a sample, with its stack when there is one. Returns `false` when it is kept as one of the last only.
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

  /// Adds the last sample once more, at `age`: its task has stayed where it was suspended.
  ///
  /// - Returns: The sample with its stack, and whether it was kept; `nil` where the last sample is not of a suspended task.
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

  /// Adds a body. Returns its place.
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
    // Which of the last ones are left is known by their ages.
    let ages = Set(spread.map { Moment(age: $0.age, threadID: bodies[$0.body].threadID) })
    for index in last.indices where last[index].isKept {
      let sample = last[index].sample
      last[index].isKept = ages.contains(Moment(age: sample.age, threadID: sample.threadID))
    }
  }
}
