/// Chooses some samples of many that stand for all: one at random of each block of equally many.
///
/// What a report says of a stall is as good with tens of thousands of samples as with millions, and they need not fit into
/// memory. A sample that is due at every so many others would always be of the same thread where several take turns. The same
/// samples are chosen each time.
struct SampleSelection {
  /// Chosen are at least so many, where there are as many, and less than twice as many.
  private let count: Int
  private var blockSize = 1
  /// Where the next sample is in its block, and which one of the block is chosen; -1 where that one is chosen already.
  private var position = 0
  private var chosen = 0
  private var random: UInt64 = 0x9e37_79b9_7f4a_7c15
  /// The last sample and the last one with counts of the kernel's, unless they are chosen: differences are taken from the first
  /// one to them.
  private var last: Sample?
  private var lastCounted: Sample?
  /// How many there were.
  private(set) var total = 0

  /// Chooses `count` samples or more; all, if there are less than twice as many.
  init(atLeast count: Int) { self.count = Swift.max(1, count) }

  /// Puts `sample` to the `chosen` ones, or not.
  mutating func add(_ sample: Sample, to samples: inout [Sample]) {
    total += 1
    let isChosen = position == chosen
    advance()
    last = isChosen ? nil : sample
    if sample.evidence.counters != nil { lastCounted = isChosen ? nil : sample }
    guard isChosen else { return }
    samples.append(sample)
    // The bound is one that doubling cannot overflow.
    if samples.count / 2 >= count, samples.count.isMultiple(of: 2) { halve(&samples) }
  }

  /// Puts to the chosen ones what must not be missing at the end.
  mutating func finish(_ samples: inout [Sample]) {
    let missing = [lastCounted, last].compactMap { $0 }
    samples += lastCounted == last ? missing.suffix(1) : missing
    (last, lastCounted) = (nil, nil)
  }

  private mutating func advance() {
    position += 1
    guard position == blockSize else { return }
    position = 0
    chosen = blockSize == 1 ? 0 : Int(next() % UInt64(blockSize))
  }

  /// Leaves one of each two blocks. The last block is complete, or its sample is chosen.
  private mutating func halve(_ samples: inout [Sample]) {
    for pair in 0..<samples.count / 2 { samples[pair] = samples[2 * pair + (pair > 0 && next() & 1 != 0 ? 1 : 0)] }
    samples.removeLast(samples.count / 2)
    if position > 0 {
      position += blockSize
      chosen = -1
    }
    blockSize *= 2
    if position == 0 { chosen = Int(next() % UInt64(blockSize)) }
  }

  /// The next number of xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016).
  private mutating func next() -> UInt64 {
    random ^= random >> 12
    random ^= random << 25
    random ^= random >> 27
    return (random &* 0x2545_f491_4f6c_dd1d) >> 32
  }
}

extension Stall {
  /// So many samples tell who is to blame to a fifth of a percent.
  package static let samplesForReport = 50_000

  /// The stall with `count` samples or more, but less than twice as many, which are chosen from all evenly.
  package func withSamples(_ count: Int) -> Stall {
    guard samples.count / 2 >= count else { return self }
    var result = self
    result.samples = []
    var selection = SampleSelection(atLeast: count)
    for sample in samples { selection.add(sample, to: &result.samples) }
    selection.finish(&result.samples)
    result.leftOutSamples += samples.count - result.samples.count
    return result
  }
}
