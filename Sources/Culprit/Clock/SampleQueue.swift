import CCulpritObserver

/// The due samples of one pass of a sampler, in order of importance.
///
/// A pass takes at most ``limit`` samples, which bounds the wait of a work item that becomes important. The
/// ``protectedMax`` most important work items are sampled regardless of the CPU budget.
struct SampleQueue: ~Copyable {
  enum Worker {
    /// One or several threads to which the source is bound.
    case thread
    /// A task that is running or has not been sampled.
    case task
    /// A task that was suspended at its last sample.
    case suspended
  }

  private let limit = 128
  private let suspendedRank: UInt64 = 128
  let protectedMax = 8
  /// Keys and slots of the due samples, in ascending order.
  private let keys: UnsafeMutablePointer<UInt64>
  private let indices: UnsafeMutablePointer<Int>
  /// Ranks and slots of the protected work items, in ascending order.
  private let protected: UnsafeMutablePointer<UInt64>
  private(set) var count = 0
  /// Number of due samples, including those beyond ``limit``.
  private(set) var dueCount = 0
  private(set) var protectedCount = 0
  private(set) var followedCount = 0

  init() {
    keys = .allocate(capacity: limit)
    indices = .allocate(capacity: limit)
    protected = .allocate(capacity: protectedMax)
  }

  deinit {
    // SAFETY: allocated by this value's initializer, and not shared.
    keys.deallocate()
    indices.deallocate()
    protected.deallocate()
  }

  /// Returns the rank of a work item, below 256; the lowest is sampled first.
  ///
  /// Sources bound to threads come before tasks, running tasks before suspended ones. Within a group, work items
  /// closest to their thresholds come first.
  @_noLocks static func rank(_ worker: Worker, age: UInt64, threshold: UInt64) -> UInt64 {
    let distance = age > threshold ? age &- threshold : threshold &- age
    let units = distance / max(1, threshold / 64)
    let level = UInt64(min(63, UInt64.bitWidth - units.leadingZeroBitCount))
    switch worker {
    case .thread: return level
    case .task: return 64 | level
    case .suspended: return 128 | level
    }
  }

  @_noLocks mutating func removeAll() { (count, dueCount, protectedCount, followedCount) = (0, 0, 0, 0) }

  /// Adds a work item. Within a rank, the earliest `lastSample` comes first; 0: none.
  @_noLocks mutating func add(_ index: Int, rank: UInt64, lastSample: UInt64, isDue: Bool) {
    followedCount &+= 1
    if rank < suspendedRank { protect(rank << 32 | UInt64(truncatingIfNeeded: index)) }
    guard isDue else { return }
    dueCount &+= 1
    let key = rank << 56 | lastSample >> 8
    guard count < limit || key < keys[limit &- 1] else { return }
    var place = min(count, limit &- 1)
    while place > 0, keys[place &- 1] > key {
      keys[place] = keys[place &- 1]
      indices[place] = indices[place &- 1]
      place &-= 1
    }
    keys[place] = key
    indices[place] = index
    count = min(count &+ 1, limit)
  }

  /// Counts the work item of a suspended task that is not due.
  @_noLocks mutating func addSuspended() { followedCount &+= 1 }

  @_noLocks private mutating func protect(_ rank: UInt64) {
    guard protectedCount < protectedMax || rank < protected[protectedMax &- 1] else { return }
    var place = min(protectedCount, protectedMax &- 1)
    while place > 0, protected[place &- 1] > rank {
      protected[place] = protected[place &- 1]
      place &-= 1
    }
    protected[place] = rank
    protectedCount = min(protectedCount &+ 1, protectedMax)
  }

  @_noLocks func index(_ place: Int) -> Int { indices[place] }

  @_noLocks func protectedIndex(_ place: Int) -> Int { Int(truncatingIfNeeded: protected[place] & 0xffff_ffff) }
}

struct LastSample: BitwiseCopyable {
  private var item: UInt64 = 0
  private var time: UInt64 = 0
  /// A hash of the suspended task and its stack; 0 if the task was not suspended.
  private var place: UInt64 = 0

  @_noLocks func time(_ item: UInt64) -> UInt64 { item == self.item ? time : 0 }

  /// Whether the last sample of `item` found its task suspended; at `place`, if given.
  @_noLocks func isSuspended(_ item: UInt64, at place: UInt64? = nil) -> Bool {
    item == self.item && self.place != 0 && (place == nil || place == self.place)
  }

  @_noLocks mutating func begin(_ item: UInt64, _ time: UInt64) {
    if item != self.item { place = 0 }
    (self.item, self.time) = (item, time)
  }

  @_noLocks mutating func sample(_ item: UInt64, at place: UInt64 = 0) {
    guard item == self.item else { return }
    self.place = place
  }

  /// Returns a hash of suspended task `id`, its label and the hash of its whole stack: two continuations can have equal
  /// context addresses and resume functions.
  @_noLocks static func place(_ id: UInt32, stack: UInt64, _ label: observer_label) -> UInt64 {
    var label = label
    let hash = (observer_label_hash(&label) ^ UInt64(id)) &* 0x9e37_79b9_7f4a_7c15
    return ((hash ^ (hash >> 29)) &+ stack) | 1
  }
}
