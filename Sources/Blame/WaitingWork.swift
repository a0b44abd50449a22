import CulpritStallRecord

/// Whether a queue took up waiting work during its stall.
package enum QueueProgress: Hashable, Sendable {
  /// The first waiting item was unchanged in `samples` consecutive samples, more than half of all known ones: the
  /// current work did not end.
  case stoodStill(samples: Int, of: Int)
  /// The queue took up waiting work between the given number of neighbouring samples: it had more work than it could
  /// do.
  case moved(between: Int, of: Int)
}

/// The work that waited in a queue during its stall.
package struct WaitingWork: Hashable, Sendable {
  /// The maximum number of items, without the probe.
  package var most: Int
  /// Whether there might have been more.
  package var isLowerBound: Bool
  /// The longest observed wait of an item; `nil` if unknown.
  package var oldest: Duration?

  /// Creates waiting work.
  package init(most: Int, isLowerBound: Bool = false, oldest: Duration? = nil) {
    self.most = most
    self.isLowerBound = isLowerBound
    self.oldest = oldest
  }
}

extension Stall {
  /// The progress of the queue; `nil` if the source is not a queue or there are too few samples.
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

  /// The work that waited in the queue; `nil` if the source is not a queue or nothing was counted.
  var waitingWork: WaitingWork? {
    guard source.hasQueue, let most = samples.map(\.waitingCount).max(), most > 0 else { return nil }
    // Work that the pool has accepted but not started is in another list, possibly with the probe.
    let isPool = source.kind == .pool
    guard !isPool || most > 1 else { return nil }
    return WaitingWork(
      most: Int(most) - 1,
      isLowerBound: isPool || most >= Sample.waitingCountMax,
      oldest: longestWait
    )
  }

  /// The longest observed time without progress, during which the waiting work kept waiting; `nil` if there is none.
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
  /// Whether the source has a queue of waiting work.
  fileprivate var hasQueue: Bool { kind == .queue || kind == .executor || kind == .pool }
}
