import CulpritStallRecord

/// What the application had said of the work, and for how much of the stall.
package struct LabelShare: Hashable, Sendable {
  /// The label.
  package var label: String
  /// The time of the samples that carry it.
  package var share: Share
}

/// Whether a queue took up waiting work during its stall.
package enum QueueProgress: Hashable, Sendable {
  /// The same work waited first in so many samples in a row of all that tell, more than half: what was under way did not end.
  case stoodStill(samples: Int, of: Int)
  /// Waiting work was taken up between so many of so many neighbouring samples: there was more than the queue could do.
  case moved(between: Int, of: Int)
}

extension Observations {
  /// How the time divides between labels, the longest first; empty when there are none.
  var labels: [LabelShare] {
    var sums: [String: Duration] = [:]
    for (sample, time) in sampleTimes where !sample.label.isEmpty { sums[sample.label, default: .zero] += time }
    let weights = sampleTimes.map(\.time.inSeconds)
    return sums.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
      .map { LabelShare(label: $0.key, share: Share(time: $0.value, of: duration, weights: weights)) }
  }

  /// How long no thread ran the task that worked; `nil` where one always did.
  var taskTimes: TaskTimes? {
    var sums = TaskTimes(suspended: .zero, ready: .zero)
    for (sample, time) in sampleTimes {
      if sample.isInTheWay || sample.activity == .enqueued {
        sums.ready += time
      } else if sample.activity == .suspended {
        sums.suspended += time
      }
    }
    return sums.ready + sums.suspended > .zero ? sums : nil
  }
}

extension Stall {
  /// Whether the queue moved on; `nil` for what is no queue, or when too little was seen.
  var queueProgress: QueueProgress? {
    let seen = samples.filter { $0.progress != 0 }.sorted { $0.age < $1.age }
    guard source.kind == .queue || source.kind == .executor, seen.count >= 2 else { return nil }
    var (run, longest, changes) = (1, 1, 0)
    for (one, next) in zip(seen, seen.dropFirst()) {
      if one.progress != next.progress { changes += 1 }
      run = one.progress == next.progress ? run + 1 : 1
      longest = max(longest, run)
    }
    if longest * 2 > seen.count { return .stoodStill(samples: longest, of: seen.count) }
    return .moved(between: changes, of: seen.count - 1)
  }
}
