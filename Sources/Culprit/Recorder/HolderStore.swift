import CulpritStallRecord

/// The samples of lock owners of one work item, thinned like ``SampleStore``.
struct HolderStore {
  static let limit = 2048
  static let threadsMax = 256

  /// The kept samples. The stack of each is an index into ``table``.
  private(set) var samples: [HolderSample] = []
  private(set) var table = StackTable()
  private var stride = 1
  /// For each thread, the number of samples since the last kept one.
  private var skipped: [Int32: Int] = [:]
  private var strangers = 0

  /// Returns whether the sample is kept.
  mutating func add(_ holder: HolderSample, stack: Stack?) -> Bool {
    if skipped.count >= Self.threadsMax, skipped[holder.thread.id] == nil { skipped = [:] }
    // Initial counts differ between threads. With the maximum for each, every first sample would be kept.
    let count = (skipped[holder.thread.id] ?? stride - 1 - strangers % stride) + 1
    if skipped[holder.thread.id] == nil { strangers += 1 }
    guard count >= stride else {
      skipped[holder.thread.id] = count
      return false
    }
    skipped[holder.thread.id] = 0
    if samples.count >= Self.limit { thin() }
    var kept = holder
    kept.sample.stack = stack.map { table.place(of: $0) }
    samples.append(kept)
    return true
  }

  private mutating func thin() {
    stride *= 2
    let old = (samples: samples, stacks: table.stacks)
    var numbers: [Int32: Int] = [:]
    var left = old.samples.filter { holder in
      let number = numbers[holder.thread.id, default: 0]
      numbers[holder.thread.id] = number + 1
      return number % 2 == 0
    }
    // If most threads have a single sample, thinning each thread drops nothing.
    if left.count > Self.limit * 3 / 4 { left = left.enumerated().filter { $0.offset % 2 == 0 }.map(\.element) }
    table = StackTable()
    samples = left.map { holder in
      var kept = holder
      kept.sample.stack = holder.sample.stack.map { table.place(of: old.stacks[$0]) }
      return kept
    }
  }
}
