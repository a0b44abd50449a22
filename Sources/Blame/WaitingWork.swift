import CulpritStallRecord

/// Whether a queue took up waiting work during its stall.
package enum QueueProgress: Hashable, Sendable {
  /// The same work waited first in so many samples in a row of all that tell, more than half: what was under way did not end.
  case stoodStill(samples: Int, of: Int)
  /// Waiting work was taken up between so many of so many neighbouring samples: there was more than the queue could do.
  case moved(between: Int, of: Int)
}

/// What waited in a queue during its stall.
package struct WaitingWork: Hashable, Sendable {
  /// The most that was found at a time, the probe left out.
  package var most: Int
  /// Whether there may have been more.
  package var isLowerBound: Bool
  /// How long the oldest of it was seen to wait, at least; `nil` where that is not known.
  package var oldest: Duration?

  /// So much waited.
  package init(most: Int, isLowerBound: Bool = false, oldest: Duration? = nil) {
    self.most = most
    self.isLowerBound = isLowerBound
    self.oldest = oldest
  }
}

extension Stall {
  /// Whether the queue moved on; `nil` for what is no queue, or when too little was seen.
  var queueProgress: QueueProgress? {
    let seen = samples.filter { $0.progress != 0 }.sorted { $0.age < $1.age }
    guard source.hasQueue, seen.count >= 2 else { return nil }
    var (run, longest, changes) = (1, 1, 0)
    for (one, next) in zip(seen, seen.dropFirst()) {
      if one.progress != next.progress { changes += 1 }
      run = one.progress == next.progress ? run + 1 : 1
      longest = max(longest, run)
    }
    if longest * 2 > seen.count { return .stoodStill(samples: longest, of: seen.count) }
    return .moved(between: changes, of: seen.count - 1)
  }

  /// What waited in the queue; `nil` for what is no queue, or when it was not counted.
  var waitingWork: WaitingWork? {
    guard source.hasQueue, let most = samples.map(\.waitingCount).max(), most > 0 else { return nil }
    // What the pool has taken on and no thread has begun is in another list, the probe perhaps with it.
    let isPool = source.kind == .pool
    guard !isPool || most > 1 else { return nil }
    return WaitingWork(
      most: Int(most) - 1,
      isLowerBound: isPool || most >= Sample.waitingCountMax,
      oldest: longestWait
    )
  }

  /// What waits goes on waiting as long as nothing is taken up: the longest such time that was seen; `nil` where there is none.
  private var longestWait: Duration? {
    var (longest, since): (Duration?, Duration?) = (nil, nil)
    var progress: UInt32 = 0
    for sample in samples.sorted(by: { $0.age < $1.age }) {
      if sample.progress != 0 {
        if progress != 0, sample.progress != progress { since = nil }
        progress = sample.progress
      }
      if let since {
        if sample.waitingCount > 0 { longest = max(longest ?? .zero, sample.age - since) }
      } else if sample.waitingCount > 1 {
        since = sample.age
      }
    }
    return longest
  }
}

extension WatchedSource {
  /// Whether work waits in a queue for its turn here.
  fileprivate var hasQueue: Bool { kind == .queue || kind == .executor || kind == .pool }
}
