import CulpritStallRecord

/// The samples of threads that held what a work item's threads waited for, in bounded memory: when there are too many, every second
/// one of each thread is dropped, and from then on only half as many of each are kept.
struct HolderStore {
  /// The most that are kept.
  static let limit = 2048
  /// The most threads of which it is known how many samples have come.
  static let threadsMax = 256

  /// Those that are kept; the stack of each is a place in ``table``.
  private(set) var samples: [HolderSample] = []
  private(set) var table = StackTable()
  private var stride = 1
  /// So many have come of each thread since the last one that was kept.
  private var skipped: [Int32: Int] = [:]
  /// So many threads have come that were not known.
  private var strangers = 0

  /// Adds `holder`, with its stack when there is one. Returns whether it is kept.
  mutating func add(_ holder: HolderSample, stack: Stack?) -> Bool {
    if skipped.count >= Self.threadsMax, skipped[holder.thread.id] == nil { skipped = [:] }
    // Each new one would be the first of its thread, and where threads come once each all of them would be kept.
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
    // Of threads that came once each every one is the first.
    if left.count > Self.limit * 3 / 4 { left = left.enumerated().filter { $0.offset % 2 == 0 }.map(\.element) }
    table = StackTable()
    samples = left.map { holder in
      var kept = holder
      kept.sample.stack = holder.sample.stack.map { table.place(of: old.stacks[$0]) }
      return kept
    }
  }
}
