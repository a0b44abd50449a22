import StallRecord

/// The samples of one unit of work, in bounded memory.
///
/// Equal stacks are kept once. When there are too many samples, every second one is dropped and from then on only half as
/// many are kept: the time that each stands for doubles, shares stay what they are.
struct SampleStore {
  /// The most samples that are kept.
  static let limit = 2048

  /// The samples; their `stack` is an index into ``stacks``.
  private(set) var samples: [Sample] = []
  /// The distinct stacks.
  private(set) var stacks: [Stack] = []
  private var places: [Stack: Int] = [:]
  /// One sample of so many is kept, and so many have come since the last one that was.
  private var stride = 1
  private var skipped = 0

  /// Adds a sample, with its stack when there is one. Returns `false` when it was dropped.
  @discardableResult
  mutating func add(_ sample: Sample, stack: Stack?) -> Bool {
    skipped += 1
    guard skipped >= stride else { return false }
    skipped = 0
    if samples.count == Self.limit { thin() }
    var kept = sample
    kept.stack = stack.map { place(of: $0) }
    samples.append(kept)
    return true
  }

  private mutating func place(of stack: Stack) -> Int {
    if let place = places[stack] { return place }
    places[stack] = stacks.count
    stacks.append(stack)
    return stacks.count - 1
  }

  private mutating func thin() {
    stride *= 2
    let old = (samples: samples, stacks: stacks)
    samples = []
    stacks = []
    places = [:]
    for (index, sample) in old.samples.enumerated() where index % 2 == 0 {
      var kept = sample
      kept.stack = sample.stack.map { place(of: old.stacks[$0]) }
      samples.append(kept)
    }
  }
}
