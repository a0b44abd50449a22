import CulpritStallRecord

/// The samples of threads that held what a work item's threads waited for, in bounded memory: when there are too many, every second
/// one is dropped, and from then on only half as many are kept.
struct HolderStore {
  /// The most that are kept.
  static let limit = 1024

  /// Those that are kept; the stack of each is a place in ``table``.
  private(set) var samples: [HolderSample] = []
  private(set) var table = StackTable()
  private var stride = 1
  /// So many have come of each thread, whether they were kept or not.
  private var seen: [Int32: Int] = [:]

  /// Adds `holder`, with its stack when there is one. Returns whether it is kept.
  mutating func add(_ holder: HolderSample, stack: Stack?) -> Bool {
    let count = seen[holder.thread.id, default: 0]
    seen[holder.thread.id] = count + 1
    guard count % stride == 0 else { return false }
    if samples.count == Self.limit { thin() }
    var kept = holder
    kept.sample.stack = stack.map { table.place(of: $0) }
    samples.append(kept)
    return true
  }

  private mutating func thin() {
    stride *= 2
    let old = (samples: samples, stacks: table.stacks)
    (samples, table) = ([], StackTable())
    var numbers: [Int32: Int] = [:]
    for holder in old.samples {
      let number = numbers[holder.thread.id, default: 0]
      numbers[holder.thread.id] = number + 1
      guard number % 2 == 0 else { continue }
      var kept = holder
      kept.sample.stack = holder.sample.stack.map { table.place(of: old.stacks[$0]) }
      samples.append(kept)
    }
  }
}
