/// Selects representative samples from many: a random sample of each block of equal size.
///
/// Tens of thousands of samples are as good for a report as millions, and fit into memory. A selection at fixed
/// intervals might hit only one of several alternating threads.
struct SampleSelection {
  /// Minimum number of selected samples, if available. The maximum is less than twice as large.
  private let count: Int
  private var blockSize = 1
  private var position = 0
  private var chosen = 0
  private var random: UInt64 = 0x9e37_79b9_7f4a_7c15
  /// The last sample, and the last sample with kernel counters, unless selected. Both are needed for the differences
  /// from the first to the last sample.
  private var last: Sample?
  private var lastCounted: Sample?
  private(set) var total = 0

  init(atLeast count: Int) { self.count = Swift.max(1, count) }

  mutating func add(_ sample: Sample, to samples: inout [Sample]) {
    total += 1
    let isChosen = position == chosen
    advance()
    last = isChosen ? nil : sample
    if sample.evidence.counters != nil { lastCounted = isChosen ? nil : sample }
    guard isChosen else { return }
    samples.append(sample)
    // Divides to avoid an overflow.
    if samples.count / 2 >= count, samples.count.isMultiple(of: 2) { halve(&samples) }
  }

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

  /// Requires that the last block is complete, or that its sample is selected.
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

  /// Returns the next number of xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators",
  /// 2016).
  private mutating func next() -> UInt64 {
    random ^= random >> 12
    random ^= random << 25
    random ^= random >> 27
    return (random &* 0x2545_f491_4f6c_dd1d) >> 32
  }
}

extension Stall {
  /// Number of samples with which shares are accurate to a fifth of a percent.
  package static let samplesForReport = 50_000

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
