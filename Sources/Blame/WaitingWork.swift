import CulpritStallRecord

extension Stall {
  var queueProgress: StallReport.QueueProgress? {
    let seen = samples.filter { $0.progress != 0 }.ordered { $0.age < $1.age }
    guard source.hasQueue, seen.count >= 2 else { return nil }
    var (run, longest, changes) = (1, 1, 0)
    for (one, next) in zip(seen, seen.dropFirst()) {
      if one.progress != next.progress { changes += 1 }
      run = one.progress == next.progress ? run + 1 : 1
      longest = max(longest, run)
    }
    return longest * 2 > seen.count
      ? StallReport.QueueProgress(stoodStill: true, samples: longest, of: seen.count)
      : StallReport.QueueProgress(stoodStill: false, samples: changes, of: seen.count - 1)
  }

  var waitingWork: StallReport.WaitingWork? {
    guard source.hasQueue, let most = samples.map(\.waitingCount).max(), most > 0 else { return nil }
    // Accepted but unstarted work of the pool is in another list, possibly with the probe.
    let isPool = source.kind == .pool
    guard !isPool || most > 1 else { return nil }
    return StallReport.WaitingWork(
      count: Int(most) - 1,
      isLowerBound: isPool || most >= Sample.waitingCountMax,
      oldestSeconds: longestWait.map { Seconds($0) }
    )
  }

  private var longestWait: Duration? {
    var (longest, since): (Duration?, Duration?) = (nil, nil)
    var progress: UInt32 = 0
    for sample in samples.ordered(by: { $0.age < $1.age }) {
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
  fileprivate var hasQueue: Bool { kind == .queue || kind == .executor || kind == .pool }
}
